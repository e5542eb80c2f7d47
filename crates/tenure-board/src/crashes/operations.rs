//! Every operation: after each crash it happened to all files, or to none.

use std::time::Duration;

use tenure_os::crashes::{Power, check};
use tenure_os::disk::simulated::{Call, Operation};

use super::protocol::{BoardScenario as _, Scenario, World, id};
use crate::issue::{GateState, IssueState};
use crate::{Board, GateBy, NewIssue, Take};

const TTL: Option<Duration> = Some(Duration::from_secs(60));

fn create(scenario: Scenario) -> Scenario {
    let after = |world: &World| world.with("c", "new open 1 v1").event("issue_created c");
    scenario.then(0, after, |board| {
        let mut new = NewIssue::titled("new");
        (new.id, new.priority) = (Some(id("c")), 1);
        board.create(new).map(drop)
    })
}

fn update(scenario: Scenario, title: &'static str, version: u64) -> Scenario {
    let after = move |world: &World| {
        let world = world.with("a", &format!("{title} open 2 v{version}"));
        world.event("issue_updated a")
    };
    scenario.then(0, after, move |board| {
        let updated = board.update(&id("a"), |issue| {
            issue.title = title.into();
            Ok(())
        });
        updated.map(drop)
    })
}

fn delete(scenario: Scenario) -> Scenario {
    let after = |world: &World| world.without("c").event("issue_deleted c");
    scenario.then(0, after, |board| board.delete(&id("c")))
}

/// Every sync is needed but those of the new log and of `.gitignore`: a log that is missing is as
/// good as an empty one, and no board depends on `.gitignore`.
#[test]
fn a_board_is_made_whole_or_not_at_all_and_made_again_by_the_next() {
    let mut scenario = Scenario::empty("init");
    scenario.sync_matters = |sync| {
        let name = sync.path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with(".events.jsonl") && !name.starts_with("..gitignore")
    };
    let scenario = scenario.then(0, World::clone, Board::fill);
    check(&scenario.and_then());
}

/// A process is killed while it makes the board, right after the index got its name, and another
/// goes on from there.
#[test]
fn the_first_change_of_a_board_makes_durable_what_its_maker_could_not() {
    let made = Scenario::empty("init").then(0, World::clone, Board::fill);
    let is_index = |operation: &Operation| {
        operation.call == Call::RenameWithoutReplacing && operation.path.ends_with("index.json")
    };
    let (name, after) = ("init killed, then create", made.last().clone());
    let scenario = Scenario::after_crash(name, made, is_index, Power::Stays, after);
    check(&create(scenario).and_then());
}

#[test]
fn an_issue_is_created_in_index_file_and_log_or_not_at_all() {
    check(&create(Scenario::new("create", &[])).and_then());
    check(&create(Scenario::new("create with checkpoint", &["a"]).with_checkpoints()).and_then());
}

#[test]
fn updates_of_one_issue_happen_one_after_the_other_or_not_at_all() {
    let scenario = Scenario::new("two updates", &["a"]);
    check(&update(update(scenario, "first", 2), "second", 3).and_then());
    let scenario = Scenario::new("update with checkpoint", &["a"]).with_checkpoints();
    check(&update(
        update(scenario, "first", 2).and_then(),
        "second",
        3,
    ));
}

#[test]
fn a_deleted_issue_never_comes_back() {
    let scenario = create(Scenario::new("create and delete", &[]));
    check(&delete(scenario).and_then());
    let scenario = create(Scenario::new("delete with checkpoint", &[])).and_then();
    check(&delete(Scenario::with_checkpoints(scenario)).and_then());
}

#[test]
fn claims_are_made_renewed_and_released_wholly_or_not_at_all() {
    let claimed = |world: &World| {
        let world = world.with("a", "fix open 2 v2 by ana until 60");
        world.event("issue_claimed a")
    };
    let scenario = Scenario::new("claim, renew, release", &["a"]);
    let scenario = scenario.then(0, claimed, |board| board.claim(&id("a"), TTL).map(drop));
    let renewed = |world: &World| {
        let world = world.with("a", "fix open 2 v3 by ana until 90");
        world.event("claim_renewed a")
    };
    let scenario = scenario.then(30, renewed, |board| {
        board.renew(&id("a"), None, TTL).map(drop)
    });
    let released = |world: &World| world.with("a", "fix open 2 v4").event("claim_released a");
    check(
        &scenario
            .then(31, released, |board| {
                board.release(&id("a"), None).map(drop)
            })
            .and_then(),
    );
}

