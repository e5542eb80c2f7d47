//! Appends: alone, together, after strangers and after a crash.

use super::protocol::Scenario;
use crate::crashes::check;

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
fn events_that_are_appended_together_are_a_beginning_of_them_without_a_gap() {
    let scenario = Scenario::new("append of 3 together", &[A]);
    check(&scenario.append_together(&[B, C, B]).and_then().append(A));
}

#[test]
fn an_event_that_a_stranger_did_not_sync_is_durable_once_one_of_ours_follows_it() {
    let scenario = Scenario::new("append after a stranger", &[]).stranger(1);
    check(&scenario.append_whole(B).and_then());
}

#[test]
fn what_a_power_loss_left_behind_a_gap_never_comes_back() {
    let files = [(1, A), (3, B), (4, C)];
    let scenario = Scenario::with_files("append before a gap", &files);
    check(&scenario.append(C).and_then().append(A));
}
