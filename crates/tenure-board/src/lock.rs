//! The locks of one operation, in the one order.

use std::io;
use std::time::Instant;

use tenure_core::{Error, LockSet, Mode, Ranking, Result};
use tenure_lockfile::{FileLocker, LockGuard};
use tenure_os::cancel::Cancel;
use tenure_os::clock;

use super::Board;
use super::names::Part;

/// The locks that an operation holds.
#[derive(Default)]
pub(super) struct BoardLocks {
    guards: Vec<(Part, LockGuard)>,
}

impl BoardLocks {
    /// Returns true if nothing is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Returns true if a part is held exclusively: no other process can change it.
    pub(super) fn has_alone(&self, part: &Part) -> bool {
        let alone = |(held, guard): &(Part, LockGuard)| held == part && guard.mode() == Mode::Write;
        self.guards.iter().any(alone)
    }

    /// Returns the first part that is held exclusively.
    pub(super) fn first_alone(&self) -> Option<&Part> {
        let alone = |(_, guard): &&(Part, LockGuard)| guard.mode() == Mode::Write;
        self.guards.iter().find(alone).map(|(part, _)| part)
    }

    /// Fails if a lock file was removed or replaced, as it then protects nothing.
    pub(super) fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(|(_, guard)| guard.check())
    }
}

impl Board {
    /// Returns the instant at which a wait that begins now ends.
    pub(super) fn deadline(&self) -> Instant {
        clock::after(Instant::now(), self.locker.timeout())
    }

    /// Locks parts until the deadline: all of them, in order, or none.
    pub(super) fn lock_all(&self, parts: &[(Part, Mode)], deadline: Instant) -> Result<BoardLocks> {
        self.lock_by(&self.locker, parts, deadline)
    }

    /// Locks the log for a change that is committed, for which a cancellation comes too late.
    pub(super) fn lock_log(&self, deadline: Instant) -> Result<BoardLocks> {
        let locker = self.locker.clone().cancelled_by(Cancel::default());
        self.lock_by(&locker, &[(Part::Events, Mode::Write)], deadline)
    }

    fn lock_by(
        &self,
        locker: &FileLocker,
        parts: &[(Part, Mode)],
        deadline: Instant,
    ) -> Result<BoardLocks> {
        // Every process must agree about the order, so the order in the settings does not count.
        let resources = parts.iter().map(|(part, mode)| (part.resource(), *mode));
        let order = LockSet::new(&Ranking::default(), resources);
        let mut held = BoardLocks::default();
        for (resource, mode) in order.iter() {
            let part = parts.iter().map(|(part, _)| part);
            let part = part.clone().find(|part| part.resource() == *resource);
            let part = part.expect("it is one of them").clone();
            let guard = locker.lock_by(&self.names.lock(&part), *mode, deadline)?;
            held.guards.push((part, guard));
        }
        Ok(held)
    }

    /// Locks a part exclusively if it is free.
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

    /// Locks a part together with other readers. A process that may only read the board, or finds
    /// its disk full, reads without a lock.
    pub(super) fn share(&self, part: Part, deadline: Instant) -> Result<BoardLocks> {
        match self.lock_all(&[(part, Mode::Read)], deadline) {
            Err(error) if is_forbidden(&error) || is_full(&error) => Ok(BoardLocks::default()),
            locked => locked,
        }
    }
}

/// Returns true if there is no room left to write.
fn is_full(error: &Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, Error::Io { source, .. }
        if matches!(source.kind(), StorageFull | QuotaExceeded))
}

/// Returns true if this user, or this file system, does not allow writing.
pub(super) fn is_forbidden(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. }
        if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use tenure_core::{Asker, Owner, SessionId};

    use super::*;
    use crate::issue::IssueId;
    use crate::{FileCaller, NewIssue, Next, Take};

    const WAIT: Duration = Duration::from_secs(60);

    fn new() -> (tempfile::TempDir, Board, IssueId) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("board");
        Board::init(&root).unwrap();
        let board = Board::open(&root, WAIT).unwrap();
        let id = board.create(NewIssue::titled("one")).unwrap().id;
        (directory, board, id)
    }

    /// Returns the board for a caller, and the handle that cancels its waits.
    fn cancellable(board: &Board) -> (Cancel, Board) {
        let asker = Asker {
            session: SessionId::parse("s1").unwrap(),
            owner: Owner::parse("ana").unwrap(),
            pid: std::process::id(),
            host: "desk".into(),
            command: "test".into(),
            agent: None,
        };
        let caller = FileCaller::new(asker, WAIT);
        (caller.cancel.clone(), board.for_caller(&caller))
    }

    fn assert_interrupted<T>(result: Result<T>) {
        let error = result.err().expect("it was not cancelled");
        assert_eq!(error.class(), tenure_core::Class::Interrupted, "{error}");
    }

    #[test]
    fn cancelled_waits_change_nothing_and_hold_nothing() {
        let (_directory, board, id) = new();
        let part = Part::Issue(id.clone());
        let held = board.try_lock(&part).unwrap().expect("it is free");
        let before = board.events_after(0).unwrap();
        let length = board.events_length().unwrap();
        let (cancel, cancelled) = cancellable(&board);
        thread::scope(|scope| {
            // The first thread holds the index by the time it waits.
            let deleting = scope.spawn(|| cancelled.delete(&id));
            let claiming = scope.spawn(|| cancelled.claim(&id, None));
            let next = scope.spawn(|| cancelled.next(None, Take::Claim(None)));
            let idle = scope.spawn(|| cancelled.wait_for_events(length, WAIT));
            while board.try_lock(&Part::Index).unwrap().is_some() {
                thread::yield_now();
            }
            cancel.cancel();
            assert_interrupted(deleting.join().unwrap());
            assert_interrupted(claiming.join().unwrap());
            assert_interrupted(next.join().unwrap().map(|_: Next| ()));
            assert_interrupted(idle.join().unwrap());
        });
        drop(held);
        assert_eq!(board.events_after(0).unwrap(), before);
        for part in [Part::Index, Part::Gates, part, Part::Events] {
            assert!(board.try_lock(&part).unwrap().is_some(), "{part:?}");
        }
    }

    #[test]
    fn a_change_that_is_cancelled_once_it_is_committed_completes() {
        let (_directory, board, id) = new();
        let log = board.try_lock(&Part::Events).unwrap().expect("it is free");
        let lines = board.events_after(0).unwrap().len();
        let (cancel, cancelled) = cancellable(&board);
        thread::scope(|scope| {
            let claiming = scope.spawn(|| cancelled.claim(&id, None));
            while board.load_issue(&id).unwrap().0.claim.is_none() {
                thread::yield_now();
            }
            // The change is committed and waits for the log.
            cancel.cancel();
            // The pause is longer than a cancelled wait takes to end.
            thread::sleep(Duration::from_millis(50));
            drop(log);
            claiming.join().unwrap().unwrap();
        });
        assert_eq!(board.events_after(0).unwrap().len(), lines + 1);
    }
}
