//! A disk in memory that knows what is durable: the tests' answer to a pulled plug.
//!
//! | module | what it holds |
//! |---|---|
//! | `state` | the files and directories, each with what is durable and what is only cached |
//! | `crash` | all states that a power loss may leave of a state |
//! | `fingerprint` | what tells one state from another |
//! | here | the [`Disk`] over a state: the log of operations, the states between them, the faults |
//!
//! # How a crash is tried
//!
//! A protocol runs once, and the disk remembers its state after every operation that changed it. A
//! crash before operation *k* is the state it had then: a dead process does nothing more, so running
//! the protocol again up to *k* would only give the same state. From each of them
//! [`State::after_power_loss`] gives what a power loss may leave; the state itself, with what is
//! cached still cached, is what a killed process leaves. The next process works on, and may lose the
//! power later: both are tried.

mod crash;
mod fingerprint;
mod state;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{Attributes, Disk, Found, Fresh};
pub(crate) use fingerprint::Leftovers;
use state::InodeId;
pub(crate) use state::State;

/// What goes wrong, besides the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The operation of this number fails. A write that fails has written half.
    Fail(usize, Errno),
    /// The sync of this number (of files and directories, from 0) says it is done, and is not.
    IgnoreSync(usize),
}

/// One call that a protocol made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) call: Call,
    pub(crate) path: PathBuf,
}

/// Which call it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Read,
    Create,
    Rename,
    Remove,
    SyncDirectory,
    Names,
    RequireWritable,
    Write,
    Dress,
    Device,
    Sync,
}

/// A disk in memory. A clone is the same disk.
#[derive(Clone)]
pub(crate) struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
}

struct Machine {
    state: State,
    fault: Fault,
    operations: Vec<Operation>,
    syncs: usize,
    /// The states there were, each with the number of operations done by then; None if nobody will
    /// ask.
    history: Option<Vec<(usize, State)>>,
}

impl SimulatedDisk {
    /// A disk that starts with `state`, and remembers every state after it.
    pub(crate) fn new(state: State, fault: Fault) -> Self {
        let history = vec![(0, state.clone())];
        Self::with(state, fault, Some(history))
    }

    /// The same without remembering.
    pub(crate) fn without_history(state: State) -> Self {
        Self::with(state, Fault::None, None)
    }

