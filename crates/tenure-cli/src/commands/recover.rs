//! `tenure recover`: ends stale leases, and explains why the others are kept. It is always safe and
//! never asks.

use std::process::ExitCode;

use clap::Args;
use tenure::LeaseState;
use tenure::leases::Finding;
use tenure_api::leases::{self, Stale};
use tenure_api::publish::{Outcome, Recovered};

use crate::cli::Global;
use crate::output::{self, word};
use crate::people::visible;
use crate::report::{Failure, render};
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Recover {
    /// Only say which leases could be recovered, and why the others could not
    #[arg(long)]
    pub dry_run: bool,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure recover --dry-run    which leases look stale, and why they are kept
  tenure recover              end those that are

A lease is stale when its time is over, its heartbeat is older than stale_grace
(if tenure.toml sets that), and no active job claims it; or when the session it
is bound to is proved dead. A waiter takes over by itself: this is for leases
that nobody waits for. It never takes a lease away from anyone who may still
rely on it, so it does not ask.";

/// Recovers stale leases, or only lists them.
pub fn recover(global: &Global, options: Recover) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?.on_threads()?;
    let caller = surface.caller(None)?;
    let dry_run = options.dry_run;
    let mut found = surface.call(leases::Recover { dry_run }, &caller)?;
    for manifest in &mut found.manifests {
        render(&mut manifest.reason);
    }
    surface.answer(&found, || print(&found))
}

fn print(found: &Stale) -> Result<(), Failure> {
    if found.leases.is_empty() && found.manifests.is_empty() && found.directories.is_empty() {
        word("nothing looks stale");
    }
    let leases = found.leases.iter().map(in_words);
    let manifests = found.manifests.iter().map(publish_in_words);
    let directories = found.directories.iter().map(|left| {
        let what = if left.removed { "removed" } else { "kept" };
        format!(
            "{what}: {} of manifest {}: {}",
            visible(&left.tmp),
            left.manifest,
            visible(&left.reason)
        )
    });
    output::lines(leases.chain(manifests).chain(directories))
}

/// Returns a line such as `committed: publish 0190… to /srv/tiles: its resource was free …`.
fn publish_in_words(found: &Recovered) -> String {
    let what = match found.outcome {
        Outcome::Committed => "committed",
        Outcome::Aborted => "aborted",
        Outcome::Kept => "kept",
    };
    let (manifest, reason) = (&found.manifest, visible(&found.reason.to_string()));
    format!(
        "{what}: publish {} to {}: {reason}",
        manifest.id,
        visible(&manifest.target)
    )
}

/// Returns a line such as `recovered: name:x (write) of ana@desk, lease l1: its time is over …`.
fn in_words(finding: &Finding) -> String {
    let what = match (finding.recovered, finding.recoverable) {
        (true, _) => "recovered",
        (false, true) => "can be recovered",
        (false, false) => "kept",
    };
    let lease = &finding.lease;
    let end = match lease.state {
        // Only a break ends such a lease.
        LeaseState::Unknown => format!(": tenure break {} --reason TEXT", lease.lease),
        _ => String::new(),
    };
    format!(
        "{what}: {} ({}) of {}, lease {}: {}{end}",
        lease.resource,
        lease.mode,
        lease.owner,
        lease.lease,
        visible(&finding.reason)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn every_finding_says_what_became_of_it_and_why() {
        let mut finding = Finding::kept(&lease("x"), "its heartbeat is only 1s old".into());
        finding.expired = true;
        assert_eq!(
            in_words(&finding),
            "kept: name:x (write) of ana@desk, lease l1: its heartbeat is only 1s old"
        );
        finding.recoverable = true;
        assert!(in_words(&finding).starts_with("can be recovered: name:x"));
        finding.recovered = true;
        assert!(in_words(&finding).starts_with("recovered: name:x"));
    }

    #[test]
    fn what_only_a_person_can_end_is_told_with_the_command() {
        let mut unknown = lease("x");
        unknown.state = LeaseState::Unknown;
        let said = in_words(&Finding::kept(&unknown, "nothing proves it dead".into()));
        assert!(
            said.ends_with("proves it dead: tenure break l1 --reason TEXT"),
            "{said}"
        );
    }
}
