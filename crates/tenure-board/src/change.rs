//! One change: all of it or none.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Result};
use tenure_os::clock;
use tenure_os::disk::{Attributes, FileContent, Fresh};
use tenure_os::replace::{
    Replacement, replace_unsynced, require_same_owner_possible, sync_directory_of,
};
use tenure_os::retry::{TooManyRetries, retry_with_backoff};

use super::Board;
use super::issue::{Issue, IssueId};
use super::leftovers::name_of_record;
use super::lock::BoardLocks;
use super::log::NewEvent;
use super::names::Part;
use super::pending::{GatesImage, Image, IssueImage, MODE_OF_MARKER, Pending};
use super::read::Loaded;
use super::registry::{Gates, Index, encode};

/// The shortest wait for the log, whatever was waited for before: the log is held for moments.
const LOG_WAIT_MIN: Duration = Duration::from_millis(500);

/// The content of a change, as an operation wants it.
pub(super) struct BoardChange {
    pub(super) event: NewEvent,
    pub(super) issue: Option<IssueChange>,
    /// The index as it was, and as it will be.
    pub(super) index: Option<(Loaded<Index>, Index)>,
    /// The gates as they were, as they will be, and the one that is defined.
    pub(super) gates: Option<(Loaded<Gates>, Gates, GatesImage)>,
}

/// The change of one issue.
pub(super) struct IssueChange {
    pub(super) id: IssueId,
    pub(super) before: Option<FileContent>,
    /// `None` if the issue is deleted.
    pub(super) after: Option<Issue>,
}

impl Board {
    /// Carries out one change: locks until the deadline, finishes pending changes, and makes the
    /// change that `work` returns durable. Tries again after passing faults, as nothing has
    /// happened then.
    pub(super) fn change<R>(
        &self,
        parts: &[(Part, Mode)],
        deadline: Instant,
        mut work: impl FnMut() -> Result<(Option<BoardChange>, R)>,
    ) -> Result<R> {
        let mut once = || {
            self.recover(deadline)?;
            let held = self.lock_all(parts, deadline)?;
            (self.on_locked)();
            let unlogged = self.settle(&held)?;
            let (change, result) = work()?;
            if let Some(change) = change {
                self.commit(&held, &unlogged, change, deadline)?;
            }
            Ok::<R, Error>(result)
        };
        let tried = retry_with_backoff(&self.retry, || match once() {
            Err(error) if error.is_passing() => Err(error),
            done => Ok(done),
        });
        let done =
            tried.unwrap_or_else(|TooManyRetries { attempts, last }| Err(last.after(attempts)));
        self.checkpoint_if_many();
        done
    }

    /// Carries out steps 5 to 7. The lines of `unlogged` come before the change's own.
    fn commit(
        &self,
        held: &BoardLocks,
        unlogged: &[Pending],
        change: BoardChange,
        deadline: Instant,
    ) -> Result<()> {
        let likes = change.likes();
        let pending = self.pending(change)?;
        self.make_pending_directory()?;
        let path = self.names.pending(&pending.uuid);
        let alone = held.first_alone();
        let name = name_of_record(alone.expect("a change has something alone"));
        let (record, mut file) =
            Replacement::begin_named(&*self.disk, &path, &name, &pending.encode())?;
        self.require_replaceable(&mut *file, &pending, &likes)?;
        held.check()?;
        record.put_in_place()?;
        let synced = sync_directory_of(&*self.disk, &path).and_then(|()| {
            file.sync()
                .map_err(|source| Error::io("sync", &path, source))
        });
        if let Err(error) = synced {
            return Err(self.take_back(&path, error));
        }
        self.pending_seen.fetch_add(1, Relaxed);
        let deadline = deadline.max(clock::after(Instant::now(), LOG_WAIT_MIN));
        let finished = self.put_images(&pending, likes).and_then(|()| {
            let changes: Vec<&Pending> = unlogged.iter().chain([&pending]).collect();
            match self.lock_log(deadline) {
                // The change is durable and every reader sees it: the next process that adds lines
                // adds this one.
                Err(Error::Timeout { .. } | Error::Busy { .. }) => return Ok(()),
                log => log.and_then(|_log| self.add_lines(&changes))?,
            }
            // The log is unlocked by now, so no process waits for it meanwhile.
            changes.iter().for_each(|change| self.mark_finished(change));
            Ok(())
        });
        finished.map_err(half_way)
    }

