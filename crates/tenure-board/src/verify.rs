//! Finding the faults of a board, and mending those that need no person.
//!
//! A repair changes the index alone, in one durable replacement under its lock, and removes
//! temporary files that have no author:
//!
//! 1. Under the lock of the index: if it holds conflict markers of git, both sides are put
//!    together. *Crash:* the index is the old one or the new one. No pending change is lost by it:
//!    its issue is added to the index anew, or taken out.
//! 2. Changes of dead processes are finished, as by every command.
//! 3. Under the lock of the index: issues that it does not list, and did not delete, are added.
//!    *Race:* a process that creates an issue has this lock from the index to the file.
//! 4. A second look finds the faults that are left.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tenure_api::Finding;
use tenure_api::board::VerifiedBoard;
use tenure_core::{Error, Mode, Result};
use tenure_os::replace::replace;

use super::Board;
use super::conflict;
use super::issue::IssueId;
use super::lock::BoardLocks;
use super::log::is_event;
use super::names::Part;
use super::read::Loaded;
use super::registry::{self, Index};

/// The problem of a file without an author.
const LEFT_OVER: &str = "it was left by a process that was killed";
/// The remedies of faults: three for a program, and one for a person.
const MERGE: &str = "{.repair} puts both sides together";
const LIST: &str = "{.repair} lists it";
const REMOVE: &str = "{.repair} removes it";
const BY_HAND: &str = "correct it, or put back an older one";

impl Board {
    /// Looks at every file. Changes nothing, but finishes pending changes as every command does.
    pub fn verify(&self) -> Result<VerifiedBoard> {
        let deadline = self.deadline();
        let mut faults = Vec::new();
        let verified = |issues, findings| Ok(VerifiedBoard { issues, findings });
        for path in self.leftovers()? {
            faults.push(self.fault(&path, LEFT_OVER, REMOVE));
        }
        let index = match self.load_index() {
            Err(Error::Corrupt { path, problem }) => {
                let repair = match self.merged_index()? {
                    Some(_) => MERGE,
                    None => BY_HAND,
                };
                faults.push(self.fault(&path, problem, repair));
                // Without the index it is unknown which issues there are.
                return verified(0, faults);
            }
            index => index?,
        };
        drop(index);
        let settled = self.recover(deadline);
        let settled = settled.and_then(|()| self.settle(&BoardLocks::default()));
        self.add_corrupt(settled, &mut faults)?;
        let held = self.share(Part::Index, deadline)?;
        (self.on_locked)();
        let index = self.load_index()?.value;
        let list = self.read_all()?;
        self.verify_unlisted(&index, &mut faults)?;
        drop(held);
        for broken in list.unreadable {
            let path = self.names.issue(&broken.id);
            faults.push(self.fault(&path, broken.problem, BY_HAND));
        }
        self.add_corrupt(self.load_gates(), &mut faults)?;
        self.verify_log(&mut faults)?;
        verified(list.issues.len(), faults)
    }

    fn fault(&self, path: &Path, problem: impl Into<String>, repair: &'static str) -> Finding {
        let file = path.strip_prefix(self.names.root()).unwrap_or(path);
        Finding {
            file: file.display().to_string(),
            problem: problem.into(),
            repair: repair.into(),
            repaired: false,
        }
    }

    /// Adds the fault of a file that cannot be read; other errors are passed on.
    fn add_corrupt<T>(&self, read: Result<T>, faults: &mut Vec<Finding>) -> Result<()> {
        match read {
            Err(Error::Corrupt { path, problem }) => {
                faults.push(self.fault(&path, problem, BY_HAND));
                Ok(())
            }
            read => read.map(drop),
        }
    }

    fn verify_unlisted(&self, index: &Index, faults: &mut Vec<Finding>) -> Result<()> {
        let unlisted = self.unlisted(index)?.into_iter();
        faults.extend(unlisted.map(|(path, issue)| match issue {
            Ok(_) => {
                let problem = "it is an issue that index.json does not list";
                self.fault(&path, problem, LIST)
            }
            Err(problem) => self.fault(&path, problem, BY_HAND),
        }));
        Ok(())
    }

