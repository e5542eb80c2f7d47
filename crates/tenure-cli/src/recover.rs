//! `tenure recover`: ends stale leases, and explains why the others are kept. It is always safe and never
//! asks.

use std::process::ExitCode;

use serde::Serialize;
use tenure::{Finding, LeaseState, Recovery};
use tenure_work::publish::{self, Outcome, Recovered, Removed};

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::people::visible;
use crate::report::Failure;
use crate::{output, runtime};

/// Recovers stale leases, or only lists them.
pub fn recover(global: &Global, options: &cli::Recover) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let actor = context.owner(None)?;
    let recovery = match options.dry_run {
        true => Recovery::DryRun,
        false => Recovery::Real,
    };
    runtime::block_on_threads(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let leases = keeper.recover(&actor, recovery).await?;
        let (manifests, directories) = publish::recover(&keeper, &actor, recovery).await?;
        let found = StaleReport {
            leases,
            next: None,
            manifests,
            directories,
        };
        output::answer(global.json, &found, || print(&found))
    })
}

/// `{"leases":[…],"next":null,"manifests":[…],"directories":[…]}`.
#[derive(Serialize)]
struct StaleReport {
    leases: Vec<Finding>,
    next: Option<String>,
    /// Publishes that were not finished.
    manifests: Vec<Recovered>,
    /// Directories that publishes left behind.
    directories: Vec<Removed>,
}

fn print(found: &StaleReport) -> Result<(), Failure> {
    if found.leases.is_empty() && found.manifests.is_empty() && found.directories.is_empty() {
        word("nothing looks stale");
    }
    let leases = found.leases.iter().map(in_words);
    let manifests = found.manifests.iter().map(publish_in_words);
    let directories = found.directories.iter().map(|left| {
        let what = if left.removed { "removed" } else { "kept" };
        format!(
            "{what}: {} of manifest {}: {}\n",
            visible(&left.tmp),
            left.manifest,
            visible(&left.reason)
        )
    });
    output::text(
        &leases
            .chain(manifests)
            .chain(directories)
            .collect::<String>(),
    )
}

/// `committed: publish 0190… to /srv/tiles: its resource was free …`.
fn publish_in_words(found: &Recovered) -> String {
    let what = match found.outcome {
        Outcome::Committed => "committed",
        Outcome::Aborted => "aborted",
        Outcome::Kept => "kept",
    };
    let (manifest, reason) = (&found.manifest, visible(&found.reason));
    format!(
        "{what}: publish {} to {}: {reason}\n",
        manifest.id,
        visible(&manifest.target)
    )
}

/// `recovered: name:x (write) of ana@desk, lease l1: its time is over …`.
fn in_words(finding: &Finding) -> String {
    let what = match (finding.recovered, finding.recoverable) {
        (true, _) => "recovered",
        (false, true) => "can be recovered",
        (false, false) => "kept",
    };
    let lease = &finding.lease;
    let end = match lease.state {
        // Nothing else ends it.
        LeaseState::Unknown => format!(": tenure break {} --reason TEXT", lease.lease),
        _ => String::new(),
    };
    format!(
        "{what}: {} ({}) of {}, lease {}: {}{end}\n",
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
            "kept: name:x (write) of ana@desk, lease l1: its heartbeat is only 1s old\n"
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
            said.ends_with("proves it dead: tenure break l1 --reason TEXT\n"),
            "{said}"
        );
    }
}
