//! Documents over a simulated disk.
//!
//! All state that must survive is on the simulated disk. Locks are real, in a real directory with
//! the simulated path: they end with the process, so there is nothing to simulate.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Class, Error, Resource, Result, Token};
use tenure_os::disk::simulated::{SimulatedDisk, State};

use super::world::World;
use crate::document::{Documents, Fence, Terms};

/// The place of the documents of a scenario, which clones share.
#[derive(Clone)]
pub(super) struct Site(Rc<Place>);

struct Place {
    root: tempfile::TempDir,
    documents: Vec<PathBuf>,
    /// The values that ended processes have used. They keep no state, and new ones take time to
    /// make.
    idle: RefCell<Vec<Documents>>,
}

impl Site {
    /// Returns the site of documents at these paths, each with a directory and a name.
    pub(super) fn new(documents: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = |document: &&str| root.path().canonicalize().unwrap().join(document);
        let documents: Vec<PathBuf> = documents.iter().map(path).collect();
        for document in &documents {
            std::fs::create_dir_all(document.parent().unwrap()).unwrap();
        }
        Self(Rc::new(Place {
            root,
            documents,
            idle: RefCell::default(),
        }))
    }

    /// Returns a disk with these documents, everything durable.
    pub(super) fn start(&self, world: &World) -> State {
        self.start_with(world, |state, path, bytes| state.add_file(path, bytes))
    }

    /// Returns a disk with these documents, whose content is only cached.
    pub(super) fn start_not_synced(&self, world: &World) -> State {
        self.start_with(world, |state, path, bytes| {
            state.add_file_not_synced(path, bytes);
        })
    }

    fn start_with(&self, world: &World, add: impl Fn(&mut State, &Path, &[u8])) -> State {
        let mut state = State::default();
        for document in &self.0.documents {
            state.add_directory(document.parent().unwrap());
        }
        for (path, seen) in self.0.documents.iter().zip(&world.documents) {
            if let Some(text) = &seen.text {
                add(&mut state, path, text.as_bytes());
            }
        }
        state
    }

    /// Returns a process that works on a disk.
    pub(super) fn process(&self, disk: &SimulatedDisk) -> Process {
        let idle = self.0.idle.borrow_mut().pop();
        let mut documents = idle
            .unwrap_or_else(|| Documents::new(Duration::from_secs(5)).trusting_the_file_system());
        documents.disk = Arc::new(disk.clone());
        Process {
            site: self.clone(),
            documents: Some(documents),
        }
    }

    /// Returns the paths of the documents.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.0.documents
    }

    pub(super) fn len(&self) -> usize {
        self.0.documents.len()
    }

    /// Returns a path without the part that all paths share.
    pub(super) fn short<'a>(&self, path: &'a Path) -> &'a Path {
        let root = self.0.root.path().canonicalize().unwrap();
        path.strip_prefix(root).unwrap_or(path)
    }
}

/// A process that works on the documents of a site, which it knows by number.
pub(super) struct Process {
    site: Site,
    /// `None` only once the process ends.
    documents: Option<Documents>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.site.0.idle.borrow_mut().extend(self.documents.take());
    }
}

impl Process {
    /// Returns the text of one document, or `None` if it is not there.
    pub(super) fn read(&self, document: usize) -> Result<Option<String>> {
        let content = self
            .documents()
            .read_if_there(&self.site.0.documents[document])?;
        Ok(content.map(|content| String::from_utf8_lossy(content.bytes()).into_owned()))
    }

    /// Writes some documents in one transaction, with a token or without.
    pub(super) fn write(&self, changes: &[(usize, &str)], token: Option<u64>) -> Result<()> {
        let paths = changes
            .iter()
            .map(|(document, _)| &*self.site.0.documents[*document]);
        let paths: Vec<&Path> = paths.collect();
        let terms = Terms {
            fence: token.map(fence),
            ..Terms::default()
        };
        let texts = changes.iter().map(|(_, text)| (*text).to_owned()).collect();
        let written = self
            .documents()
            .edit::<(), Error>(&paths, &terms, |_| Ok((texts, ())));
        written.map(drop)
    }

    /// Returns true if a write with this token is refused, as the write of an older holder.
    pub(super) fn refuses(&self, document: usize, token: u64) -> Result<bool> {
        match self.write(&[(document, "\"stale\"")], Some(token)) {
            Ok(()) => Ok(false),
            Err(error) if error.class() == Class::NotAllowed => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes the leftovers of crashed writers.
    pub(super) fn clean(&self, document: usize) -> Result<()> {
        self.documents()
            .clean(&self.site.0.documents[document])
            .map(drop)
    }

    /// Returns the leftovers of crashed writers.
    pub(super) fn leftovers(&self, document: usize) -> Result<Vec<PathBuf>> {
        self.documents().leftovers(&self.site.0.documents[document])
    }

    fn documents(&self) -> &Documents {
        self.documents.as_ref().expect("it has not ended")
    }
}

fn fence(token: u64) -> Fence {
    Fence {
        store: "sqlite:/store".into(),
        resource: Resource::parse("name:guard").unwrap(),
        token: Token::new(token).unwrap(),
        rebind: false,
    }
}
