//! One change: all of it or none.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Result};

use super::Board;
use super::issue::{Issue, IssueId};
use super::lock::BoardLocks;
use super::log::NewEvent;
use super::names::Part;
use super::pending::{GatesImage, Image, IssueImage, MODE_OF_MARKER, Pending};
use super::read::Loaded;
use super::registry::{Gates, Index, encode};
use crate::clock;
use crate::disk::{Attributes, FileContent};
use crate::replace::{Replacement, replace_unsynced, sync_directory_of};
use crate::retry::{TooManyRetries, retry_with_backoff};

/// How long the log is waited for at least, whatever was waited for before: it is held for moments.
const LOG_WAIT_MIN: Duration = Duration::from_millis(500);

/// What an operation changes.
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
    /// None if it is deleted.
    pub(super) after: Option<Issue>,
}

impl Board {
    /// Does the steps of one change: locks until the deadline, finishes what is pending, and makes what `work` says durable. Passing faults are tried
    /// again, as nothing has happened then.
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
        let done = tried.unwrap_or_else(|TooManyRetries { last, .. }| Err(last));
        self.checkpoint_if_many();
        done
    }

    /// Steps 5 to 7. The lines of `unlogged` come before its own.
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
        let record = Replacement::prepare(&*self.disk, &path, &pending.encode(), None)?;
        held.check()?;
        record.put_in_place()?;
        self.pending_seen.fetch_add(1, Relaxed);
        let deadline = deadline.max(clock::after(Instant::now(), LOG_WAIT_MIN));
        let finished = sync_directory_of(&*self.disk, &path)
            .and_then(|()| self.put_images(&pending, likes))
            .and_then(|()| {
                match self.lock_all(&[(Part::Events, Mode::Write)], deadline) {
                    // The change is durable and everyone sees it: the next to come adds its line.
                    Err(Error::Timeout { .. } | Error::Busy { .. }) => Ok(()),
                    log => log.and_then(|_log| {
                        self.add_lines(&unlogged.iter().chain([&pending]).collect::<Vec<_>>())
                    }),
                }
            });
        finished.map_err(|source| Error::HalfWay {
            done: "the change is made, and the next command on the board finishes it".into(),
            source: Box::new(source),
        })
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

    /// Step 6. The locks are held, so everything is as it was read.
    fn put_images(&self, pending: &Pending, likes: [Option<Attributes>; 3]) -> Result<()> {
        let [of_index, of_gates, of_issue] = likes;
        let index = pending
            .index
            .as_ref()
            .map(|image| (Part::Index, image, of_index));
        let gates = pending.gates.as_ref();
        let gates = gates.map(|gates| (Part::Gates, &gates.image, of_gates));
        let issue = pending.issue.as_ref();
        let issue = issue.map(|issue| (Part::Issue(issue.id.clone()), &issue.image, of_issue));
        for (part, image, like) in [index, gates, issue].into_iter().flatten() {
            let path = self.names.file(&part);
            match (&image.after, &image.before) {
                (Some(text), _) => {
                    replace_unsynced(&*self.disk, &path, text.as_bytes(), like.as_ref())?;
                }
                (None, _) => self.remove_file(&path)?,
            }
        }
        Ok(())
    }

    /// Makes `.pending`, if it is missing, and its name and that of the index durable: whoever made them may have been killed
    /// before they were. A file in it says that this was done.
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
        // Without it, the next one syncs again.
        let _ = self.disk.create(&known, MODE_OF_MARKER);
        Ok(())
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

    /// Returns the attributes that the new files get.
    fn likes(&self) -> [Option<Attributes>; 3] {
        let attributes = |found: &FileContent| found.attributes;
        [
            self.index
                .as_ref()
                .and_then(|(old, _)| old.found.as_ref().map(attributes)),
            self.gates
                .as_ref()
                .and_then(|(old, ..)| old.found.as_ref().map(attributes)),
            self.issue
                .as_ref()
                .and_then(|issue| issue.before.as_ref().map(attributes)),
        ]
    }
}
