//! Every crash of a scenario, every state it may leave, every crash of the recovery from that.
//!
//! A scenario runs once. Before and after each of its operations the process may be killed, which
//! leaves what is cached in the cache, or the power may go, which leaves any of the states the disk
//! allows. From each of these another process reads all documents, beginning with each of them in
//! turn, and writes one; it is crashed at every operation in the same way. From what that leaves a
//! last one reads all, tries an old token, works on, and cleans.
//!
//! At each moment the scenario says what may be seen. Seeing anything else, or any error, is a
//! violation. A state that was found right for the same expectation is not tried again, also not when
//! the scenario runs again with a fault: what does not differ then needs no second look.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::run::{Power, run};
use super::scenario::Scenario;
use super::site::Process;
use super::world::{Allowed, World};
use crate::disk::simulated::{Call, Fault, SimulatedDisk, State};
use crate::document::path::document_of_journal;
use crate::replace::target_of_temporary;

/// What recovery writes to one document, and what further work writes to each.
const LATER: &str = "\"later\"";
const LAST: &str = "\"last\"";

/// What was seen that may not be.
pub(super) type Violation = String;

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Moments at which the scenario was crashed.
    pub(super) crashes: usize,
    /// States these left.
    pub(super) states: usize,
    /// How many of them were different, so that recovery was tried from each.
    pub(super) different: usize,
    /// Moments at which a recovery was crashed.
    pub(super) recovery_crashes: usize,
    /// States these left.
    pub(super) recovery_states: usize,
}

/// Tries one scenario.
pub(super) struct Enumeration<'a> {
    scenario: &'a Scenario,
    figures: Figures,
    /// Moments of the scenario after which all was found right, whatever the crash left.
    moments: HashSet<Case>,
    /// States after a crash from which all was found right.
    crashed: HashSet<(Case, Power)>,
    /// The same for moments of recoveries, and states after their crashes.
    recovery_moments: HashSet<Case>,
    judged: HashSet<Case>,
}

/// A state and what may be seen in it, by their fingerprints.
type Case = (u64, u64);