#[test]
fn the_next_issue_is_claimed_and_done_wholly_or_not_at_all() {
    let claimed = |world: &World| {
        let world = world.with("a", "fix open 2 v2 by ana until 60");
        world.event("issue_claimed a")
    };
    let scenario = Scenario::new("next and done", &["a", "b"]);
    let scenario = scenario.then(0, claimed, |board| {
        board.next(None, Take::Claim(TTL)).map(drop)
    });
    let done = |world: &World| world.with("a", "fix done 2 v3").event("issue_done a");
    check(
        &scenario
            .then(1, done, |board| board.done(&id("a"), None).map(drop))
            .and_then(),
    );
}

#[test]
fn notes_and_dependencies_are_there_whole_or_not_at_all() {
    let noted = |world: &World| {
        world
            .with("a", "fix open 2 v2 note x")
            .event("issue_noted a")
    };
    let scenario = Scenario::new("note, depend, undepend", &["a", "b"]);
    let scenario = scenario.then(0, noted, |board| board.note(&id("a"), "x").map(drop));
    let added = |world: &World| {
        world
            .with("b", "test open 2 v2 on a")
            .event("dependency_added b")
    };
    let scenario = scenario.then(0, added, |board| board.depend(&id("b"), &id("a")).map(drop));
    let removed = |world: &World| {
        world
            .with("b", "test open 2 v3")
            .event("dependency_removed b")
    };
    let scenario = scenario.then(0, removed, |board| {
        board.undepend(&id("b"), &id("a")).map(drop)
    });
    check(&scenario.and_then());
}

fn define(scenario: Scenario) -> Scenario {
    let defined = |world: &World| {
        let mut world = world.event("gate_defined review");
        world.gates.insert("review".into());
        world
    };
    scenario.then(0, defined, |board| {
        board.define_gate("review", GateBy::People)
    })
}

#[test]
fn gates_are_defined_and_passed_wholly_or_not_at_all() {
    let scenario = define(Scenario::new("gate define", &["a"]));
    let created = |world: &World| {
        let world = world.with("c", "new open 2 v1 review pending");
        world.event("issue_created c")
    };
    let scenario = scenario.then(0, created, |board| {
        let mut new = NewIssue::titled("new");
        (new.id, new.gates) = (Some(id("c")), vec!["review".into()]);
        board.create(new).map(drop)
    });
    let passed = |world: &World| {
        world
            .with("c", "new open 2 v2 review passed")
            .event("gate_passed c")
    };
    let pass = |board: &crate::Board| {
        board
            .judge_gate(&id("c"), "review", GateState::Passed)
            .map(drop)
    };
    check(&scenario.then(0, passed, pass).and_then());
    let scenario = Scenario::new("gate define with checkpoint", &["a"]).with_checkpoints();
    check(&define(scenario).and_then());
}

#[test]
fn an_issue_is_opened_again_wholly_or_not_at_all() {
    let done = |world: &World| world.with("a", "fix done 2 v2").event("issue_done a");
    let scenario = Scenario::new("done and reopen", &["a"]);
    let scenario = scenario.then(0, done, |board| board.done(&id("a"), None).map(drop));
    let again = |world: &World| world.with("a", "fix open 2 v3").event("issue_reopened a");
    check(
        &scenario
            .then(0, again, |board| {
                let reopened = board.update(&id("a"), |issue| {
                    issue.state = IssueState::Open;
                    Ok(())
                });
                reopened.map(drop)
            })
            .and_then(),
    );
}

#[test]
fn a_passing_fault_is_tried_again_and_another_is_not() {
    use rustix::io::Errno;
    use tenure_os::crashes::Protocol;
    use tenure_os::disk::simulated::{Fault, SimulatedDisk};
    let scenario = Scenario::new("note", &["a"]);
    let note = |number: usize, errno: Errno| {
        let disk = SimulatedDisk::new(scenario.start.clone(), Fault::Fail(number, errno));
        let process = scenario.protocol.process(&disk);
        let noted = process.board().note(&id("a"), "x");
        let notes = process.board().issue(&id("a")).unwrap().notes.len();
        assert_eq!(notes, usize::from(noted.is_ok()), "{errno} at {number}");
        noted.is_ok()
    };
    // The first operation is a look, which may fail.
    let is_done = |errno| (1..6).map(|number| note(number, errno)).collect::<Vec<_>>();
    assert_eq!(is_done(Errno::INTR), [true; 5]);
    assert_eq!(is_done(Errno::IO), [false; 5]);
}
