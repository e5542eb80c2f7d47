//! One document: replaced, created, fenced.

use super::check::check;
use super::scenario::Scenario;
use super::world::World;

#[test]
fn a_document_that_is_replaced_is_the_old_or_the_new_one() {
    let start = World::of(&[Some("\"old\"")]);
    check(&Scenario::new("replace", &["d/a.json"], start).write(&[(0, "\"new\"")], None));
}

#[test]
fn a_document_that_is_created_is_absent_or_whole() {
    let start = World::of(&[None]);
    check(&Scenario::new("create", &["d/a.json"], start).write(&[(0, "\"new\"")], None));
}

#[test]
fn a_fence_is_remembered_once_its_content_is_seen() {
    let start = World::of(&[Some("\"old\"")]);
    let scenario = Scenario::new("fenced write", &["d/a.json"], start);
    check(
        &scenario
            .write(&[(0, "\"one\"")], Some(5))
            .write(&[(0, "\"two\"")], Some(7)),
    );
}
