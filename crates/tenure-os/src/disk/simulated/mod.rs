//! A disk in memory that knows what is durable: the tests' answer to a pulled plug.
//!
//! | module | what it holds |
//! |---|---|
//! | `state` | the files and directories, each with what is durable and what is only cached |
//! | `crash` | all states that a power loss may leave of a state |
//! | `fingerprint` | a number that tells one state from another |
//! | `tests` | claims about the simulated disk itself |
//! | here | the [`Disk`] over a state: the log of operations, the states between them, the faults |
//!
//! # How a crash is tried
//!
//! A protocol runs once, and the disk remembers its state after every operation that changed it. A
//! crash before operation *k* leaves the state of that moment: a dead process does nothing more, so
//! running the protocol again up to *k* would only give the same state. [`State::after_power_loss`]
//! gives what a power loss may leave of it; the state itself, with what is cached still cached, is
//! what a killed process leaves. The next process works on, and may lose the power later: both are
//! tried.

mod crash;
mod fingerprint;
mod state;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{Attributes, Disk, FileContent, Fresh, Stamp};
use crate::platform::Identity;
pub use crash::ALL_MAX;
use state::InodeId;
pub use state::State;

/// A fault besides the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The operation of this number fails. A write that fails has written half.
    Fail(usize, Errno),
    /// The sync of this number (of files and directories, from 0) claims to be done, and is not.
    IgnoreSync(usize),
    /// Right before the first exchange another program renames a file with [`STRANGERS`] over the
    /// second name.
    Stranger,
}

/// The content that the other program writes.
pub const STRANGERS: &[u8] = b"\"strangers\"";

/// One call that a protocol made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub call: Call,
    pub path: PathBuf,
}

/// The kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Read,
    Create,
    Rename,
    RenameWithoutReplacing,
    Link,
    Overwrite,
    Append,
    Cut,
    MakeDirectory,
    Exchange,
    Symlink,
    SetMode,
    RemoveTree,
    RemoveEmptyDirectory,
    Identity,
    Stamp,
    Remove,
    SyncDirectory,
    Names,
    SyncFile,
    RequireWritable,
    Write,
    Dress,
    Attributes,
    Sync,
}

/// A disk in memory. A clone is the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
}

struct Machine {
    state: State,
    fault: Fault,
    operations: Vec<Operation>,
    syncs: usize,
    /// The states so far, each with the number of operations done by then; `None` if no test will
    /// ask.
    history: Option<Vec<(usize, State)>>,
}

impl SimulatedDisk {
    /// A disk that starts with `state`, and remembers every state after it.
    pub fn new(state: State, fault: Fault) -> Self {
        let history = vec![(0, state.clone())];
        Self::with(state, fault, Some(history))
    }

