//! The fingerprint of a state, without its random parts and the parts that nothing depends on.
//!
//! Names of journals have random parts, so they differ between two runs that are otherwise equal:
//! here journals are numbered in the order in which they are met. Temporary files of the dead are
//! left out, as no process reads them; otherwise each would double the number of states.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::crash::is_lock;
use super::state::{Directory, InodeId, State};
use crate::replace::{beside, target_of_temporary};

const JOURNAL: &[u8] = b".journal";
const NOTE: &[u8] = b".note";
const RANDOM: usize = 16;

impl State {
    /// Returns a number that equal states share. (64 bits: of a million different states, two fall
    /// together once in 10^7 runs.)
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut journals = Journals::default();
        self.moves.hash(&mut hasher);
        // Pending changes say in which boot they were made.
        if self
            .directories
            .keys()
            .any(|path| path.ends_with(".pending"))
        {
            self.boot.hash(&mut hasher);
        }
        for (path, directory) in &self.directories {
            path.hash(&mut hasher);
            directory.number.hash(&mut hasher);
            (directory.durable_mode, directory.cached_mode).hash(&mut hasher);
            let seen = |name: &OsStr| target_of_temporary(name).is_none();
            let mut durable = Vec::with_capacity(directory.durable.len());
            for (name, inode) in directory.durable.iter().filter(|(name, _)| seen(name)) {
                let file = self.hash_file(name, *inode, &mut journals);
                durable.push((journals.canonical(name), file));
            }
            durable.sort();
            durable.hash(&mut hasher);
            for (name, inode) in directory.cached.iter().filter(|(name, _)| seen(name)) {
                let file = inode.map(|inode| self.hash_file(name, inode, &mut journals));
                (journals.canonical(name), file).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Returns the number of names that lead to a file: two names of one file are not two files.
    fn names_of(&self, inode: InodeId) -> usize {
        let names = |directory: &Directory| {
            let durable = directory.durable.iter().map(|(name, inode)| (name, *inode));
            let cached = directory.cached.iter();
            let cached = cached.filter_map(|(name, inode)| Some((name, (*inode)?)));
            let named = durable.chain(cached).filter(|(_, named)| *named == inode);
            named
                .filter(|(name, _)| target_of_temporary(name).is_none())
                .count()
        };
        self.directories.values().map(names).sum()
    }

    fn hash_file(&self, name: &OsStr, id: InodeId, journals: &mut Journals) -> u64 {
        let mut hasher = DefaultHasher::new();
        let inode = &self.inodes[id.0];
        let is_note = name.as_encoded_bytes().ends_with(NOTE);
        for file in [&inode.durable, &inode.cached] {
            match is_note {
                _ if is_lock(name) => {}
                true => journals.canonical_text(&file.bytes).hash(&mut hasher),
                false => file.bytes.hash(&mut hasher),
            }
            file.attributes.mode.hash(&mut hasher);
        }
        inode.doomed.hash(&mut hasher);
        self.names_of(id).hash(&mut hasher);
        hasher.finish()
    }
}

/// The random parts of the journals, in the order in which they were met.
#[derive(Default)]
struct Journals {
    met: Vec<Vec<u8>>,
}

impl Journals {
    /// Returns a name with its random part replaced by a number.
    fn canonical(&mut self, name: &OsStr) -> Vec<u8> {
        let bytes = name.as_encoded_bytes();
        match beside(name, JOURNAL) {
            Some(_) => self.canonical_text(bytes),
            None => bytes.to_vec(),
        }
    }

    /// Returns a text in which the names of journals have numbers in place of their random parts.
    fn canonical_text(&mut self, text: &[u8]) -> Vec<u8> {
        let at = text.windows(JOURNAL.len()).position(|part| part == JOURNAL);
        let Some((at, start)) = at.and_then(|at| Some((at, at.checked_sub(RANDOM)?))) else {
            return text.to_vec();
        };
        let random = &text[start..at];
        let number = self
            .met
            .iter()
            .position(|met| met == random)
            .unwrap_or_else(|| {
                self.met.push(random.to_vec());
                self.met.len() - 1
            });
        [&text[..start], number.to_string().as_bytes(), &text[at..]].concat()
    }
}
