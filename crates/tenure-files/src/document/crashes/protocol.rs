//! Documents as the harness takes them, and the steps of a scenario.

use std::path::Path;

use tenure_core::Result;
use tenure_os::crashes::{self, Allowed, Violation};
use tenure_os::disk::simulated::{Call, SimulatedDisk, State};
use tenure_os::replace::target_of_temporary;

use super::site::{Process, Site};
use super::world::World;
use crate::document::path::document_of_journal;

/// The text that recovery writes to one document, and the text that further work writes to each.
const LATER: &str = "\"later\"";
const LAST: &str = "\"last\"";

/// The documents of a scenario.
pub(super) struct Documents {
    pub(super) site: Site,
    /// Their initial contents; their modes stay.
    start: State,
    /// The highest token with which a scenario writes each document, if it has tokens.
    tokens: Vec<Option<u64>>,
}

pub(super) type Scenario = crashes::Scenario<Documents>;

impl crashes::Protocol for Documents {
    type World = World;
    type Process = Process;

    fn process(&self, disk: &SimulatedDisk) -> Process {
        self.site.process(disk)
    }

    /// Any document may be read first.
    fn beginnings(&self) -> usize {
        self.site.len()
    }

    fn look(
        &self,
        process: &Process,
        allowed: &Allowed<World>,
        first: usize,
    ) -> Result<World, Violation> {
        let count = self.site.len();
        let mut texts = vec![None; count];
        for document in (first..count).chain(0..first) {
            let read = process.read(document);
            texts[document] = read.map_err(|error| format!("reading {document}: {error}"))?;
        }
        let world = allowed.worlds().iter().find(|world| world.is_of(&texts));
        let world = world.ok_or_else(|| format!("{texts:?} is seen, not {allowed}"));
        world.cloned()
    }

    /// Writes one document with its token again: a holder that comes back must not take its old
    /// note for durable.
    fn recover(&self, process: &Process, first: usize) -> Result<()> {
        process.write(&[(first, LATER)], self.tokens[first])
    }

    fn recovered(&self, world: &World, first: usize) -> World {
        let mut world = world.with(first, LATER);
        world.documents[first].token = self.tokens[first];
        world
    }

    /// Tries old tokens, writes again, and cleans.
    fn live_on(
        &self,
        process: &Process,
        disk: &SimulatedDisk,
        world: &World,
    ) -> Result<(), Violation> {
        try_old_tokens(process, world)?;
        self.work_on(process)?;
        for document in 0..self.site.len() {
            let cleaned = process.clean(document);
            cleaned.map_err(|error| format!("cleaning {document}: {error}"))?;
        }
        match disk.state().paths().iter().find(|path| is_left_over(path)) {
            Some(left) => Err(format!("{} is left after cleaning", left.display())),
            None => Ok(()),
        }
    }

    fn is_temporary(&self, path: &Path) -> bool {
        is_temporary(path)
    }

    fn short<'a>(&self, path: &'a Path) -> &'a Path {
        self.site.short(path)
    }

    /// A document that existed keeps its mode, whichever content it has.
    fn examine(&self, state: &State) -> Result<(), Violation> {
        for path in self.site.paths() {
            let mode = |state: &State| {
                let file = state.file(path).ok().flatten();
                file.map(|file| file.attributes.mode)
            };
            if let Some(before) = mode(&self.start)
                && mode(state) != Some(before)
            {
                return Err(format!("{} has another mode", path.display()));
            }
        }
        Ok(())
    }
}

impl Documents {
    fn new(site: Site, start: State) -> Self {
        let tokens = vec![None; site.len()];
        Self {
            site,
            start,
            tokens,
        }
    }

    fn work_on(&self, process: &Process) -> Result<(), Violation> {
        let failed = |error| format!("further work: {error}");
        for document in 0..self.site.len() {
            let token = self.tokens[document].map(|token| token + 1);
            process.write(&[(document, LAST)], token).map_err(failed)?;
        }
        for document in 0..self.site.len() {
            let text = process.read(document).map_err(failed)?;
            if text.as_deref() != Some(LAST) {
                return Err(format!("further work on {document} is lost: {text:?}"));
            }
        }
        Ok(())
    }
}

fn try_old_tokens(process: &Process, world: &World) -> Result<(), Violation> {
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

fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(target_of_temporary).is_some()
}

fn is_left_over(path: &Path) -> bool {
    is_temporary(path) || path.file_name().and_then(document_of_journal).is_some()
}

/// The steps of a scenario.
pub(super) trait DocumentScenario: Sized {
    /// Starts with documents as in `world`, everything durable.
    fn new(name: &'static str, documents: &[&str], world: World) -> Self;

    /// Starts with documents of one byte each, which their program did not sync: until they are
    /// synced, a power loss may leave them empty or zero.
    fn not_synced(name: &'static str, documents: &[&str], world: World) -> Self;

    /// Adds a step that writes some documents in one transaction.
    fn write(self, changes: &[(usize, &'static str)], token: Option<u64>) -> Self;
}

impl DocumentScenario for Scenario {
    fn new(name: &'static str, documents: &[&str], world: World) -> Self {
        let site = Site::new(documents);
        let start = site.start(&world);
        let protocol = Documents::new(site, start.clone());
        let mut scenario = Self::start(name, protocol, start, Allowed::only(world));
        // Documents that are durable to begin with need no sync.
        scenario.sync_matters = |sync| sync.call != Call::SyncFile;
        scenario
    }

    fn not_synced(name: &'static str, documents: &[&str], world: World) -> Self {
        let mut at_first = Allowed::only(world.clone());
        for document in 0..documents.len() {
            let lost = |text: &'static str| at_first.then(|world| world.with(document, text));
            at_first = at_first.or(&lost("")).or(&lost("\0"));
        }
        let site = Site::new(documents);
        let start = site.start_not_synced(&world);
        let protocol = Documents::new(site, start.clone());
        Self::start(name, protocol, start, at_first)
    }

    fn write(mut self, changes: &[(usize, &'static str)], token: Option<u64>) -> Self {
        for (document, _) in changes {
            let highest = &mut self.protocol.tokens[*document];
            *highest = token.max(*highest);
        }
        let own = changes.to_vec();
        let after = self.last().then(|world| {
            let mut world = world.clone();
            for (document, text) in &own {
                let seen = &mut world.documents[*document];
                seen.text = Some((*text).to_owned());
                seen.token = token.or(seen.token);
            }
            world
        });
        let own = changes.to_vec();
        self.step(after, move |process| process.write(&own, token))
    }
}
