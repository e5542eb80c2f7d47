//! Starts a command in a process group of its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags};
use rustix::process::Pid;
use tenure_core::{Error, Result};
use tenure_os::platform::{by_fork, die_with_parent};

use crate::held::Held;
use crate::watchdog::Watchdog;

/// The reason why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program cannot be run.
    #[error("cannot run {program}: {source}")]
    Program {
        /// The name of the program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The command was not tried: something that it must inherit could not be had.
    #[error(transparent)]
    NotTried(#[from] Error),
}

/// Starts the command, watched if there is a watchdog. It inherits the descriptors of its hold.
pub fn spawn(
    mut command: Command,
    held: &impl Held,
    watchdog: Option<&Watchdog>,
) -> Result<Pid, SpawnError> {
    let inherited = pass_on(held.descriptors())?;
    command.process_group(0);
    if held.command_dies_with_us() {
        die_with_parent(&mut command);
    }
    if let Some(watchdog) = watchdog {
        watchdog.watch_over(&mut command);
    }
    let spawned = command.spawn().or_else(|error| match error.raw_os_error() {
        // This is a script without a `#!` line: a start by fork runs it by the shell.
        Some(code) if code == Errno::NOEXEC.raw_os_error() => by_fork(&mut command).spawn(),
        _ => Err(error),
    });
    drop(inherited);
    let pid = spawned.map(|child| Pid::from_child(&child));
    pid.map_err(|source| {
        if watchdog.is_some() && Watchdog::is_missed(&source) {
            return SpawnError::NotTried(Error::io("watch over", command.get_program(), source));
        }
        SpawnError::Program {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        }
    })
}

/// Returns descriptors that survive the exec, one of each file: all locks of a session may depend
/// on the same one. This process has one thread that starts programs, so nothing else can inherit
/// them in between.
pub fn pass_on(descriptors: impl IntoIterator<Item = Result<OwnedFd>>) -> Result<Vec<OwnedFd>> {
    let failed = |error| Error::io("pass on", "a lock", io::Error::from(error));
    let mut inherited = BTreeMap::new();
    for descriptor in descriptors {
        let descriptor = descriptor?;
        let file = rustix::fs::fstat(&descriptor).map_err(failed)?;
        if let Entry::Vacant(first) = inherited.entry((file.st_dev, file.st_ino)) {
            rustix::io::fcntl_setfd(&descriptor, FdFlags::empty()).map_err(failed)?;
            first.insert(descriptor);
        }
    }
    Ok(inherited.into_values().collect())
}
