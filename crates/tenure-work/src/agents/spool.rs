//! Events that could not be processed at once: a 0600 file for each agent and store.
//!
//! # Steps
//!
//! 1. A hook that does not get the agent's lock in time, or does not reach the store, appends its
//!    event as one line, under the kernel's lock of the file. It is synced before the hook ends.
//! 2. The next hook of that agent, or the watcher, takes the agent's lock and processes the lines
//!    in their order, before its own event. The agent's record remembers the id of the last line,
//!    in the same change. A hook that runs out of time appends its own event, so that it comes
//!    after the ones that are left.
//! 3. The file is cut to nothing under its lock, if all lines are processed and it has not grown
//!    meanwhile. Else the next process goes on after the line that the record remembers.
//!
//! A crash between 2 and 3 leaves lines that the record names: they are passed over. A torn last
//! line of a hook that was killed is passed over, too: its event was never acknowledged. The file
//! is never removed, as others may be waiting for its lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure::{Error, Result};
use tenure_files::document::Version;

use super::event::{HookEvent, Program};
/// The length at which a spool takes no more events, in bytes.
const SPOOL_BYTES_MAX: u64 = 32 << 20;

/// One event that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spooled {
    /// The event's id, which begins with the time. The agent's record remembers it, so that no
    /// event is processed twice.
    pub id: String,
    program: Program,
    event: String,
    fields: Map<String, Value>,
}

impl Spooled {
    /// Returns the event.
    ///
    /// # Errors
    ///
    /// `BadInput` if the text was no event when it was written.
    pub fn event(&self) -> Result<HookEvent> {
        HookEvent::of(self.fields.clone(), Some(self.program), Some(&self.event))
    }
}

/// The spools of one store.
#[derive(Debug, Clone)]
pub struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// Returns the spools of a store, in the user's state directory. No file is made before it is
    /// needed.
    pub fn new(state_directory: &Path, store: &str) -> Self {
        let name = &Version::of(store.as_bytes()).to_string()[..16];
        Self {
            directory: state_directory.join("spool").join(name),
        }
    }

    fn path(&self, session: &str) -> PathBuf {
        let name = &Version::of(session.as_bytes()).to_string()[..32];
        self.directory.join(format!("{name}.jsonl"))
    }

    /// Returns true if events of a session may wait.
    pub fn has(&self, session: &str) -> bool {
        let length = fs::metadata(self.path(session)).map(|found| found.len());
        length.is_ok_and(|length| length > 0)
    }

    /// Adds an event with its id, durably.
    ///
    /// # Errors
    ///
    /// `Io` if the file cannot be written, `BadInput` if the spool is full.
    pub fn add(&self, id: &str, event: &HookEvent) -> Result<()> {
        super::make_directory(&self.directory)?;
        let path = self.path(&event.session);
        let failed = |source| Error::io("write", &path, source);
        let mut file = open(&path, true).map_err(failed)?;
        file.lock().map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > SPOOL_BYTES_MAX {
            return Err(Error::BadInput(format!(
                "{} is full: its events wait to be processed",
                path.display()
            )));
        }
        let spooled = Spooled {
            id: id.to_owned(),
            program: event.program,
            event: event.name.clone(),
            fields: event.fields.clone(),
        };
        let line = serde_json::to_string(&spooled);
        let line = line.map_err(|error| Error::Internal(error.to_string()))?;
        // The first newline ends a torn line of a killed writer, which would swallow this one.
        let written = file.write_all(format!("\n{line}\n").as_bytes());
        written.and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Returns the sessions for which events wait.
    ///
    /// # Errors
    ///
    /// `Io` if the directory cannot be read.
    pub fn sessions(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|source| Error::io("read", &self.directory, source))?,
        };
        let mut sessions = Vec::new();
        for entry in entries.flatten() {
            let waiting = Waiting::open(&entry.path())?;
            let first = waiting.and_then(|waiting| waiting.events().next());
            sessions.extend(first.and_then(|first| Some(first.event().ok()?.session)));
        }
        Ok(sessions)
    }

    /// Returns the events of a session that wait after `last`, or `None` if none do. The caller
    /// holds the agent's lock.
    ///
    /// # Errors
    ///
    /// `Io` if the file cannot be read.
    pub fn waiting(&self, session: &str, last: Option<&str>) -> Result<Option<Waiting>> {
        let Some(mut waiting) = Waiting::open(&self.path(session))? else {
            return Ok(None);
        };
        if let Some(last) = last {
            waiting.pass(last);
        }
        Ok(Some(waiting))
    }
}

