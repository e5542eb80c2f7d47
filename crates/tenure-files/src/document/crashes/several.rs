//! Several documents in one transaction: all at "before" or all at "after".

use super::check::check;
use super::scenario::Scenario;
use super::world::World;

const TOGETHER: [&str; 3] = ["d/a.json", "d/b.json", "d/c.json"];
const APART: [&str; 3] = ["d/a.json", "e/b.json", "f/c.json"];
/// The journal is beside the first one, whose directory is not the first one.
const NESTED: [&str; 2] = ["d/a/a.json", "d/b.json"];

const A: (usize, &str) = (0, "\"new a\"");
const B: (usize, &str) = (1, "\"new b\"");
const C: (usize, &str) = (2, "\"new c\"");

fn two() -> World {
    World::of(&[Some("\"old a\""), Some("\"old b\"")])
}

/// The last one is created.
fn three() -> World {
    World::of(&[Some("\"old a\""), Some("\"old b\""), None])
}

/// Later changes: a journal that comes back must not undo them, or meet what it does not know.
fn with_later_work(scenario: Scenario) -> Scenario {
    scenario
        .write(&[(1, "\"later b\"")], None)
        .write(&[(0, "\"later a\"")], None)
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
fn two_documents_in_nested_directories_change_both_or_not_at_all() {
    let scenario = Scenario::new("commit of 2 nested", &NESTED, two());
    check(&with_later_work(scenario.write(&[A, B], None)));
}
