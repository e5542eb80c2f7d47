//! Reading: one file, one issue, all of them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure_api::board::{Blocked, Unreadable};
use tenure_core::{Error, Result};
use tenure_lockfile::resource_of;
use tenure_os::disk::FileContent;

use super::Board;
use super::BoardError;
use super::decide::{ClaimStatus, Moment, Waits, claim_status, is_over};
use super::issue::{FILE_BYTES_MAX, Issue, IssueId, IssueState};
use super::lock::BoardLocks;
use super::names::Part;
use super::registry::{self, Gates, Index};

/// The largest index or file of gates, in bytes.
const REGISTRY_BYTES_MAX: u64 = 64 << 20;

/// A file that was read, and the value that it holds.
#[derive(Default)]
pub(super) struct Loaded<T> {
    pub(super) value: T,
    /// The content and attributes of the file; `None` if there is no file.
    pub(super) found: Option<FileContent>,
}

impl<T> Loaded<T> {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.found.as_ref().map(|found| &found.bytes[..])
    }
}

/// All issues of a board.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IssueList {
    /// The issues that can be read: lowest priority number first, then oldest.
    pub issues: Vec<Issue>,
    /// The issues that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

impl IssueList {
    /// Returns the issues in a state.
    pub(super) fn in_state(&self, state: IssueState) -> impl Iterator<Item = &Issue> {
        self.issues.iter().filter(move |issue| issue.state == state)
    }

    /// Returns the issue with an id.
    pub fn get(&self, id: &IssueId) -> Option<&Issue> {
        self.issues.iter().find(|issue| issue.id == *id)
    }
}

impl Board {
    /// Returns an issue.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; `Corrupt` if its file is missing, broken, or of another
    /// program.
    pub fn issue(&self, id: &IssueId) -> Result<Issue> {
        let deadline = self.deadline();
        self.require_file(id, deadline)?;
        let _held = self.share(Part::Issue(id.clone()), deadline)?;
        (self.on_locked)();
        self.load_issue(id).map(|loaded| loaded.0)
    }

    /// Returns all issues.
    pub fn list(&self) -> Result<IssueList> {
        let deadline = self.deadline();
        self.recover(deadline)?;
        self.settle(&BoardLocks::default())?;
        let _held = self.share(Part::Index, deadline)?;
        (self.on_locked)();
        self.read_all()
    }

    /// Finishes changes of dead processes, and fails if the issue has no file then: no lock file is
    /// made for an issue that never was.
    pub(super) fn require_file(&self, id: &IssueId, deadline: Instant) -> Result<()> {
        self.recover(deadline)?;
        self.settle(&BoardLocks::default())?;
        // Without a lock, a missing file may be made or removed by now. If the index lists the
        // issue, the caller finds out under the lock.
        let is_there = self.disk.exists(&self.names.issue(id)).unwrap_or(true);
        match is_there || self.load_index()?.value.contains(id) {
            true => Ok(()),
            false => Err(no_issue(id)),
        }
    }

    /// Returns the open issues that are not ready, each with the reason.
    pub fn blocked(&self, list: &IssueList) -> HashMap<IssueId, Blocked> {
        let moment = self.moment();
        let done = list.in_state(IssueState::Done).map(|issue| &issue.id);
        let done: HashSet<_> = done.collect();
        let blocked = list.in_state(IssueState::Open).filter_map(|issue| {
            let waits = Waits::of(issue, |id| done.contains(id));
            let blocked = match claim_status(issue, "", moment) {
                ClaimStatus::Own | ClaimStatus::Others => Blocked::Claimed,
                _ if waits.is_nothing() => return None,
                _ => Blocked::Waiting(waits.issues, waits.gates),
            };
            Some((issue.id.clone(), blocked))
        });
        blocked.collect()
    }

    /// Returns true if the claim of an issue is over.
    pub fn is_claim_over(&self, issue: &Issue) -> bool {
        let claim = issue.claim.as_ref();
        claim.is_some_and(|claim| is_over(claim, self.moment()))
    }

