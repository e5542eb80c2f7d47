//! Every crash of a scenario, every state it may leave, every crash of the recovery from that.
//!
//! A scenario runs once. Before and after each of its operations the process may be killed, which
//! leaves what is cached in the cache, or the power may go, which leaves any of the states the disk
//! allows. From each of these states another process looks at everything, beginning in every way it
//! can, and does its work; it is crashed at every operation in the same way. A last process looks
//! at what that leaves, and lives on.
//!
//! At each moment the scenario says what may be seen. Seeing anything else, or any error, is a
//! violation. A state that was found right for the same expectation is not tried again, also not
//! when the scenario runs again with a fault: only states that differ need a second look.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::run::{Power, run};
use super::{Allowed, Protocol, Scenario, Violation};
use crate::disk::simulated::{Call, Fault, SimulatedDisk, State};

/// The counts of one enumeration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Moments at which the scenario was crashed.
    pub(super) crashes: usize,
    /// States that these crashes left.
    pub(super) states: usize,
    /// Different states among them. Recovery was tried from each.
    pub(super) different: usize,
    /// Moments at which a recovery was crashed.
    pub(super) recovery_crashes: usize,
    /// States that these crashes left.
    pub(super) recovery_states: usize,
}

/// The enumeration of one scenario's crashes, and all that it has found right so far.
pub(super) struct Enumeration<'a, P: Protocol> {
    scenario: &'a Scenario<P>,
    figures: Figures,
    /// Moments of the scenario from which every crash was found right.
    moments: HashSet<Case>,
    /// States after a crash from which all was found right.
    crashed: HashSet<(Case, Power)>,
    /// Moments of recoveries from which every crash was found right.
    recovery_moments: HashSet<Case>,
    judged: HashSet<Case>,
}

/// A state and what may be seen in it, by their fingerprints.
type Case = (u64, u64);

impl<'a, P: Protocol> Enumeration<'a, P> {
    pub(super) fn new(scenario: &'a Scenario<P>) -> Self {
        Self {
            scenario,
            figures: Figures::default(),
            moments: HashSet::new(),
            crashed: HashSet::new(),
            recovery_moments: HashSet::new(),
            judged: HashSet::new(),
        }
    }

    /// Crashes the scenario everywhere, and returns how much was tried by now.
    pub(super) fn all(&mut self, fault: Fault) -> Result<Figures, Violation> {
        let run = run(self.scenario, fault);
        if let Some(error) = &run.error {
            return Err(format!("without a crash: {error}"));
        }
        self.figures.crashes += run.disk.operations().len() + 1;
        for (done, state, allowed) in &run.moments {
            let crash = |violation| {
                let operations = run.disk.operations();
                let next = operations.get(*done).map(|next| next.to_string());
                let next = next.unwrap_or("the end".into());
                format!("crash before operation {done}, {next}:\n{violation}")
            };
            self.crash(state, allowed).map_err(crash)?;
        }
        Ok(self.figures)
    }

    /// Lets operation `number` fail, and crashes what the process leaves.
    pub(super) fn failure(&mut self, fault: Fault) -> Result<(), Violation> {
        let run = run(self.scenario, fault);
        let operations = run.disk.operations();
        let Fault::Fail(number, errno) = fault else {
            unreachable!("only failures fail");
        };
        let failed = |violation: Violation| {
            let error = run.error.as_deref().unwrap_or("none");
            let operation = &operations[number];
            format!("{errno} at operation {number}, {operation}, error {error}:\n{violation}")
        };
        let state = run.disk.state();
        let at_first = self.scenario.start.paths();
        let protocol = &self.scenario.protocol;
        let is_left = |path: &PathBuf| protocol.is_temporary(path) && !at_first.contains(path);
        let removes = operations[number].call == Call::Remove;
        if !removes && let Some(left) = state.paths().into_iter().find(is_left) {
            return Err(failed(format!("{} is left over", left.display())));
        }
        let (_, _, allowed) = run.moments.last().expect("a run has moments");
        self.crash(&state, allowed).map_err(failed)
    }

    /// Tries every state that a crash in this state may leave.
    fn crash(&mut self, state: &State, allowed: &Allowed<P::World>) -> Result<(), Violation> {
        let moment = self.case(state, allowed);
        if self.moments.contains(&moment) {
            return Ok(());
        }
        let mut left = vec![(state.clone(), Power::Stays)];
        let states_max = self.scenario.protocol.states_max();
        state.after_power_loss_up_to(states_max, &mut |state| left.push((state, Power::Goes)));
        self.figures.states += left.len();
        for (state, power) in left {
            let case = (self.case(&state, allowed), power);
            if self.crashed.contains(&case) {
                continue;
            }
            for beginning in 0..self.scenario.protocol.beginnings() {
                self.recover(&state, allowed, power, beginning)?;
            }
            self.figures.different += 1;
            self.crashed.insert(case);
        }
        self.moments.insert(moment);
        Ok(())
    }

