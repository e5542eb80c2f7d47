//! The one way to change documents: read, work and write under one exclusive lock.
//!
//! 1. Lock all documents, in order. Finish a transaction that a dead process left (see
//!    [`super::recover`]).
//! 2. If they are shared with Node, take its lock, too, inside of ours.
//! 3. Read; compare with the version expected and with the fence remembered.
//! 4. Work. *An error or a panic:* nothing has happened yet.
//! 5. Write: one document by [`tenure_os::replace`], several by [`super::several`]. The note gets
//!    the fence before that.
//! 6. Right before the rename, ask all guards of this write again: the store about the token,
//!    Node's lock, our own lock. The document must still be the file that was read, as an editor
//!    takes no lock.
//!
//! There is no way to load, drop the lock and save: the content is lent to the work, and the result
//! of the work is written before the lock is given up.

use std::path::Path;
use std::time::Instant;

use tenure_api::doc::{Expect, Version};
use tenure_core::{Error, Result, setters};
use tenure_lockfile::LockGuard;
use tenure_os::clock;
use tenure_os::disk::Attributes;
use tenure_os::replace::{Replacement, sync_directory_of};

use super::content::Content;
use super::fence::Fence;
use super::note::Note;
use super::path::Location;
use super::re_entry::{Busy, refuse_re_entry};
use super::read::missing;
use super::several::{self, DOCUMENTS_MAX, DocumentChange};
use super::{DocumentError, Documents, json, lock};
use crate::node_lock::NodeLock;

/// The conditions of a write.
#[derive(Default)]
#[non_exhaustive]
#[must_use]
pub struct Terms<'a> {
    /// The state that the document must be in. Only an edit of one document may set it.
    pub expect: Option<Expect>,
    /// The lock under which it is written.
    pub fence: Option<Fence>,
    /// True if the work needs existing documents. A document that never existed is then not even
    /// locked.
    pub existing: bool,
    /// Called before the work and again before the write, under the document's lock. Its error is
    /// passed on, and nothing is written.
    pub guard: Option<&'a dyn Fn() -> Result<()>>,
    /// Called for every document whose fence was set aside by `rebind`, once it is written.
    pub overridden: Option<&'a Tell<'a>>,
}

impl<'a> Terms<'a> {
    setters! {
        /// Sets the state that the document must be in.
        with_expect(expect: Expect) => expect = Some(expect);
        /// Sets the lock under which it is written.
        with_fence(fence: Fence) => fence = Some(fence);
        /// Sets the function that is called before the work and again before the write.
        with_guard(guard: &'a dyn Fn() -> Result<()>) => guard = Some(guard);
    }

    /// Makes the edit fail if a document does not exist.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }
}

/// Receives the path of a document, and the lock and token that it remembered.
type Tell<'a> = dyn Fn(&Path, &str) + 'a;

/// A document as the work finds it.
struct Open {
    location: Location,
    content: Option<Content>,
    attributes: Option<Attributes>,
    /// The note that the document is to have.
    note: Note,
    /// True if the note changes.
    fenced: bool,
    /// The lock and token that the document remembered, if `rebind` sets them aside.
    overridden: Option<String>,
}

impl Documents {
    /// Changes one document or several, all or none. The work gets the contents, unchecked and in
    /// the order of `paths`, and returns the new text of each, and a value for the caller.
    ///
    /// # Errors
    ///
    /// Errors of the work are passed on. After any error but [`HalfWay`](Error::HalfWay), which
    /// says what was done, no document has changed.
    pub fn edit<R, E: From<Error>>(
        &self,
        paths: &[&Path],
        terms: &Terms<'_>,
        work: impl FnOnce(&[Option<Content>]) -> Result<(Vec<String>, R), E>,
    ) -> Result<(Vec<Version>, R), E> {
        let mut versions = Vec::new();
        let told = self.change(paths, terms, |old| {
            let (texts, told) = work(old)?;
            for (text, path) in texts.iter().zip(paths) {
                check_new(text, path)?;
                versions.push(Version::of(text.as_bytes()));
            }
            Ok::<_, E>((texts, told))
        })?;
        Ok((versions, told))
    }

