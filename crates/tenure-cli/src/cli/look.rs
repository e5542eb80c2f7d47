//! The words of `recover`.

use clap::Args;

#[derive(Debug, Args)]
pub struct Recover {
    /// Only say which leases could be recovered, and why the others could not
    #[arg(long)]
    pub dry_run: bool,
}
