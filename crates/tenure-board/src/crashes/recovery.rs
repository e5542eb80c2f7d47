//! The recovery after a loss of power, as the protocol itself: with its own crashes, failures and
//! syncs.

use tenure_os::crashes::{Allowed, Power, check};
use tenure_os::disk::simulated::{Call, Operation};

use super::protocol::{BoardScenario as _, Scenario, World, id};
use crate::names::uuid_of;

fn is_commit(operation: &Operation) -> bool {
    let name = operation.path.file_name().unwrap();
    operation.call == Call::Rename && uuid_of(name, ".json").is_some()
}

/// An issue was committed, and nothing else happened before the power went.
#[test]
fn whoever_looks_first_after_a_power_loss_finishes_what_was_committed() {
    let created = |world: &World| world.with("c", "c open 2 v1").event("issue_created c");
    let crashed = Scenario::new("create", &["a"]).then(0, created, |board| {
        let mut new = crate::NewIssue::titled("c");
        new.id = Some(id("c"));
        board.create(new).map(drop)
    });
    let after = crashed.last().clone();
    let name = "recovery after power loss";
    let scenario = Scenario::after_crash(name, crashed, is_commit, Power::Goes, after);
    let looked = scenario.then(0, World::clone, |board| board.list().map(drop));
    let noted = |world: &World| world.with("c", "c open 2 v2 note x").event("issue_noted c");
    check(
        &looked
            .and_then()
            .then(0, noted, |board| board.note(&id("c"), "x").map(drop)),
    );
}

/// The power goes while the log has a line that was not synced. The line is torn in every way, and
/// mended.
#[test]
fn a_torn_log_is_cut_and_filled_again() {
    let updated = |title: &'static str, version: u64| {
        move |world: &World| {
            let world = world.with("a", &format!("{title} open 2 v{version}"));
            world.event("issue_updated a")
        }
    };
    let update = |title: &'static str| {
        move |board: &crate::Board| {
            let changed = board.update(&id("a"), |issue| {
                issue.title = title.into();
                Ok(())
            });
            changed.map(drop)
        }
    };
    let is_line = |operation: &Operation| operation.call == Call::Append;
    let crashed = Scenario::new("update", &["a"]).then(0, updated("one", 2), update("one"));
    let after: Allowed<World> = crashed.last().clone();
    let mut scenario =
        Scenario::after_crash("kill after the line", crashed, is_line, Power::Stays, after);
    // The log ends in the middle of its line, durably.
    scenario.start.tear("events.jsonl");
    // All but the log is durable already, so most syncs change nothing here.
    scenario.sync_matters = |_| false;
    let looked = scenario.then(0, World::clone, |board| board.list().map(drop));
    check(&looked.and_then().then(0, updated("two", 3), update("two")));
}