    /// Like [`edit`](Self::edit), for work whose texts are known to be JSON.
    pub(super) fn change<R, E: From<Error>>(
        &self,
        paths: &[&Path],
        terms: &Terms<'_>,
        work: impl FnOnce(&[Option<Content>]) -> Result<(Vec<String>, R), E>,
    ) -> Result<R, E> {
        let deadline = clock::after(Instant::now(), self.locker.timeout());
        let order = self.in_order(paths)?;
        refuse_re_entry(order.iter().map(|(location, _)| location))?;
        let sorted: Vec<&Location> = order.iter().map(|(location, _)| location).collect();
        if terms.existing {
            self.require_known(&sorted)?;
        }
        let (guards, notes) = self.lock_and_recover(&sorted, deadline)?;
        let node = self.node_locks_to_write(paths, &sorted, deadline)?;
        (self.on_locked)();
        let mut open = self.open_all(&sorted, notes, terms)?;
        check_guard(terms)?;

        // The work sees the contents in the order of `paths`.
        let mut contents: Vec<Option<Content>> = (0..order.len()).map(|_| None).collect();
        for ((_, at), open) in order.iter().zip(&mut open) {
            contents[*at] = open.content.take();
        }
        let (texts, told) = {
            let _busy = Busy::with(&sorted);
            work(&contents)?
        };
        if texts.len() != paths.len() {
            let problem = format!("{} documents, {} new texts", paths.len(), texts.len());
            return Err(Error::Internal(problem).into());
        }
        let gate = || check_guard(terms).and_then(|()| check_locks(&guards, &node));
        let overridden: Vec<_> = open.iter_mut().map(|open| open.overridden.take()).collect();
        match (&open[..], &texts[..]) {
            ([one], [text]) => self.write_one(one, text, gate)?,
            _ => self.write_several(&order, open, &contents, texts, gate)?,
        }
        if let Some(tell) = terms.overridden {
            for (location, remembered) in sorted.iter().zip(&overridden) {
                if let Some(remembered) = remembered {
                    tell(location.path(), remembered);
                }
            }
        }
        Ok(told)
    }

    /// Returns the locations of documents in the order of locks, each with its index in `paths`.
    pub(super) fn in_order(&self, paths: &[&Path]) -> Result<Vec<(Location, usize)>> {
        let [one] = paths else {
            if paths.is_empty() || paths.len() > DOCUMENTS_MAX {
                let problem = format!("{} documents; from 1 to {DOCUMENTS_MAX}", paths.len());
                return Err(Error::BadInput(problem));
            }
            let mut order = Vec::with_capacity(paths.len());
            for (at, path) in paths.iter().enumerate() {
                order.push((Location::canonical(path)?, at));
            }
            order.sort();
            for pair in order.windows(2) {
                if pair[0].0 == pair[1].0 {
                    let path = pair[0].0.path().display();
                    return Err(Error::BadInput(format!("{path} is named twice")));
                }
            }
            return Ok(order);
        };
        Ok(vec![(Location::of(one)?, 0)])
    }

    /// Fails if neither a document nor its lock file exists: asking for the lock would leave a lock
    /// file behind.
    fn require_known(&self, sorted: &[&Location]) -> Result<()> {
        let unknown = |location: &&&Location| {
            !self.locker.has_open(&location.lock()) && !lock::has_ever_existed(location)
        };
        match sorted.iter().find(unknown) {
            Some(location) => Err(missing(location.path())),
            None => Ok(()),
        }
    }

    fn open_all(
        &self,
        sorted: &[&Location],
        notes: Vec<Note>,
        terms: &Terms<'_>,
    ) -> Result<Vec<Open>> {
        if terms.expect.is_some() && sorted.len() > 1 {
            let problem = "a version can be expected of one document only";
            return Err(Error::BadInput(problem.into()));
        }
        let mut all = Vec::with_capacity(sorted.len());
        for (location, note) in sorted.iter().zip(notes) {
            let open = self.open(location, note, terms)?;
            if let Some(expect) = terms.expect {
                require_version(expect, &open)?;
            }
            all.push(open);
        }
        Ok(all)
    }

