//! A scenario with all its crashes, failures and removed syncs, and the line that tells of it.

use std::io::Write;

use rustix::io::Errno;

use super::enumerate::{Enumeration, Figures, Run, run};
use super::scenario::Scenario;
use crate::disk::simulated::{Fault, Operation};

/// Tries everything, and panics with the first thing that is wrong.
pub(super) fn check(scenario: &Scenario) {
    let mut enumeration = Enumeration::new(scenario);
    let figures = match enumeration.all(Fault::None) {
        Ok(figures) => figures,
        Err(violation) => panic!("{}: {violation}", scenario.name),
    };
    let whole = run(scenario, Fault::None);
    let failures = failures(scenario, &mut enumeration, &whole);
    let syncs = removed_syncs(scenario, &mut enumeration, &whole);
    tell(scenario.name, figures, failures, syncs);
}

/// Lets every operation fail, of a full disk and of a broken one.
fn failures(scenario: &Scenario, enumeration: &mut Enumeration<'_>, whole: &Run) -> usize {
    let operations = whole.disk.operations().len();
    for number in 0..operations {
        for errno in [Errno::NOSPC, Errno::IO] {
            if let Err(violation) = enumeration.failure(Fault::Fail(number, errno)) {
                panic!("{}: {violation}", scenario.name);
            }
        }
    }
    2 * operations
}

/// Ignores every sync in turn, which must be seen.
fn removed_syncs(scenario: &Scenario, enumeration: &mut Enumeration<'_>, whole: &Run) -> usize {
    let syncs = whole
        .disk
        .operations()
        .into_iter()
        .filter(|asked| asked.call.is_sync());
    let syncs: Vec<Operation> = syncs.collect();
    let mut superfluous = Vec::new();
    for (number, sync) in syncs.iter().enumerate() {
        if enumeration.all(Fault::IgnoreSync(number)).is_ok() {
            superfluous.push(format!("{number}: {sync}"));
        }
    }
    assert!(
        superfluous.is_empty(),
        "{}: nobody needs {superfluous:#?} of {syncs:#?}",
        scenario.name
    );
    syncs.len()
}

/// Tells even where output is captured: what was tried is a result, too.
fn tell(name: &str, figures: Figures, failures: usize, syncs: usize) {
    let Figures {
        crashes,
        states,
        recovery_crashes,
        recovery_states,
    } = figures;
    let line = format!(
        "simulated disk: {name}: {crashes} crash points, {states} states; {recovery_crashes} crash \
         points of recoveries, {recovery_states} states; {failures} failed operations; {syncs} \
         syncs removed, each found\n"
    );
    // In one write, so that lines of several tests do not mix. If nobody listens, there is nobody
    // to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