/// The events that wait for one agent, as they were read.
pub struct Waiting {
    file: File,
    path: PathBuf,
    lines: Vec<u8>,
    /// The place of the first line that is not processed.
    from: usize,
}

impl Waiting {
    fn open(path: &Path) -> Result<Option<Self>> {
        let failed = |source| Error::io("read", path, source);
        let mut file = match open(path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        file.lock_shared().map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        file.unlock().map_err(failed)?;
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            file,
            path: path.to_owned(),
            lines: text,
            from: 0,
        }))
    }

    /// Returns the events, oldest first. Each is read only when the iterator reaches it, as there
    /// may be many.
    pub fn events(&self) -> impl Iterator<Item = Spooled> {
        let lines = self.lines[self.from..].split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok())
    }

    /// Passes over the events up to `last`, if that is there.
    fn pass(&mut self, last: &str) {
        #[derive(Deserialize)]
        struct Id<'a> {
            id: &'a str,
        }
        let mut end = 0;
        for line in self.lines.split(|byte| *byte == b'\n') {
            end += line.len() + 1;
            if serde_json::from_slice(line).is_ok_and(|line: Id<'_>| line.id == last) {
                self.from = end.min(self.lines.len());
                return;
            }
        }
    }

    /// Cuts the spool to nothing, if no event came since it was read. The events are in the store,
    /// durably.
    ///
    /// # Errors
    ///
    /// `Io` if the file cannot be written.
    pub fn clear(self) -> Result<()> {
        let failed = |source| Error::io("write", &self.path, source);
        self.file.lock().map_err(failed)?;
        if self.file.metadata().map_err(failed)?.len() == self.lines.len() as u64 {
            self.file.set_len(0).map_err(failed)?;
        }
        Ok(())
    }
}

fn open(path: &Path, make: bool) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(make).mode(0o600);
    options.custom_flags(no_follow).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::new_id;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    fn event(number: u32) -> HookEvent {
        let body = json!({"hook_event_name": "Stop", "session_id": "s", "number": number});
        HookEvent::parse(body.to_string().as_bytes(), None, None).unwrap()
    }

    fn numbers(waiting: &Waiting) -> Vec<u64> {
        let number = |spooled: &Spooled| spooled.fields["number"].as_u64().unwrap();
        waiting.events().map(|spooled| number(&spooled)).collect()
    }

    #[test]
    fn events_wait_in_their_order_for_the_owner_alone_and_are_not_given_twice() {
        let state = tempfile::tempdir().unwrap();
        let spool = Spool::new(state.path(), "sqlite:/x");
        assert!(spool.waiting("s", None).unwrap().is_none());
        spool.add(&new_id(), &event(1)).unwrap();
        spool.add(&new_id(), &event(2)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&spool.directory), mode(&spool.path("s"))),
            (0o700, 0o600)
        );
        assert_eq!(spool.sessions().unwrap(), ["s"]);
        let waiting = spool.waiting("s", None).unwrap().unwrap();
        assert_eq!(numbers(&waiting), [1, 2]);
        let first = waiting.events().next().unwrap().id;
        let again = spool.waiting("s", Some(&first)).unwrap().unwrap();
        assert_eq!(numbers(&again), [2]);
        // An event that comes after the look stays.
        spool.add(&new_id(), &event(3)).unwrap();
        waiting.clear().unwrap();
        let all = spool.waiting("s", Some(&first)).unwrap().unwrap();
        assert_eq!(numbers(&all), [2, 3]);
        all.clear().unwrap();
        assert!(spool.waiting("s", None).unwrap().is_none());
        assert!(
            Spool::new(state.path(), "sqlite:/y")
                .sessions()
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_torn_line_does_not_swallow_the_next() {
        let state = tempfile::tempdir().unwrap();
        let spool = Spool::new(state.path(), "sqlite:/x");
        spool.add(&new_id(), &event(1)).unwrap();
        let mut file = open(&spool.path("s"), false).unwrap();
        file.write_all(b"{\"id\":\"torn").unwrap();
        spool.add(&new_id(), &event(2)).unwrap();
        assert_eq!(numbers(&spool.waiting("s", None).unwrap().unwrap()), [1, 2]);
    }
}
