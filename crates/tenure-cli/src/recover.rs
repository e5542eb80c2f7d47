//! `tenure recover`: ends stale leases, and explains why the others are kept. It is always safe and never
//! asks.

use std::process::ExitCode;

use tenure::{Finding, Findings, LeaseState, Recovery};

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::output::word;
use crate::people::visible;
use crate::report::Failure;
use crate::{output, runtime};

/// Recovers stale leases, or only lists them.
pub fn recover(global: &Global, options: &cli::Recover) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let actor = owner(None)?;
    let recovery = match options.dry_run {
        true => Recovery::DryRun,
        false => Recovery::Real,
    };
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let leases = keeper.recover(&actor, recovery).await?;
        let findings = Findings::new(leases, None);
        output::answer(global.json, &findings, || print(&findings.leases))
    })
}

fn print(findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        word("nothing looks stale");
    }
    let lines = findings.iter().map(in_words);
    output::text(&lines.collect::<String>())
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