impl<'a> Enumeration<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            figures: Figures::default(),
            moments: HashSet::new(),
            crashed: HashSet::new(),
            recovery_moments: HashSet::new(),
            judged: HashSet::new(),
        }
    }

    /// Crashes the scenario everywhere, and says how much was tried by now.
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
        let is_left = |path: &PathBuf| is_temporary(path) && !at_first.contains(path);
        let removes = operations[number].call == Call::Remove;
        if !removes && let Some(left) = state.paths().into_iter().find(is_left) {
            return Err(failed(format!("{} is left over", left.display())));
        }
        let (_, _, allowed) = run.moments.last().expect("a run has moments");
        self.crash(&state, allowed).map_err(failed)
    }

    /// Everything that a crash in this state may leave.
    fn crash(&mut self, state: &State, allowed: &Allowed) -> Result<(), Violation> {
        let moment = self.case(state, allowed);
        if self.moments.contains(&moment) {
            return Ok(());
        }
        let mut left = vec![(state.clone(), Power::Stays)];
        state.after_power_loss(&mut |state| left.push((state, Power::Goes)));
        self.figures.states += left.len();
        for (state, power) in left {
            let case = (self.case(&state, allowed), power);
            if self.crashed.contains(&case) {
                continue;
            }
            for first in 0..self.scenario.site.len() {
                self.recover(&state, allowed, power, first)?;
            }
            self.figures.different += 1;
            self.crashed.insert(case);
        }
        self.moments.insert(moment);
        Ok(())
    }

    /// Another process comes, reads all documents and writes the first one; crashes it everywhere.
    fn recover(
        &mut self,
        state: &State,
        allowed: &Allowed,
        power: Power,
        first: usize,
    ) -> Result<(), Violation> {
        let disk = SimulatedDisk::new(state.clone(), Fault::None);
        let process = self.scenario.site.process(&disk);
        let world = self.read_all(&process, allowed, first);
        let world = world.map_err(|violation| self.explain(state, &violation))?;
        let allowed = match power {
            // Whatever is there is durable, and nothing else can come up again.
            Power::Goes => Allowed::only(world),
            Power::Stays => allowed.clone(),
        };
        let read = disk.history().len();
        // The same token again: a holder that comes back must not take its old note for durable.
        let token = self.last_token(first);
        let written = process.write(&[(first, LATER)], token);
        let failed = |error| self.explain(state, &format!("recovered, then: {error}"));
        written.map_err(failed)?;
        let after = allowed.then(|world| {
            let mut world = world.with(first, LATER);
            world.documents[first].token = token;
            world
        });
        let during = allowed.or(&after);
        let history = disk.history();
        self.figures.recovery_crashes += disk.operations().len() + 1;
        for (index, (done, left)) in history.iter().enumerate() {
            let allowed = if index < read { &allowed } else { &during };
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

    fn judge_all(&mut self, state: &State, allowed: &Allowed) -> Result<(), Violation> {
        let moment = self.case(state, allowed);
        if self.recovery_moments.contains(&moment) {
            return Ok(());
        }
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
        state.after_power_loss(&mut judge);
        if violation.is_none() {
            self.recovery_moments.insert(moment);
        }
        violation.map_or(Ok(()), Err)
    }

    /// The last process: it sees what is allowed, fences hold, and the work goes on.
    fn judge(&self, state: &State, allowed: &Allowed) -> Result<(), Violation> {
        for first in 0..self.scenario.site.len() {
            let disk = SimulatedDisk::without_history(state.clone());
            let judged = self.live_on(&disk, allowed, first);
            let recovered = judged.map_err(|violation| self.explain(state, &violation))?;
            if !recovered {
                // Then it does not matter who is read first.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads all, tries old tokens, works on, and cleans. Says whether reading changed anything.
    fn live_on(
        &self,
        disk: &SimulatedDisk,
        allowed: &Allowed,
        first: usize,
    ) -> Result<bool, Violation> {
        let process = self.scenario.site.process(disk);
        let world = self.read_all(&process, allowed, first)?;
        self.look_at_modes(&disk.state())?;
        let recovered = disk.operations().iter().any(|done| done.call.changes());
        self.try_old_tokens(&process, &world)?;
        self.work_on(&process)?;
        for document in 0..self.scenario.site.len() {
            let cleaned = process.clean(document);
            cleaned.map_err(|error| format!("cleaning {document}: {error}"))?;
        }
        match disk.state().paths().iter().find(|path| is_left_over(path)) {
            Some(left) => Err(format!("{} is left after cleaning", left.display())),
            None => Ok(recovered),
        }
    }

    fn case(&self, state: &State, allowed: &Allowed) -> Case {
        (state.fingerprint(), allowed.fingerprint())
    }

    /// Reads each document alone, beginning with `first`.
    fn read_all(
        &self,
        process: &Process<'_>,
        allowed: &Allowed,
        first: usize,
    ) -> Result<World, Violation> {
        let count = self.scenario.site.len();
        let mut texts = vec![None; count];
        for document in (first..count).chain(0..first) {
            let read = process.read(document);
            texts[document] = read.map_err(|error| format!("reading {document}: {error}"))?;
        }
        let world = allowed.find(&texts);
        let world = world.ok_or_else(|| format!("{texts:?} is seen, not {allowed}"));
        world.cloned()
    }

    /// A document that was there has the mode it had, whichever content it has.
    fn look_at_modes(&self, state: &State) -> Result<(), Violation> {
        for path in self.scenario.site.paths() {
            let mode = |state: &State| {
                let file = state.file(path).ok().flatten();
                file.map(|file| file.attributes.mode)
            };
            if let Some(before) = mode(&self.scenario.start)
                && mode(state) != Some(before)
            {
                return Err(format!("{} has another mode", path.display()));
            }
        }
        Ok(())
    }

    fn try_old_tokens(&self, process: &Process<'_>, world: &World) -> Result<(), Violation> {
        for (document, seen) in world.documents.iter().enumerate() {
            let Some(token) = seen.token else {
                continue;
            };
            match process.refuses(document, token - 1) {
                Ok(true) => {}
                Ok(false) => return Err(format!("{document} takes a token before {token}")),
                Err(error) => return Err(format!("an old token for {document}: {error}")),
            }
        }
        Ok(())
    }

    fn work_on(&self, process: &Process<'_>) -> Result<(), Violation> {
        let failed = |error| format!("further work: {error}");
        for document in 0..self.scenario.site.len() {
            let token = self.last_token(document).map(|token| token + 1);
            process.write(&[(document, LAST)], token).map_err(failed)?;
        }
        for document in 0..self.scenario.site.len() {
            let text = process.read(document).map_err(failed)?;
            if text.as_deref() != Some(LAST) {
                return Err(format!("further work on {document} is lost: {text:?}"));
            }
        }
        Ok(())
    }

    /// The highest token of a document, if it is one that has tokens.
    fn last_token(&self, document: usize) -> Option<u64> {
        let worlds = self.scenario.last().worlds().iter();
        worlds
            .filter_map(|world| world.documents[document].token)
            .max()
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
                self.scenario.site.short(&path).display()
            );
        }
        text
    }
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(target_of_temporary).is_some()
}

fn is_left_over(path: &Path) -> bool {
    is_temporary(path) || path.file_name().and_then(document_of_journal).is_some()
}
