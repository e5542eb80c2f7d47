//! Several documents in one transaction: all at "before" or all at "after".

use tenure_os::crashes::check;

use super::protocol::{DocumentScenario as _, Scenario};
use super::world::World;

const TOGETHER: [&str; 3] = ["d/a.json", "d/b.json", "d/c.json"];
const APART: [&str; 3] = ["d/a.json", "e/b.json", "e/c.json"];
/// The journal is kept beside the first document, and its directory is not the first one.
const NESTED: [&str; 2] = ["d/a/a.json", "d/b.json"];

const A: (usize, &str) = (0, "\"new a\"");
const B: (usize, &str) = (1, "\"new b\"");
const C: (usize, &str) = (2, "\"new c\"");

fn two() -> World {
    World::of(&[Some("\"old a\""), Some("\"old b\"")])
}

/// Returns three documents, the last of which is yet to be created.
fn three() -> World {
    World::of(&[Some("\"old a\""), Some("\"old b\""), None])
}

/// Adds later changes: a journal that came back would undo them, or meet a document it does not
/// know.
fn with_later_work(scenario: Scenario) -> Scenario {
    let later = scenario.and_then().write(&[(1, "\"later b\"")], None);
    later.write(&[(0, "\"later a\"")], None)
}

#[test]
fn two_documents_of_one_directory_change_both_or_not_at_all() {
    let scenario = Scenario::new("commit of 2", &TOGETHER[..2], two());
    check(&with_later_work(scenario.write(&[A, B], None)));
}

#[test]
fn two_documents_of_two_directories_change_both_or_not_at_all() {
    let scenario = Scenario::new("commit of 2 apart", &APART[..2], two());
    check(&with_later_work(scenario.write(&[A, B], None)));
}

#[test]
fn two_fenced_documents_change_both_or_not_at_all_and_remember_their_fence() {
    let scenario = Scenario::new("fenced commit of 2", &APART[..2], two());
    check(&with_later_work(scenario.write(&[A, B], Some(5))));
}

#[test]
fn two_documents_in_nested_directories_change_both_or_not_at_all() {
    let scenario = Scenario::new("commit of 2 nested", &NESTED, two());
    check(&with_later_work(scenario.write(&[A, B], None)));
}

#[test]
fn three_documents_of_one_directory_change_all_or_none() {
    let scenario = Scenario::new("commit of 3", &TOGETHER, three());
    check(&with_later_work(scenario.write(&[A, B, C], None)));
}

#[test]
fn three_documents_of_two_directories_change_all_or_none() {
    let scenario = Scenario::new("commit of 3 apart", &APART, three());
    check(&with_later_work(scenario.write(&[C, A, B], None)));
}

#[test]
fn three_fenced_documents_change_all_or_none_and_remember_their_fence() {
    let scenario = Scenario::new("fenced commit of 3", &APART, three());
    check(&with_later_work(scenario.write(&[A, B, C], Some(5))));
}

#[test]
fn of_two_transactions_and_a_write_after_them_none_is_undone() {
    let scenario = Scenario::new("two commits and a write", &APART[..2], two());
    let scenario = scenario.write(&[A, B], None);
    let scenario = scenario.write(&[(0, "\"newer a\""), (1, "\"newer b\"")], None);
    check(&with_later_work(
        scenario.write(&[(1, "\"newest b\"")], None),
    ));
}

#[test]
fn of_two_fenced_transactions_and_a_write_after_them_none_is_undone() {
    let scenario = Scenario::new("two fenced commits and a write", &APART[..2], two());
    let scenario = scenario.write(&[A, B], Some(5));
    let scenario = scenario.write(&[(0, "\"newer a\""), (1, "\"newer b\"")], Some(6));
    let scenario = scenario.write(&[(1, "\"newest b\"")], None);
    check(&with_later_work(scenario));
}

#[test]
fn documents_that_their_program_did_not_sync_change_all_or_none() {
    let world = World::of(&[Some("1"), Some("2")]);
    let scenario = Scenario::not_synced("commit of 2 not synced", &TOGETHER[..2], world);
    check(&with_later_work(scenario.write(&[A, B], None)));
}
