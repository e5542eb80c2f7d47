//! Appends: alone, together, after strangers and after a crash.

use tenure_os::crashes::check;

use super::protocol::{LedgerScenario as _, Scenario};

const A: &str = "{\"type\":\"a\"}";
const B: &str = "{\"type\":\"b\"}";
const C: &str = "{\"type\":\"c\"}";

#[test]
fn the_first_event_of_a_ledger_is_there_whole_or_not_at_all() {
    check(&Scenario::new("first append", &[]).append(A).and_then());
}

#[test]
fn events_that_are_appended_one_after_the_other_are_a_beginning_of_them() {
    let scenario = Scenario::new("two appends", &[A]);
    check(&scenario.append(B).append(C).and_then());
}

#[test]
fn events_that_are_appended_together_are_there_or_missing_each_and_all_once_told() {
    let scenario = Scenario::new("append of 3 together", &[A]);
    check(&scenario.append_together(&[B, C, B]).and_then().append(A));
}

#[test]
fn an_event_that_a_stranger_did_not_sync_is_durable_once_one_of_ours_follows_it() {
    let scenario = Scenario::new("append after a stranger", &[A]).stranger(2);
    check(&scenario.append_whole(B).and_then());
}

#[test]
fn a_gap_that_a_power_loss_left_is_filled_when_asked_and_no_number_comes_again() {
    let files = [(1, A), (3, B), (4, C)];
    let scenario = Scenario::with_files("a gap is filled", &files);
    check(&scenario.repair_and_append(C).and_then().append(A));
}