    /// Lets another process come, look and do its work, and crashes it everywhere.
    fn recover(
        &mut self,
        state: &State,
        allowed: &Allowed<P::World>,
        power: Power,
        beginning: usize,
    ) -> Result<(), Violation> {
        let protocol = &self.scenario.protocol;
        let disk = SimulatedDisk::new(state.clone(), Fault::None);
        let process = protocol.process(&disk);
        let world = protocol.look(&process, allowed, beginning);
        let world = world.map_err(|violation| self.explain(state, &violation))?;
        let allowed = match power {
            // All that is there is durable, and nothing else can come up again.
            Power::Goes => Allowed::only(world),
            Power::Stays => allowed.clone(),
        };
        let looked = disk.history().len();
        let recovered = protocol.recover(&process, beginning);
        let failed = |error| self.explain(state, &format!("recovered, then: {error}"));
        recovered.map_err(failed)?;
        let after = allowed.then(|world| protocol.recovered(world, beginning));
        let during = allowed.or(&after);
        let history = disk.history();
        self.figures.recovery_crashes += disk.operations().len() + 1;
        for (index, (done, left)) in history.iter().enumerate() {
            let allowed = if index < looked { &allowed } else { &during };
            let judged = self.judge_all(left, allowed);
            judged.map_err(|violation| {
                let operations = disk.operations();
                let next = operations.get(*done).map(|next| next.to_string());
                let next = next.unwrap_or("the end".into());
                let violation = format!("recovery crashed before {done}, {next}:\n{violation}");
                self.explain(state, &violation)
            })?;
        }
        let judged = self.judge_all(&disk.state(), &after);
        judged.map_err(|violation| self.explain(state, &format!("recovered:\n{violation}")))
    }

    fn judge_all(&mut self, state: &State, allowed: &Allowed<P::World>) -> Result<(), Violation> {
        let moment = self.case(state, allowed);
        if self.recovery_moments.contains(&moment) {
            return Ok(());
        }
        let states_max = self.scenario.protocol.states_max();
        let mut violation = None;
        let mut judge = |state: State| {
            self.figures.recovery_states += 1;
            let case = self.case(&state, allowed);
            if violation.is_some() || self.judged.contains(&case) {
                return;
            }
            violation = self.judge(&state, allowed).err();
            if violation.is_none() {
                self.judged.insert(case);
            }
        };
        judge(state.clone());
        state.after_power_loss_up_to(states_max, &mut judge);
        if violation.is_none() {
            self.recovery_moments.insert(moment);
        }
        violation.map_or(Ok(()), Err)
    }

    /// Lets the last process look and live on, in every way it may begin.
    fn judge(&self, state: &State, allowed: &Allowed<P::World>) -> Result<(), Violation> {
        for beginning in 0..self.scenario.protocol.beginnings() {
            let disk = SimulatedDisk::without_history(state.clone());
            let judged = self.live_on(&disk, allowed, beginning);
            let looking_changed = judged.map_err(|violation| self.explain(state, &violation))?;
            if !looking_changed {
                // The process looked without a change, so the other beginnings see the same.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Looks, and lives on. Returns true if looking changed anything.
    fn live_on(
        &self,
        disk: &SimulatedDisk,
        allowed: &Allowed<P::World>,
        beginning: usize,
    ) -> Result<bool, Violation> {
        let protocol = &self.scenario.protocol;
        let process = protocol.process(disk);
        let world = protocol.look(&process, allowed, beginning)?;
        protocol.examine(&disk.state())?;
        let changed = disk.operations().iter().any(|done| done.call.changes());
        protocol.live_on(&process, disk, &world)?;
        Ok(changed)
    }

    fn case(&self, state: &State, allowed: &Allowed<P::World>) -> Case {
        (state.fingerprint(), allowed.fingerprint())
    }

    fn explain(&self, state: &State, violation: &str) -> Violation {
        let mut text = format!("{violation}\n  from:\n");
        for path in state.paths() {
            let file = state.file(&path).ok().flatten();
            let bytes = file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
            let bytes = bytes.unwrap_or_default();
            let _ = writeln!(
                text,
                "    {}: {bytes:?}",
                self.scenario.protocol.short(&path).display()
            );
        }
        text
    }
}