    fn with(state: State, fault: Fault, history: Option<Vec<(usize, State)>>) -> Self {
        let machine = Machine {
            history,
            state,
            fault,
            operations: Vec::new(),
            syncs: 0,
        };
        Self {
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    /// The state now, with what is cached still cached.
    pub(crate) fn state(&self) -> State {
        self.machine().state.clone()
    }

    /// Every state there was, in order, with the number of operations done by then.
    pub(crate) fn history(&self) -> Vec<(usize, State)> {
        self.machine().history.clone().unwrap_or_default()
    }

    /// What was called.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.machine().operations.clone()
    }

    /// How many syncs were asked for.
    pub(crate) fn syncs(&self) -> usize {
        self.machine().syncs
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A test that panicked inside has failed anyway.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one operation, unless it is the one to fail.
    fn operate<T>(
        &self,
        call: Call,
        path: &Path,
        operation: impl FnOnce(&mut State, Outcome) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = self.machine();
        let number = machine.operations.len();
        machine.operations.push(Operation {
            call,
            path: path.to_owned(),
        });
        let is_sync = call.is_sync();
        let sync = machine.syncs;
        machine.syncs += usize::from(is_sync);
        let outcome = match machine.fault {
            Fault::Fail(failing, errno) if failing == number => Outcome::Fail(errno),
            Fault::IgnoreSync(ignored) if is_sync && ignored == sync => Outcome::Ignore,
            _ => Outcome::Do,
        };
        let result = operation(&mut machine.state, outcome);
        if call.changes() && machine.history.is_some() {
            let state = machine.state.clone();
            let history = machine.history.as_mut();
            history
                .expect("it was just there")
                .push((number + 1, state));
        }
        result
    }
}

/// What is to become of an operation.
#[derive(Clone, Copy)]
enum Outcome {
    Do,
    Ignore,
    Fail(Errno),
}

impl Outcome {
    /// The error, for operations that do nothing when they fail.
    fn or_fail(self) -> io::Result<()> {
        match self {
            Outcome::Fail(errno) => Err(errno.into()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimulatedDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Found>> {
        self.operate(Call::Read, path, |state, outcome| {
            outcome.or_fail()?;
            let Some(file) = state.file(path)? else {
                return Ok(None);
            };
            if file.bytes.len() as u64 > limit {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(Some(Found {
                bytes: file.bytes.clone(),
                attributes: file.attributes,
            }))
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Fresh>> {
        let inode = self.operate(Call::Create, path, |state, outcome| {
            outcome.or_fail()?;
            state.create(path)
        })?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            path: path.to_owned(),
            inode,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Call::Rename, to, |state, outcome| {
            outcome.or_fail()?;
            state.rename(from, to)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(Call::Remove, path, |state, outcome| {
            outcome.or_fail()?;
            state.remove(path)
        })
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.operate(Call::SyncDirectory, directory, |state, outcome| {
            // Names whose sync failed stay cached, and a later sync may still save them: where a
            // file system cannot write its own structures, it stops instead of forgetting them.
            outcome.or_fail()?;
            match outcome {
                Outcome::Ignore => Ok(()),
                _ => state.sync_directory(directory),
            }
        })
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.operate(Call::Names, directory, |state, outcome| {
            outcome.or_fail()?;
            state.names(directory)
        })
    }

    fn require_writable(&self, path: &Path) -> io::Result<()> {
        self.operate(Call::RequireWritable, path, |state, outcome| {
            outcome.or_fail()?;
            match state.file(path)? {
                Some(_) => Ok(()),
                None => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    path: PathBuf,
    inode: InodeId,
}

impl Fresh for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let inode = self.inode;
        self.disk
            .operate(Call::Write, &self.path, |state, outcome| {
                if let Outcome::Fail(errno) = outcome {
                    state.write(inode, &bytes[..bytes.len() / 2]);
                    return Err(errno.into());
                }
                state.write(inode, bytes);
                Ok(())
            })
    }

    fn dress(&mut self, like: &Attributes) -> io::Result<()> {
        let inode = self.inode;
        self.disk
            .operate(Call::Dress, &self.path, |state, outcome| {
                outcome.or_fail()?;
                state.dress(inode, like);
                Ok(())
            })
    }

    fn device(&self) -> io::Result<u64> {
        self.disk.operate(Call::Device, &self.path, |_, outcome| {
            outcome.or_fail()?;
            Ok(state::DEVICE)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let inode = self.inode;
        self.disk.operate(Call::Sync, &self.path, |state, outcome| {
            match outcome {
                Outcome::Do => state.sync(inode),
                Outcome::Ignore => {}
                Outcome::Fail(errno) => {
                    state.doom(inode);
                    return Err(errno.into());
                }
            }
            Ok(())
        })
    }
}

impl Call {
    /// Whether it makes something durable.
    pub(crate) fn is_sync(self) -> bool {
        matches!(self, Call::Sync | Call::SyncDirectory)
    }

    /// Whether it may change the state.
    pub(crate) fn changes(self) -> bool {
        !matches!(
            self,
            Call::Read | Call::Names | Call::RequireWritable | Call::Device
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.call, self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const DIRECTORY: &str = "/d";
    const TARGET: &str = "/d/a";
    const TEMPORARY: &str = "/d/t";

    /// A directory that holds `a`, which says `old`.
    fn disk() -> SimulatedDisk {
        let mut state = State::default();
        state.add_directory(DIRECTORY);
        state.add_file(TARGET, b"old");
        SimulatedDisk::new(state, Fault::None)
    }

    /// What a name may say after a power loss now; None where it is not there.
    fn after_power_loss(disk: &SimulatedDisk, path: &str) -> BTreeSet<Option<String>> {
        let mut found = BTreeSet::new();
        disk.state().after_power_loss(&mut |state| {
            let file = state.file(Path::new(path)).unwrap();
            found.insert(file.map(|file| String::from_utf8(file.bytes.clone()).unwrap()));
        });
        found
    }

    fn set<const N: usize>(contents: [Option<&str>; N]) -> BTreeSet<Option<String>> {
        contents.map(|content| content.map(str::to_owned)).into()
    }

    #[test]
    fn a_new_file_that_was_not_synced_may_be_gone_empty_torn_or_whole() {
        let disk = disk();
        let mut file = disk.create(Path::new(TEMPORARY)).unwrap();
        file.write(b"word").unwrap();
        let expected = [
            None,
            Some(""),
            Some("wo"),
            Some("wor"),
            Some("\0\0\0\0"),
            Some("\0\0rd"),
            Some("word"),
        ];
        assert_eq!(after_power_loss(&disk, TEMPORARY), set(expected));
        assert_eq!(after_power_loss(&disk, TARGET), set([Some("old")]));
    }

    #[test]
    fn a_synced_file_keeps_its_content_but_not_its_name() {
        let disk = disk();
        let mut file = disk.create(Path::new(TEMPORARY)).unwrap();
        file.write(b"word").unwrap();
        file.sync().unwrap();
        assert_eq!(
            after_power_loss(&disk, TEMPORARY),
            set([None, Some("word")])
        );
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        assert_eq!(after_power_loss(&disk, TEMPORARY), set([Some("word")]));
    }

    #[test]
    fn a_synced_name_does_not_keep_its_content() {
        let disk = disk();
        let mut file = disk.create(Path::new(TEMPORARY)).unwrap();
        file.write(b"w").unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        let expected = set([Some(""), Some("\0"), Some("w")]);
        assert_eq!(after_power_loss(&disk, TEMPORARY), expected);
    }

    #[test]
    fn a_rename_is_old_or_new_and_its_source_may_stay_or_go_with_either() {
        let disk = disk();
        let mut file = disk.create(Path::new(TEMPORARY)).unwrap();
        file.write(b"new").unwrap();
        file.sync().unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        disk.rename(Path::new(TEMPORARY), Path::new(TARGET))
            .unwrap();
        let mut found = BTreeSet::new();
        disk.state().after_power_loss(&mut |state| {
            let bytes = |path: &str| {
                let file = state.file(Path::new(path)).unwrap();
                file.map(|file| file.bytes.clone())
            };
            found.insert((bytes(TARGET), bytes(TEMPORARY)));
        });
        let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
        let expected = [
            (old.clone(), new.clone()),
            (old, None),
            (new.clone(), new.clone()),
            (new, None),
        ];
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn a_removed_name_may_come_back_until_its_directory_is_synced() {
        let disk = disk();
        disk.remove(Path::new(TARGET)).unwrap();
        assert_eq!(after_power_loss(&disk, TARGET), set([None, Some("old")]));
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        assert_eq!(after_power_loss(&disk, TARGET), set([None]));
    }

    #[test]
    fn directories_are_independent() {
        let mut state = State::default();
        state.add_directory("/d");
        state.add_directory("/e");
        state.add_file("/d/a", b"old");
        state.add_file("/e/b", b"old");
        let disk = SimulatedDisk::new(state, Fault::None);
        disk.remove(Path::new("/d/a")).unwrap();
        disk.remove(Path::new("/e/b")).unwrap();
        disk.sync_directory(Path::new("/e")).unwrap();
        assert_eq!(after_power_loss(&disk, "/d/a"), set([None, Some("old")]));
        assert_eq!(after_power_loss(&disk, "/e/b"), set([None]));
    }

    #[test]
    fn an_ignored_sync_keeps_nothing_and_the_next_one_does() {
        let mut state = State::default();
        state.add_directory(DIRECTORY);
        let disk = SimulatedDisk::new(state, Fault::IgnoreSync(0));
        drop(disk.create(Path::new(TARGET)).unwrap());
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        assert_eq!(after_power_loss(&disk, TARGET), set([None, Some("")]));
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        assert_eq!(after_power_loss(&disk, TARGET), set([Some("")]));
        assert_eq!(disk.syncs(), 2);
    }

    #[test]
    fn content_whose_sync_failed_is_not_saved_by_the_next_one() {
        let mut state = State::default();
        state.add_directory(DIRECTORY);
        let disk = SimulatedDisk::new(state, Fault::Fail(2, Errno::IO));
        let mut file = disk.create(Path::new(TARGET)).unwrap();
        file.write(b"x").unwrap();
        file.sync().unwrap_err();
        file.sync().unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        let expected = set([Some(""), Some("\0"), Some("x")]);
        assert_eq!(after_power_loss(&disk, TARGET), expected);
    }

    #[test]
    fn a_write_that_fails_has_written_a_part() {
        let mut state = State::default();
        state.add_directory(DIRECTORY);
        let disk = SimulatedDisk::new(state, Fault::Fail(1, Errno::NOSPC));
        let mut file = disk.create(Path::new(TARGET)).unwrap();
        let error = file.write(b"1234").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let found = disk.read(Path::new(TARGET), 10).unwrap().unwrap();
        assert_eq!(found.bytes, b"12");
    }

    #[test]
    fn every_state_between_two_operations_is_remembered() {
        let disk = disk();
        disk.remove(Path::new(TARGET)).unwrap();
        disk.read(Path::new(TARGET), 10).unwrap();
        disk.sync_directory(Path::new(DIRECTORY)).unwrap();
        let done: Vec<usize> = disk.history().iter().map(|(done, _)| *done).collect();
        assert_eq!(done, [0, 1, 3]);
        assert_eq!(disk.operations().len(), 3);
    }
}
