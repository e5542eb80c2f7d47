//! `tenure break`: a person takes a lease away from its holder.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::{Lease, LeaseId, clock, duration};
use tenure_api::leases;
use tenure_core::decide::BREAK_MS;

use crate::cli::Global;
use crate::cli::values::parse_reason;
use crate::output;
use crate::people::{can_ask, is_confirmed, record, run_unseen};
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Break {
    /// Why, for the holder and for the record
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub reason: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// The lease, as `ls` shows it
    pub lease: LeaseId,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure ls                                         find the lease
  tenure break l1 --reason 'its machine is gone'
  tenure break l1 --reason 'stuck, see #4711' --yes

For people: shows everything known of the lease and asks. Owners that are
automated (agent:*, job:*, or as tenure.toml says) are refused. Nobody else gets
the lock until its holder confirms that it stopped, or for ten seconds. A `run`
stops its command in that time and exits 79. What still runs after that is
fenced by its token as soon as somebody else takes the lock. Break is recorded,
with the reason: see `tenure audit`. The lease of a slot is found, too.

Exit codes: 0 broken; 1 not confirmed; 2 there is no terminal to ask on (use
--yes); 66 there is no such lease; 77 it is over, or you are an automated owner.";

const QUESTION: &str = "Its holder may still be at work. Break it? Type yes: ";

/// Shows the lease, asks, and breaks it.
pub fn break_lease(global: &Global, options: Break) -> Result<ExitCode, Failure> {
    if !options.yes && !can_ask() {
        return Err(Failure::usage(
            "there is no terminal to ask on, so break needs --yes",
            "look at the lease with tenure ls, and add --yes if you are sure",
        ));
    }
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    let lease = options.lease;
    // A store without leases fails with its own error.
    if surface.service.keeps_leases() {
        let find = leases::Find {
            lease: lease.clone(),
        };
        for found in surface.call(find, &caller)?.leases {
            show(&found);
        }
        if !options.yes && !is_confirmed(QUESTION).map_err(Failure::Output)? {
            return Err(Failure::Declined(format!("lease {lease} was not broken")));
        }
    }
    let reason = options.reason;
    let broken = surface.call(leases::Break { lease, reason }, &caller)?;
    surface.answer(&broken, || output::lines(broken.leases.iter().map(outcome)))
}

/// Shows all fields of the lease on standard error, where the question is.
fn show(lease: &Lease) {
    let unseen = match (run_unseen(lease), lease.command_pid) {
        (Some(unseen), Some(_)) => format!("  {unseen}\n  the break ends its command\n"),
        (Some(unseen), None) => format!("  {unseen}\n  the break does not end its command\n"),
        (None, _) => String::new(),
    };
    output::tell(&format!("{}{unseen}", record(lease)));
}

fn outcome(lease: &Lease) -> String {
    if let Some(pid) = lease.command_pid {
        let resource = &lease.resource;
        return format!("{resource} was broken, and its command, pid {pid}, was told to end");
    }
    let most = Duration::from_millis(BREAK_MS);
    format!(
        "{} is revoking: others are granted once its holder confirms that it stopped, \
         at the latest at {} ({})",
        lease.resource,
        clock::now().after(most),
        duration::show(most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn the_outcome_says_what_happens_next_and_when() {
        let said = outcome(&lease("x"));
        assert!(said.starts_with("name:x is revoking"), "{said}");
        assert!(
            said.contains("at the latest at 2") && said.contains("(10s)"),
            "{said}"
        );
    }
}