    fn open(&self, location: &Location, mut note: Note, terms: &Terms<'_>) -> Result<Open> {
        let mut overridden = None;
        if let Some(fence) = &terms.fence {
            let asked = fence.admit(note.fence.as_ref(), location)?;
            let last = note.fence.take().filter(|last| fence.overrides(last));
            overridden = last.map(|last| last.shown_beside(&asked));
            note.fence = Some(asked);
        }
        let found = self.found(location)?;
        if let Some((_, attributes)) = &found {
            self.require_replaceable(location, attributes)?;
        }
        let (content, attributes) = found.unzip();
        Ok(Open {
            location: location.clone(),
            content,
            attributes,
            note,
            fenced: terms.fence.is_some(),
            overridden,
        })
    }

    /// Refuses early a document that the rename would refuse at the end, or that the rename would
    /// replace although this user may not write it.
    fn require_replaceable(&self, location: &Location, attributes: &Attributes) -> Result<()> {
        let path = location.path();
        if attributes.mounted_on {
            return Err(Error::configuration(
                format!(
                    "{} cannot be replaced: something is mounted on it",
                    path.display()
                ),
                "mount its directory instead of the file alone",
            ));
        }
        let writable = self.disk.require_writable(path, attributes);
        writable.map_err(|source| lock::not_writable(path, source))
    }

    fn write_one(&self, open: &Open, text: &str, gate: impl Fn() -> Result<()>) -> Result<()> {
        let disk = &*self.disk;
        let (path, like) = (open.location.path(), open.attributes.as_ref());
        if open.fenced {
            open.note.keep(disk, &open.location, like)?;
        }
        let replacement = Replacement::prepare(disk, path, text.as_bytes(), like)?;
        // The gate comes after the temporary file: a lock can be lost while a large document is
        // written.
        gate()?;
        replacement.put_in_place_if_unchanged()?;
        sync_directory_of(disk, path).map_err(|source| Error::HalfWay {
            done: format!(
                "{} was changed, which may not survive a power loss",
                path.display()
            ),
            source: Box::new(source),
        })
    }

    fn write_several(
        &self,
        order: &[(Location, usize)],
        open: Vec<Open>,
        contents: &[Option<Content>],
        texts: Vec<String>,
        mut gate: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut texts: Vec<Option<String>> = texts.into_iter().map(Some).collect();
        let changes = order.iter().zip(open).map(|((location, at), open)| {
            let version = contents[*at].as_ref().map(Content::version);
            DocumentChange {
                location,
                before: version.zip(open.attributes),
                after: texts[*at].take().expect("each is taken once"),
                note: open.note,
            }
        });
        several::commit(&*self.disk, changes.collect(), &mut gate)
    }
}

fn check_guard(terms: &Terms<'_>) -> Result<()> {
    terms.guard.map_or(Ok(()), |guard| guard())
}

/// Fails if a lock no longer protects its document.
fn check_locks(guards: &[LockGuard], node: &[NodeLock]) -> Result<()> {
    guards.iter().try_for_each(LockGuard::check)?;
    node.iter().try_for_each(NodeLock::check)
}

fn check_new(text: &str, path: &Path) -> Result<()> {
    let path = path.display();
    let what = || format!("what was to be written to {path}");
    check_json(text, what)
        .map_err(|problem| Error::BadInput(format!("{problem}; {path} is untouched")))
}

/// Checks that text can be a document: JSON without repeated keys. The error begins with `what`,
/// and names the byte.
pub fn check_json(text: &str, what: impl FnOnce() -> String) -> Result<(), String> {
    json::check(text.as_bytes())
        .map(drop)
        .map_err(|flaw| format!("{} is {flaw}", what()))
}

fn require_version(expect: Expect, open: &Open) -> Result<()> {
    let actual = open.content.as_ref().map(Content::version);
    let expected = match expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(version),
    };
    if actual == expected {
        return Ok(());
    }
    let shown = |version: Option<Version>| version.map_or("absent".into(), |it| it.to_string());
    Err(DocumentError::OtherVersion {
        path: open.location.path().to_owned(),
        expected: shown(expected),
        actual: shown(actual),
    }
    .into())
}
