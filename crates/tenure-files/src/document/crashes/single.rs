//! One document: replaced, created, fenced.

use tenure_os::crashes::check;

use super::protocol::{DocumentScenario as _, Scenario};
use super::world::World;

#[test]
fn a_document_that_is_replaced_is_the_old_or_the_new_one() {
    let start = World::of(&[Some("\"old\"")]);
    let scenario = Scenario::new("replace", &["d/a.json"], start);
    check(&scenario.write(&[(0, "\"new\"")], None).and_then());
}

#[test]
fn a_document_that_is_created_is_absent_or_whole() {
    let start = World::of(&[None]);
    let scenario = Scenario::new("create", &["d/a.json"], start);
    check(&scenario.write(&[(0, "\"new\"")], None).and_then());
}

#[test]
fn a_fence_is_remembered_once_its_content_is_seen() {
    let start = World::of(&[Some("\"old\"")]);
    let scenario = Scenario::new("fenced write", &["d/a.json"], start);
    let scenario = scenario.write(&[(0, "\"one\"")], Some(5));
    check(&scenario.write(&[(0, "\"two\"")], Some(7)).and_then());
}

#[test]
fn a_write_without_a_token_leaves_the_fence_as_it_was() {
    let start = World::of(&[None]);
    let scenario = Scenario::new("write after a fenced one", &["d/a.json"], start);
    let scenario = scenario.write(&[(0, "\"one\"")], Some(5));
    check(&scenario.write(&[(0, "\"two\"")], None).and_then());
}
