//! `tenure lock`: takes locks that outlive this command.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure::{Error, IdempotenceKey, Mode, Owner};
use tenure_api::leases::{Acquire, Release};
use tenure_api::text::{Span, Wanted};

use crate::cli::Global;
use crate::cli::values::{
    bytes, parse_meta, parse_mode, parse_purpose, parse_ttl, parse_wait, parse_wanted,
};
use crate::output;
use crate::report::Failure;
use crate::surface::{Surface, asked_wait};

#[derive(Debug, Args)]
pub struct Lock {
    /// How resources without =MODE are locked: read, write or upgradeable
    #[arg(long, value_name = "MODE", default_value = "write", value_parser = parse_mode(), hide_possible_values = true)]
    pub mode: Mode,
    /// How long the lease lasts unless renewed, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// Why, for people who look
    #[arg(long, value_parser = parse_purpose)]
    pub purpose: Option<String>,
    /// Kept with the lease, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_meta)]
    pub meta: Option<Value>,
    /// Your name for this request: asked again with it, you get the same leases, for 24h
    #[arg(long, value_name = "KEY")]
    pub key: Option<IdempotenceKey>,
    /// What to lock
    #[arg(required = true, value_name = "RESOURCE[=MODE]", value_parser = bytes(parse_wanted))]
    pub resources: Vec<Wanted>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  lease=$(tenure lock deploy --ttl 1h --purpose 'release 4.2')
  tenure lock --no-wait map:atlas/m3=upgradeable project:atlas=read
  tenure lock build --key ci-4711            asked again: the same lease
  tenure lock deploy --json | jq -r '.leases[0].token'

The lease stays when this command ends: until it is released, or until its time
runs out and someone else wants it. Give it more time with `tenure renew` well
before that. Prints one lease id a line, in the order the locks are taken (by
kind, then by name); --json says which lease is of which resource. Several are
taken all or nothing, and their time begins when the last of them is there.

Guard what you write with the token of the lease: `tenure check` says whether
someone took over meanwhile.

Exit codes: 0 locked; 75 busy or timed out; 76 asked for in the wrong order,
held by the run around it, or the key stands for another request or for a lease
that has ended (one that only ran out of time is renewed); 78 the store keeps no
leases; 79 a person broke it before it was taken; 130 interrupted while
waiting.";

/// Takes the locks and prints their leases, in the order in which they were taken.
pub fn lock(global: &Global, options: Lock) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller_within(options.owner)?;
    let request = Acquire {
        resources: options.resources,
        mode: options.mode,
        ttl: options.ttl.map(Span),
        wait: asked_wait(options.no_wait, options.wait),
        purpose: options.purpose,
        metadata: options.meta,
        key: options.key,
    };
    let taken = surface.call_waiting(request, &caller).map_err(failure)?;
    let ids = taken.leases.iter().map(|it| it.lease.to_string());
    let printed = surface.answer(&taken, || output::lines(ids));
    if printed.is_err() {
        // The ids of the leases were not printed, so no caller could release them.
        for lease in taken.leases.iter().rev() {
            let lease = lease.lease.to_string();
            drop(surface.call(Release { lease }, &caller));
        }
    }
    printed
}

/// Returns the failure to lock. The only conflict is about the key, so its remedy is another key.
fn failure(failure: Failure) -> Failure {
    match failure {
        Failure::Error(
            error @ Error::Conflict {
                context: Some(_), ..
            },
        ) => Failure::with_remedy(error, "use another key"),
        failure => failure,
    }
}
