//! One run of a scenario, and every moment of it.

use super::scenario::Scenario;
use super::{Allowed, Protocol};
use crate::disk::simulated::{Fault, SimulatedDisk, State};

/// A run of a scenario to its end, or to its first error.
pub(super) struct Run<W> {
    pub(super) disk: SimulatedDisk,
    /// The states between the operations, each with what may be seen.
    pub(super) moments: Vec<(usize, State, Allowed<W>)>,
    /// The number of syncs by the end of each step.
    pub(super) syncs: Vec<usize>,
    /// The error of the first step that failed.
    pub(super) error: Option<String>,
}

/// The state of the power after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Power {
    /// Only the process ends.
    Stays,
    /// Data that was not synced may be lost.
    Goes,
}

/// Runs a scenario on a disk with this fault.
pub(super) fn run<P: Protocol>(scenario: &Scenario<P>, fault: Fault) -> Run<P::World> {
    let disk = SimulatedDisk::new(scenario.start.clone(), fault);
    let process = scenario.protocol.process(&disk);
    let mut run = Run {
        moments: vec![(0, scenario.start.clone(), scenario.at_first.clone())],
        syncs: Vec::new(),
        error: None,
        disk: disk.clone(),
    };
    for (number, step) in scenario.steps.iter().enumerate() {
        let begun = disk.history().len();
        let result = (step.work)(&process);
        let during = scenario.during(number);
        let history = disk.history();
        let states = history[begun..].iter().cloned();
        let states = states.map(|(done, state)| (done, state, during.clone()));
        run.moments.extend(states);
        run.syncs.push(disk.syncs());
        run.error = result.err().map(|error| error.to_string());
        let allowed = if run.error.is_none() {
            step.after.clone()
        } else {
            during
        };
        run.moments
            .push((disk.operations().len(), disk.state(), allowed));
        if run.error.is_some() {
            break;
        }
    }
    run
}
