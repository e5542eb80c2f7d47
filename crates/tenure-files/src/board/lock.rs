//! The locks of one operation, in the one order.

use std::io;
use std::time::Instant;

use tenure_core::{Error, LockSet, Mode, Ranking, Result};

use super::Board;
use super::names::Part;
use crate::clock;
use crate::locker::LockGuard;

/// The locks that an operation holds.
#[derive(Default)]
pub(super) struct BoardLocks {
    guards: Vec<(Part, LockGuard)>,
}

impl BoardLocks {
    /// Returns true if nobody else can change a part.
    pub(super) fn has_alone(&self, part: &Part) -> bool {
        let alone = |(held, guard): &(Part, LockGuard)| held == part && guard.mode() == Mode::Write;
        self.guards.iter().any(alone)
    }

    /// Fails if a lock file was removed or replaced: then it protects nothing.
    pub(super) fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(|(_, guard)| guard.check())
    }
}

impl Board {
    /// Returns when a wait that begins now ends.
    pub(super) fn deadline(&self) -> Instant {
        clock::after(Instant::now(), self.locker.timeout())
    }

    /// Locks parts until the deadline: all of them, in order, or none.
    pub(super) fn lock_all(&self, parts: &[(Part, Mode)], deadline: Instant) -> Result<BoardLocks> {
        // Every process must agree about the order, so that of the settings does not count.
        let resources = parts.iter().map(|(part, mode)| (part.resource(), *mode));
        let order = LockSet::new(&Ranking::default(), resources);
        let mut held = BoardLocks::default();
        for (resource, mode) in order.iter() {
            let part = parts.iter().map(|(part, _)| part);
            let part = part.clone().find(|part| part.resource() == *resource);
            let part = part.expect("it is one of them").clone();
            let guard = self
                .locker
                .lock_by(&self.names.lock(&part), *mode, deadline)?;
            held.guards.push((part, guard));
        }
        Ok(held)
    }

    /// Locks a part alone if it is free.
    pub(super) fn try_lock(&self, part: &Part) -> Result<Option<BoardLocks>> {
        let locked = self.locker.try_lock_exclusive(&self.names.lock(part));
        let guard = match locked {
            Err(error) if is_forbidden(&error) => None,
            locked => locked?,
        };
        Ok(guard.map(|guard| BoardLocks {
            guards: vec![(part.clone(), guard)],
        }))
    }

    /// Locks a part together with other readers. A process that may only read the board reads without a lock.
    pub(super) fn share(&self, part: Part, deadline: Instant) -> Result<BoardLocks> {
        match self.lock_all(&[(part, Mode::Read)], deadline) {
            Err(error) if is_forbidden(&error) => Ok(BoardLocks::default()),
            locked => locked,
        }
    }
}

/// Returns true if this user, or this file system, does not allow writing.
pub(super) fn is_forbidden(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. }
        if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}
