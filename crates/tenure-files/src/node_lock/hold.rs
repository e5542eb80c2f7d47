//! A lock that is held: its proof, and the callback for its loss.

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tenure_core::internal::lock;
use tenure_core::{Error, Result};
use tenure_os::clock;

use crate::node_lock::directory::{self, DirectoryIdentity, LockDirectory};
use crate::node_lock::names::Names;
use crate::node_lock::stale;

/// The function that is called when a lock is lost, with the reason.
pub type OnLost = Arc<dyn Fn(&str) + Send + Sync>;

/// A lock that was put in place.
pub(super) struct Hold {
    names: Arc<Names>,
    /// The directory, kept open so that its inode number is not given to another.
    directory: File,
    identity: DirectoryIdentity,
    state: Mutex<State>,
    /// Notified when the state changes.
    changed: Condvar,
}

struct State {
    phase: Phase,
    tell: Option<OnLost>,
}

enum Phase {
    Held(Refreshed),
    Lost(String),
    Released,
}

/// The last time the lock was made fresh.
#[derive(Clone, Copy)]
struct Refreshed {
    /// The time that the lock was given, as the file system keeps it.
    modified: SystemTime,
    /// A moment before the lock was given that time, in milliseconds since boot.
    boot_ms: u64,
}

/// The outcome of a refresh.
pub(super) enum Refresh {
    Done,
    /// The file system failed; the lock is not too old yet.
    Failed,
    /// The lock is released or lost: there is nothing to refresh any more.
    Over,
}

impl Hold {
    /// Returns a lock that was put in place. `boot_ms` is a time from before its directory was
    /// made.
    pub(super) fn new(
        names: &Arc<Names>,
        directory: File,
        seen: LockDirectory,
        boot_ms: u64,
    ) -> Self {
        Self {
            names: Arc::clone(names),
            directory,
            identity: seen.identity,
            state: Mutex::new(State {
                phase: Phase::Held(Refreshed {
                    modified: seen.modified,
                    boot_ms,
                }),
                tell: None,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns true if the directory that was seen is this lock.
    pub(super) fn is(&self, seen: LockDirectory) -> bool {
        seen.identity == self.identity
    }

    /// Fails if the lock is lost. A lost lock stays lost.
    pub(super) fn verify(&self) -> Result<()> {
        let state = lock(&self.state);
        let refreshed = match &state.phase {
            Phase::Held(refreshed) => *refreshed,
            Phase::Lost(reason) => return Err(self.names.lost(reason)),
            Phase::Released => return Err(self.names.lost("it was released")),
        };
        match self.why_lost(refreshed)? {
            None => Ok(()),
            Some(reason) => Err(self.lose(state, reason)),
        }
    }

    /// Gives the lock a new time if it is still ours.
    pub(super) fn refresh(&self) -> Refresh {
        let mut state = lock(&self.state);
        let Phase::Held(refreshed) = state.phase else {
            return Refresh::Over;
        };
        let lost = match self.why_lost(refreshed) {
            Ok(lost) => lost,
            Err(error) if stale::is_too_long_since(refreshed.boot_ms) => {
                Some(format!("it could not be refreshed for 10s: {error}"))
            }
            Err(_) => return Refresh::Failed,
        };
        if let Some(reason) = lost {
            self.lose(state, reason);
            return Refresh::Over;
        }
        // The time is taken before the call: after it, a pause in between would make the lock look
        // younger than it is.
        let boot_ms = clock::boot_now();
        match directory::touch(&self.directory) {
            Ok(LockDirectory { modified, .. }) => {
                state.phase = Phase::Held(Refreshed { modified, boot_ms });
                Refresh::Done
            }
            Err(_) => Refresh::Failed,
        }
    }

    /// Returns the reason why the lock is lost, or `None` if it is not.
    fn why_lost(&self, refreshed: Refreshed) -> Result<Option<String>> {
        let reason = match directory::look(self.names.lock()) {
            Ok(None) => Some("its directory is gone"),
            Ok(Some(seen)) if !self.is(seen) => Some("another program took it over"),
            Ok(Some(seen)) if seen.modified != refreshed.modified => {
                Some("another program changed the time of its directory")
            }
            Ok(Some(_)) => None,
            // Something that is no lock is at its path.
            Err(Error::Corrupt { .. }) => Some("its directory was replaced"),
            Err(error) => return Err(error),
        };
        // The age comes last, as time goes on while the path is looked at.
        let is_too_old = || {
            (stale::is_too_long_since(refreshed.boot_ms) || stale::is_too_old(refreshed.modified))
                .then_some("it became more than 10s old, so that anyone may take it over")
        };
        Ok(reason.or_else(is_too_old).map(str::to_owned))
    }

    fn lose(&self, mut state: MutexGuard<'_, State>, reason: String) -> Error {
        let error = self.names.lost(&reason);
        let tell = state.tell.take();
        state.phase = Phase::Lost(reason.clone());
        // The callback may ask about the lock, so the mutex is unlocked first.
        drop(state);
        self.changed.notify_all();
        if let Some(tell) = tell {
            tell(&reason);
        }
        error
    }

    /// Sets the function that is called once, when the lock is found lost.
    pub(super) fn tell_when_lost(&self, tell: OnLost) {
        lock(&self.state).tell = Some(tell);
    }

    /// Ends the hold. Returns false if it had ended before, and an error if the lock was lost.
    pub(super) fn end(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        let before = std::mem::replace(&mut state.phase, Phase::Released);
        state.tell = None;
        drop(state);
        self.changed.notify_all();
        match before {
            Phase::Held(_) => Ok(true),
            Phase::Lost(reason) => Err(self.names.lost(reason)),
            Phase::Released => Ok(false),
        }
    }

    /// Waits for `time` while the lock is held. Returns false as soon as it is not.
    pub(super) fn wait_while_held(&self, time: Duration) -> bool {
        let held = |state: &mut State| matches!(state.phase, Phase::Held(_));
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, time, held);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        held(&mut state)
    }
}
