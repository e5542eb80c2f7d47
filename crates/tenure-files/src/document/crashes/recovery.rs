//! Recovery of a transaction that was interrupted, and cleaning after it.
//!
//! Every other scenario crashes recovery at every operation, too. Here recovery is the protocol
//! itself, with its failures and its syncs, from the states in which it has the most to do.

use tenure_os::crashes::{Allowed, Power, check, check_alike};
use tenure_os::disk::simulated::{Call, Operation};

use super::protocol::{DocumentScenario as _, Scenario};
use super::world::World;
use crate::document::path::document_of_journal;

const APART: [&str; 2] = ["d/a.json", "e/b.json"];
const NESTED: [&str; 2] = ["d/a/a.json", "d/b.json"];

fn before() -> World {
    World::of(&[Some("\"old a\""), Some("\"old b\"")])
}

fn after() -> World {
    World::of(&[Some("\"new a\""), Some("\"new b\"")])
}

fn commit(documents: &[&str]) -> Scenario {
    let scenario = Scenario::new("commit", documents, before());
    scenario.write(&[(0, "\"new a\""), (1, "\"new b\"")], None)
}

fn is_of_journal(call: Call, operation: &Operation) -> bool {
    let name = operation.path.file_name().unwrap();
    operation.call == call && document_of_journal(name).is_some()
}

/// Returns a scenario that begins after the journal was put in place. With the power gone, the
/// journal is durable; else it is only cached, and may be lost.
fn committed(name: &'static str, documents: &[&str], power: Power) -> Scenario {
    let at_first = match power {
        Power::Goes => Allowed::only(after()),
        Power::Stays => Allowed::only(before()).or(&Allowed::only(after())),
    };
    let crash = |operation: &Operation| is_of_journal(Call::Rename, operation);
    Scenario::after_crash(name, commit(documents), crash, power, at_first)
}

/// Adds later changes: a journal that came back would undo them, or meet a document it does not
/// know.
fn with_later_work(scenario: Scenario) -> Scenario {
    let later = scenario.and_then().write(&[(1, "\"later b\"")], None);
    later.write(&[(0, "\"later a\"")], None)
}

fn read(scenario: Scenario, document: usize) -> Scenario {
    scenario.step(Allowed::only(after()), move |process| {
        process.read(document).map(drop)
    })
}

#[test]
fn a_reader_finishes_what_was_committed() {
    for (document, documents) in [(0, &APART), (1, &APART), (0, &NESTED), (1, &NESTED)] {
        let killed = committed("recovery after a kill", documents, Power::Stays);
        let lost = committed("recovery after power loss", documents, Power::Goes);
        let scenarios = [killed, lost].map(|start| with_later_work(read(start, document)));
        check_alike(&[&scenarios[0], &scenarios[1]]);
    }
}

#[test]
fn a_writer_finishes_what_was_committed_before_it_writes() {
    let write = |scenario: Scenario| {
        let after = Allowed::only(after().with(1, "\"newer b\""));
        let work = |process: &super::site::Process| process.write(&[(1, "\"newer b\"")], None);
        with_later_work(scenario.step(after, work))
    };
    let killed = write(committed("write after a kill", &APART, Power::Stays));
    let lost = write(committed("write after power loss", &APART, Power::Goes));
    check_alike(&[&killed, &lost]);
}

#[test]
fn a_journal_that_a_dead_process_removed_does_not_come_back_after_later_work() {
    for document in [0, 1] {
        let crash = |operation: &Operation| is_of_journal(Call::Remove, operation);
        let at_first = Allowed::only(after());
        let name = "write after a killed removal";
        let start = Scenario::after_crash(name, commit(&APART), crash, Power::Stays, at_first);
        check(&start.write(&[(document, "\"newer\"")], None).and_then());
    }
}

#[test]
fn cleaning_finishes_what_was_committed_and_leaves_no_temporary_file() {
    let clean = |mut scenario: Scenario| {
        for document in [0, 1] {
            scenario = scenario.step(Allowed::only(after()), move |process| {
                process.clean(document)?;
                assert_eq!(
                    process.leftovers(document)?,
                    Vec::<std::path::PathBuf>::new()
                );
                Ok(())
            });
        }
        with_later_work(scenario)
    };
    let killed = clean(committed("clean after a kill", &APART, Power::Stays));
    let lost = clean(committed("clean after power loss", &APART, Power::Goes));
    check_alike(&[&killed, &lost]);
}