    pub(super) fn moment(&self) -> Moment<'_> {
        Moment {
            now: (self.now)(),
            boot_ms: (self.boot_now)(),
            boot_id: &self.boot_id,
        }
    }

    /// Reads all issues of the index, which is locked. Their own locks are not needed, as each file
    /// is whole.
    pub(super) fn read_all(&self) -> Result<IssueList> {
        let mut list = IssueList::default();
        for id in self.load_index()?.value.ids() {
            if self.locker.cancel().is_cancelled() {
                return Err(Error::interrupted(resource_of(self.names.root())));
            }
            let found = self.find_issue(&id);
            match found.and_then(|found| found.ok_or_else(|| self.missing(&id))) {
                Ok((issue, _)) => list.issues.push(issue),
                Err(Error::Corrupt { path, problem }) => list.unreadable.push(Unreadable {
                    title: self.title_in(&path),
                    id,
                    file: path.display().to_string(),
                    problem,
                }),
                Err(error) => return Err(error),
            }
        }
        list.issues.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(list)
    }

    /// Returns the title in the file of an issue that cannot be read as one.
    fn title_in(&self, path: &Path) -> Option<String> {
        let found = self.read_file(path).ok()??;
        let value: Value = serde_json::from_slice(&found.bytes).ok()?;
        Some(value.get("title")?.as_str()?.to_owned())
    }

    pub(super) fn read_file(&self, path: &Path) -> Result<Option<FileContent>> {
        let is_issue = path.parent() == Some(&self.names.issues());
        let limit = match is_issue {
            true => FILE_BYTES_MAX as u64,
            false => REGISTRY_BYTES_MAX,
        };
        match self.disk.read(path, limit) {
            Err(error) if is_issue && is_odd(&error) => Err(Error::corrupt(
                path,
                format!("it cannot be read as an issue: {error}"),
            )),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(Error::corrupt(
                path,
                format!("it has more than {limit} bytes"),
            )),
            found => found.map_err(|source| Error::io("read", path, source)),
        }
    }

    /// Returns an issue and its file, or an error if there is none.
    pub(super) fn load_issue(&self, id: &IssueId) -> Result<(Issue, FileContent)> {
        if let Some(found) = self.find_issue(id)? {
            return Ok(found);
        }
        Err(match self.load_index()?.value.contains(id) {
            true => self.missing(id),
            false => no_issue(id),
        })
    }

    /// Returns an issue and its file, or `None` without a file, whatever the index says.
    pub(super) fn find_issue(&self, id: &IssueId) -> Result<Option<(Issue, FileContent)>> {
        let path = self.names.issue(id);
        let Some(found) = self.read_file(&path)? else {
            return Ok(None);
        };
        match Issue::parse(id, &found.bytes) {
            Ok(issue) => Ok(Some((issue, found))),
            Err(problem) => Err(Error::corrupt(path, problem)),
        }
    }

    fn missing(&self, id: &IssueId) -> Error {
        let path = self.names.issue(id);
        Error::corrupt(path, "it is missing, though index.json lists it")
    }

    /// Returns true if an issue exists and is done.
    pub(super) fn is_done(&self, id: &IssueId) -> bool {
        let issue = self.find_issue(id);
        issue.is_ok_and(|found| found.is_some_and(|(issue, _)| issue.state == IssueState::Done))
    }

    pub(super) fn load_index(&self) -> Result<Loaded<Index>> {
        let path = self.names.index();
        let loaded = self.load_registry::<Index>(&path)?;
        match loaded.found {
            Some(_) => Ok(loaded),
            None => {
                let path = self.names.root().to_owned();
                Err(BoardError::Missing { path }.into())
            }
        }
    }

    pub(super) fn load_gates(&self) -> Result<Loaded<Gates>> {
        self.load_registry(&self.names.gates())
    }

    fn load_registry<T: DeserializeOwned + Default>(&self, path: &Path) -> Result<Loaded<T>> {
        let Some(found) = self.read_file(path)? else {
            return Ok(Loaded::default());
        };
        match registry::parse(&found.bytes) {
            Ok(value) => Ok(Loaded {
                value,
                found: Some(found),
            }),
            Err(problem) => Err(Error::corrupt(path, problem)),
        }
    }
}

fn no_issue(id: &IssueId) -> Error {
    Error::NotFound(format!("there is no issue {id}"))
}

/// Returns true for a file among the issues that is no issue, or that this user may not read.
fn is_odd(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    let is_socket = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
    let kinds = [
        io::ErrorKind::InvalidInput,
        io::ErrorKind::IsADirectory,
        io::ErrorKind::PermissionDenied,
    ];
    is_link || is_socket || kinds.contains(&error.kind())
}

impl Issue {
    /// Returns the issue's place among others: lowest priority number, then oldest.
    pub(super) fn place(&self) -> (u32, i64, &IssueId) {
        (self.priority, self.created_at.as_millis(), &self.id)
    }
}