    /// Makes a disk that starts with `state`, and remembers no other.
    pub fn without_history(state: State) -> Self {
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

    /// Returns the state now, with what is cached still cached.
    pub fn state(&self) -> State {
        self.machine().state.clone()
    }

    /// Returns every state so far, in order, with the number of operations done by then.
    pub fn history(&self) -> Vec<(usize, State)> {
        self.machine().history.clone().unwrap_or_default()
    }

    /// Returns the calls that were made.
    pub fn operations(&self) -> Vec<Operation> {
        self.machine().operations.clone()
    }

    /// Returns the number of syncs that were asked for.
    pub fn syncs(&self) -> usize {
        self.machine().syncs
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A test that panicked inside has failed anyway.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_stranger_in(&self, path: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        if machine.fault == Fault::Stranger {
            machine.fault = Fault::None;
            machine.state.rename_new_over(path, STRANGERS)?;
            let known = (machine.operations.len(), machine.state.clone());
            machine
                .history
                .iter_mut()
                .for_each(|history| history.push(known.clone()));
        }
        Ok(())
    }

    /// Does one operation, unless it is the one that must fail.
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

/// The fate of an operation.
#[derive(Clone, Copy)]
enum Outcome {
    Do,
    Ignore,
    Fail(Errno),
}

impl Outcome {
    /// Returns the error of operations that do nothing when they fail.
    fn or_fail(self) -> io::Result<()> {
        match self {
            Outcome::Fail(errno) => Err(errno.into()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimulatedDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<FileContent>> {
        self.operate(Call::Read, path, |state, outcome| {
            outcome.or_fail()?;
            let Some(file) = state.file(path)? else {
                return Ok(None);
            };
            if file.bytes.len() as u64 > limit {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let stamp = state.stamp(state.inode_at(path)?);
            Ok(Some(FileContent {
                bytes: file.bytes.clone(),
                attributes: Attributes {
                    stamp,
                    ..file.attributes
                },
            }))
        })
    }

    /// A look for a name that is free is no operation: protocols look often, and no such look
    /// fails.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        if self.machine().state.inode_at(path).is_err() {
            return Ok(false);
        }
        self.operate(Call::Read, path, |_, outcome| {
            outcome.or_fail().map(|()| true)
        })
    }

    fn create(&self, path: &Path, _: u32) -> io::Result<Box<dyn Fresh>> {
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

    fn create_unnamed(&self, directory: &Path, _: u32) -> io::Result<Box<dyn Fresh>> {
        let inode = self.operate(Call::Create, directory, |state, outcome| {
            outcome.or_fail()?;
            Ok(state.create_unnamed())
        })?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            path: directory.to_owned(),
            inode,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Call::Rename, to, |state, outcome| {
            outcome.or_fail()?;
            state.rename(from, to)
        })
    }

    fn rename_without_replacing(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Call::RenameWithoutReplacing, to, |state, outcome| {
            outcome.or_fail()?;
            state.require_free(to)?;
            state.rename(from, to)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Call::Link, to, |state, outcome| {
            outcome.or_fail()?;
            state.link(from, to)
        })
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.operate(Call::Overwrite, path, |state, outcome| {
            let inode = state.inode_at(path)?;
            if let Outcome::Fail(errno) = outcome {
                state.overwrite(inode, &bytes[..bytes.len() / 2]);
                return Err(errno.into());
            }
            state.overwrite(inode, bytes);
            Ok(())
        })
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        self.operate(Call::Cut, path, |state, outcome| {
            outcome.or_fail()?;
            let inode = state.inode_at(path)?;
            state.cut(inode, length as usize);
            Ok(())
        })
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.operate(Call::Append, path, |state, outcome| {
            let inode = match state.inode_at(path) {
                Ok(inode) => inode,
                Err(_) => state.create(path)?,
            };
            if let Outcome::Fail(errno) = outcome {
                state.write(inode, &bytes[..bytes.len() / 2]);
                return Err(errno.into());
            }
            state.write(inode, bytes);
            Ok(())
        })
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.operate(Call::MakeDirectory, path, |state, outcome| {
            outcome.or_fail()?;
            state.make_directory(path)
        })
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.let_stranger_in(other)?;
        self.operate(Call::Exchange, other, |state, outcome| {
            outcome.or_fail()?;
            state.exchange(one, other)
        })
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        self.operate(Call::Identity, path, |state, outcome| {
            outcome.or_fail()?;
            Ok(state.identity_at(path).map(Identity::simulated))
        })
    }

    fn stamp(&self, path: &Path) -> io::Result<Option<Stamp>> {
        self.operate(Call::Stamp, path, |state, outcome| {
            outcome.or_fail()?;
            let inode = state.inode_at(path).ok();
            Ok(inode.map(|inode| state.stamp(inode)))
        })
    }

    fn symlink(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.operate(Call::Symlink, path, |state, outcome| {
            outcome.or_fail()?;
            let inode = state.create(path)?;
            state.write(inode, target.as_os_str().as_encoded_bytes());
            // The target of a link is part of its name.
            state.sync(inode);
            Ok(())
        })
    }

    fn set_mode(&self, directory: &Path, mode: u32) -> io::Result<()> {
        self.operate(Call::SetMode, directory, |state, outcome| {
            outcome.or_fail()?;
            state.set_mode(directory, mode)
        })
    }

    fn is_directory(&self, path: &Path) -> io::Result<bool> {
        Ok(self.machine().state.is_directory(path))
    }

    fn remove_tree(&self, directory: &Path) -> io::Result<()> {
        self.operate(Call::RemoveTree, directory, |state, outcome| {
            outcome.or_fail()?;
            state.remove_tree(directory);
            Ok(())
        })
    }

    fn remove_empty_directory(&self, directory: &Path) -> io::Result<()> {
        self.operate(Call::RemoveEmptyDirectory, directory, |state, outcome| {
            outcome.or_fail()?;
            if !state.names(directory)?.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            state.remove_tree(directory);
            Ok(())
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

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.operate(Call::SyncFile, path, |state, outcome| {
            let inode = state.inode_at(path)?;
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

    fn require_writable(&self, path: &Path, _: &Attributes) -> io::Result<()> {
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

    fn link(&self, path: &Path) -> io::Result<()> {
        let inode = self.inode;
        self.disk.operate(Call::Link, path, |state, outcome| {
            outcome.or_fail()?;
            state.name(inode, path)
        })
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::simulated(self.inode.0 as u64))
    }

    fn dress(&mut self, _: &Attributes, like: &Attributes) -> io::Result<()> {
        let inode = self.inode;
        self.disk
            .operate(Call::Dress, &self.path, |state, outcome| {
                outcome.or_fail()?;
                state.dress(inode, like);
                Ok(())
            })
    }

    fn attributes(&self) -> io::Result<Attributes> {
        let inode = self.inode;
        let call = Call::Attributes;
        self.disk.operate(call, &self.path, |state, outcome| {
            outcome.or_fail()?;
            Ok(Attributes {
                stamp: state.stamp(inode),
                ..state.inodes[inode.0].cached.attributes
            })
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
    /// Returns true for calls that make something durable.
    pub fn is_sync(self) -> bool {
        matches!(self, Call::Sync | Call::SyncFile | Call::SyncDirectory)
    }

    /// Returns true for calls that may change the state.
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Call::Read
                | Call::Names
                | Call::RequireWritable
                | Call::Attributes
                | Call::Identity
                | Call::Stamp
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.call, self.path.display())
    }
}
