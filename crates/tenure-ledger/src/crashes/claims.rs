//! Claims: acquired, renewed, released, reaped.

use std::time::Duration;

use tenure_os::crashes::check;

use super::protocol::{LedgerScenario as _, Scenario};
use crate::Ledger;

const ACQUIRED: &str = r#"{"type":"lock_acquired","timestamp":"2023-11-14T22:13:20Z","node_id":"1.2","owner":"ana","expires_at":"2023-11-14T22:14:20Z"}"#;
const BOS: &str = r#"{"type":"lock_acquired","timestamp":"2023-11-14T22:13:20Z","node_id":"1.2","owner":"bo","expires_at":"2023-11-14T22:14:20Z"}"#;
const BOS_OTHER: &str = r#"{"type":"lock_acquired","timestamp":"2023-11-14T22:13:20Z","node_id":"1.3","owner":"bo","expires_at":"2023-11-14T22:14:20Z"}"#;
const RENEWED: &str = r#"{"type":"lock_acquired","timestamp":"2023-11-14T22:13:50Z","node_id":"1.2","owner":"ana","expires_at":"2023-11-14T22:14:50Z"}"#;
const RELEASED: &str =
    r#"{"type":"lock_released","timestamp":"2023-11-14T22:13:50Z","node_id":"1.2","owner":"ana"}"#;
const REAPED: &str =
    r#"{"type":"lock_reaped","timestamp":"2023-11-14T22:14:20Z","node_id":"1.2","owner":"bo"}"#;
const REAPED_OTHER: &str =
    r#"{"type":"lock_reaped","timestamp":"2023-11-14T22:14:20Z","node_id":"1.3","owner":"bo"}"#;
const AFTER_REAPED: &str = r#"{"type":"lock_acquired","timestamp":"2023-11-14T22:14:20Z","node_id":"1.2","owner":"ana","expires_at":"2023-11-14T22:15:20Z"}"#;

const TTL: Option<Duration> = Some(Duration::from_secs(60));

fn claim(ledger: &Ledger) -> tenure_core::Result<()> {
    ledger.claim(&"1.2".parse()?, TTL).map(drop)
}

#[test]
fn a_claim_is_made_and_released_wholly_or_not_at_all() {
    let scenario = Scenario::new("claim and release", &[]).with_snapshots();
    let scenario = scenario.claims(0, &[ACQUIRED], claim);
    let scenario = scenario.claims(30, &[RELEASED], |ledger| {
        ledger.release(&"1.2".parse()?).map(drop)
    });
    check(&scenario.and_then());
}

#[test]
fn a_renewal_is_made_wholly_or_not_at_all() {
    let scenario = Scenario::new("renewal", &[ACQUIRED]).claims(30, &[RENEWED], |ledger| {
        let claim = ledger.renew(&"1.2#1".parse()?, TTL)?;
        assert_eq!(claim.token, 1);
        Ok(())
    });
    check(&scenario.and_then());
}

#[test]
fn a_claim_that_is_over_is_reaped_before_it_is_anothers() {
    let scenario = Scenario::new("claim after the end of one", &[BOS]);
    check(
        &scenario
            .claims(60, &[REAPED, AFTER_REAPED], claim)
            .and_then(),
    );
}

#[test]
fn claims_that_are_over_are_reaped_once() {
    let scenario = Scenario::new("reap", &[BOS, BOS_OTHER]);
    let scenario = scenario.claims(60, &[REAPED, REAPED_OTHER], |ledger| {
        ledger.reap().map(drop)
    });
    check(&scenario.and_then());
}
