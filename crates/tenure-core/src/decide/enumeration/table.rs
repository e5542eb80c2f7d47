//! Tests of the table on the front page of `decide`.

use std::collections::HashMap;

use super::world::every_step;
use crate::decide::*;

#[test]
fn every_row_of_the_table_occurs_and_no_other() {
    let mut rows: HashMap<String, usize> = HashMap::new();
    every_step(|step| {
        let ask = match step.ask {
            Ask::Acquire { wait: Wait::No, .. } => "acquire, not waiting",
            Ask::Acquire { .. } => "acquire, waiting",
            Ask::Accept { .. } => "accept",
            Ask::Bind { .. } => "bind",
            Ask::Renew { .. } => "renew",
            Ask::Upgrade { wait: Wait::No, .. } => "upgrade, not waiting",
            Ask::Upgrade { .. } => "upgrade, waiting",
            Ask::Downgrade { .. } => "downgrade",
            Ask::Release { .. } => "release",
            Ask::Withdraw { .. } => "withdraw",
            Ask::Break { .. } => "break",
            Ask::Look => "look",
        };
        let outcome = &step.decision.outcome;
        *rows.entry(format!("{ask}: {outcome:?}")).or_default() += 1;
    });
    let mut rows: Vec<_> = rows.into_keys().collect();
    rows.sort();
    let expected = [
        "accept: Done",
        "accept: Refused(NotHeld)",
        "accept: Refused(Revoked)",
        "acquire, not waiting: Busy",
        "acquire, not waiting: Granted",
        "acquire, not waiting: Refused(Reentry)",
        "acquire, waiting: Busy",
        "acquire, waiting: Granted",
        "acquire, waiting: Queued",
        "acquire, waiting: Refused(Reentry)",
        "bind: Done",
        "bind: Refused(NotHeld)",
        "bind: Refused(Revoked)",
        "break: Done",
        "break: Refused(NotHeld)",
        "downgrade: Done",
        "downgrade: Refused(NeverUpgraded)",
        "downgrade: Refused(NotHeld)",
        "look: Done",
        "release: Done",
        "release: Refused(NotHeld)",
        "renew: Done",
        "renew: Refused(NotHeld)",
        "renew: Refused(NotLeaseBound)",
        "renew: Refused(Revoked)",
        "upgrade, not waiting: Busy",
        "upgrade, not waiting: Granted",
        "upgrade, not waiting: Refused(AlreadyWrite)",
        "upgrade, not waiting: Refused(Expired)",
        "upgrade, not waiting: Refused(NotHeld)",
        "upgrade, not waiting: Refused(NotUpgradeable)",
        "upgrade, not waiting: Refused(Reentry)",
        "upgrade, not waiting: Refused(Revoked)",
        "upgrade, waiting: Busy",
        "upgrade, waiting: Granted",
        "upgrade, waiting: Queued",
        "upgrade, waiting: Refused(AlreadyWrite)",
        "upgrade, waiting: Refused(Expired)",
        "upgrade, waiting: Refused(NotHeld)",
        "upgrade, waiting: Refused(NotUpgradeable)",
        "upgrade, waiting: Refused(Reentry)",
        "upgrade, waiting: Refused(Revoked)",
        "withdraw: Done",
        "withdraw: Refused(NotWaiting)",
    ];
    assert_eq!(rows, expected);
}