    /// Fails if step 6 could not give a file the owner that it has: the change would be committed,
    /// and no process of this user could finish it.
    fn require_replaceable(
        &self,
        file: &mut dyn Fresh,
        pending: &Pending,
        likes: &[Option<Attributes>],
    ) -> Result<()> {
        for ((part, image), like) in pending.images().iter().zip(likes) {
            if let (Some(_), Some(like)) = (&image.after, like) {
                require_same_owner_possible(file, &self.names.file(part), like)?;
            }
        }
        Ok(())
    }

    /// Removes a record that could not be synced, so that nothing has happened. If the removal is
    /// not sure, the error says so.
    fn take_back(&self, record: &Path, error: Error) -> Error {
        let removed = self.remove_file(record);
        match removed.and_then(|()| sync_directory_of(&*self.disk, record)) {
            Ok(()) => error,
            Err(_) => half_way(error),
        }
    }

    fn pending(&self, change: BoardChange) -> Result<Pending> {
        let uuid = (self.new_uuid)();
        let line = self.line(&uuid, change.event);
        let issue = change.issue.map(|issue| {
            let after = issue.after.as_ref().map(Issue::encode).transpose()?;
            let before = issue.before.as_ref().map(|found| &found.bytes[..]);
            Ok::<_, Error>(IssueImage {
                id: issue.id,
                version: issue.after.map_or(u64::MAX, |after| after.version),
                image: Image::new(before, after),
            })
        });
        let index = change
            .index
            .map(|(before, after)| Image::new(before.bytes(), Some(encode(&after))));
        let gates = change.gates.map(|(before, after, gates)| GatesImage {
            image: Image::new(before.bytes(), Some(encode(&after))),
            ..gates
        });
        Ok(Pending {
            uuid,
            boot_id: self.boot_id.clone(),
            log_length: self.end_of_lines()?,
            line,
            issue: issue.transpose()?,
            index,
            gates,
        })
    }

    /// Replaces the files: step 6. The locks are held, so everything is as it was read.
    fn put_images(&self, pending: &Pending, likes: Vec<Option<Attributes>>) -> Result<()> {
        for ((part, image), like) in pending.images().into_iter().zip(likes) {
            let path = self.names.file(&part);
            match &image.after {
                Some(text) => {
                    replace_unsynced(&*self.disk, &path, text.as_bytes(), like.as_ref())?;
                }
                None => self.remove_file(&path)?,
            }
        }
        Ok(())
    }

    /// Makes `.pending`, if it is missing, and makes its name and that of the index durable: their
    /// makers may have been killed before they synced. A marker in it says that this was done.
    pub(super) fn make_pending_directory(&self) -> Result<()> {
        let directory = self.names.all_pending();
        let failed = |source| Error::io("make the directory", &directory, source);
        let known = self.names.pending_is_durable();
        if self.disk.exists(&known).map_err(failed)? {
            return Ok(());
        }
        match self.disk.make_directory(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        sync_directory_of(&*self.disk, &directory)?;
        // Without the marker, the next process syncs again.
        let _ = self.disk.create(&known, MODE_OF_MARKER);
        Ok(())
    }
}

fn half_way(source: Error) -> Error {
    Error::HalfWay {
        done: "the change is made, and the next command on the board finishes it".into(),
        source: Box::new(source),
    }
}

impl BoardChange {
    pub(super) fn of_issue(event: NewEvent, before: Option<FileContent>, after: Issue) -> Self {
        Self {
            event,
            issue: Some(IssueChange {
                id: after.id.clone(),
                before,
                after: Some(after),
            }),
            index: None,
            gates: None,
        }
    }

    /// Returns the attributes that the new files get, in the order of [`Pending::images`].
    fn likes(&self) -> Vec<Option<Attributes>> {
        let index = self.index.as_ref().map(|(old, _)| old.found.as_ref());
        let gates = self.gates.as_ref().map(|(old, ..)| old.found.as_ref());
        let issue = self.issue.as_ref().map(|issue| issue.before.as_ref());
        let found = [index, gates, issue].into_iter().flatten();
        found.map(|found| Some(found?.attributes)).collect()
    }
}