    /// Returns the files among the issues that the index does not list, each with its id or with
    /// its problem.
    fn unlisted(&self, index: &Index) -> Result<Vec<(PathBuf, Result<IssueId, String>)>> {
        let directory = self.names.issues();
        let names = self.disk.names(&directory);
        let names = names.map_err(|source| Error::io("list", &directory, source))?;
        let listed: HashSet<IssueId> = index.ids().into_iter().collect();
        let ids = names.iter().filter_map(|name| {
            let id = name.to_str()?.strip_suffix(".json")?;
            id.parse::<IssueId>().ok()
        });
        let mut unlisted = Vec::new();
        for id in ids.filter(|id| !listed.contains(id)) {
            let path = self.names.issue(&id);
            let issue = match self.find_issue(&id) {
                Ok(Some(_)) if index.is_deleted(&id) => Err(
                    "index.json says that it was deleted: move it away, or take it out of deleted_ids".to_owned(),
                ),
                Ok(Some(_)) => Ok(id),
                Ok(None) => continue,
                Err(Error::Corrupt { problem, .. }) => {
                    Err(format!("index.json does not list it, and {problem}"))
                }
                Err(error) => return Err(error),
            };
            unlisted.push((path, issue));
        }
        unlisted.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(unlisted)
    }

    /// Adds the lines that are no events, which every reader leaves out.
    fn verify_log(&self, faults: &mut Vec<Finding>) -> Result<()> {
        let log = self.tail(0)?.lines;
        let lines = log.split(|byte| *byte == b'\n').enumerate();
        let mut odd =
            lines.filter(|(_, line)| !line.is_empty() && !is_event(line.trim_ascii_end()));
        if let Some((first, _)) = odd.next() {
            let (first, lines) = (first + 1, odd.count() + 1);
            let problem = format!(
                "{lines} of its lines are no events, the first is line {first}: remove them"
            );
            faults.push(self.fault(&self.names.log(), problem, BY_HAND));
        }
        Ok(())
    }

    /// Looks at every file, and mends faults that need no person. Findings that were mended come
    /// first.
    pub fn repair(&self) -> Result<VerifiedBoard> {
        let mut done = Vec::new();
        let merge = |board: &Self| Ok(board.merged_index()?.map(|index| (index, ())));
        if self.replace_index(merge)?.is_some() {
            let problem = "it held conflict markers of git";
            done.push(self.fault(&self.names.index(), problem, "both sides were put together"));
        }
        for path in self.leftovers()? {
            self.remove_file(&path)?;
            done.push(self.fault(&path, LEFT_OVER, "it was removed"));
        }
        self.remove_left_caches();
        // The verification finishes pending changes.
        self.verify()?;
        let list = |board: &Self| {
            let Ok(Loaded {
                value: mut index, ..
            }) = board.load_index()
            else {
                return Ok(None);
            };
            let mut listed = Vec::new();
            for (path, issue) in board.unlisted(&index)? {
                if let Ok(id) = issue {
                    index.add(&id);
                    listed.push(path);
                }
            }
            Ok((!listed.is_empty()).then_some((index, listed)))
        };
        for path in self.replace_index(list)?.unwrap_or_default() {
            let problem = "it was an issue that index.json did not list";
            done.push(self.fault(&path, problem, "it is listed"));
        }
        for finding in &mut done {
            finding.repaired = true;
        }
        let mut after = self.verify()?;
        after.findings.splice(..0, done);
        Ok(after)
    }

    /// Replaces the index under its lock by the one that `work` returns, if it returns one. Returns
    /// the result that `work` gave with it.
    fn replace_index<R>(
        &self,
        work: impl FnOnce(&Self) -> Result<Option<(Index, R)>>,
    ) -> Result<Option<R>> {
        let held = self.lock_all(&[(Part::Index, Mode::Write)], self.deadline())?;
        let Some((index, said)) = work(self)? else {
            return Ok(None);
        };
        let path = self.names.index();
        let like = self.read_file(&path)?.map(|found| found.attributes);
        held.check()?;
        replace(
            &*self.disk,
            &path,
            registry::encode(&index).as_bytes(),
            like.as_ref(),
        )?;
        // The cache does not know the issues that are listed now.
        self.remove_file(&self.names.ready())?;
        Ok(Some(said))
    }

    /// Returns the index with both sides of a merge put together; `None` if it holds no conflict
    /// markers, or a side cannot be read.
    fn merged_index(&self) -> Result<Option<Index>> {
        let found = self.read_file(&self.names.index())?;
        let bytes = found.map(|found| found.bytes).unwrap_or_default();
        let sides = conflict::problem(&bytes).and_then(|_| conflict::sides(&bytes));
        let sides = sides.map(|sides| sides.map(|side| registry::parse::<Index>(&side)));
        let Some([Ok(mut ours), Ok(theirs)]) = sides else {
            return Ok(None);
        };
        ours.merge(theirs);
        Ok(Some(ours))
    }
}
