//! All states that a power loss may leave.
//!
//! Every name is what it durably was, or what any change since made of it: changes to different
//! names reach the disk in any order, changes to one name in their own. Every file that a name
//! leads to has its durable content, all that was written, or a torn form between. Names and
//! contents do not wait for each other, nor do directories. The mode of a directory is the durable
//! one or the newest. Changes of directories themselves are kept in their order.
//!
//! Temporary files are the exception: they come and go together, and their content is not torn.
//! Their process is dead, no other process reads them, and each on its own would double the number
//! of states. The content of a lock file is for people, and is not torn either.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use super::state::{Directory, File, Inode, InodeId, State};
use crate::replace::target_of_temporary;

/// All states are tried up to this number; of more, the corners and a sample.
pub const ALL_MAX: u128 = 4096;

/// The number of states that are drawn where not all are tried.
const SAMPLES: usize = 1024;

/// One thing that a power loss decides.
enum Choice {
    /// The meaning of a name, or of several names that go together.
    Names(Vec<Name>),
    /// The content of a file.
    Content { inode: InodeId, contents: Vec<File> },
    /// The mode of a directory: the one before its last change, or the one after it.
    Mode(PathBuf),
    /// The number of the moves of directories that are kept.
    Moves(usize),
}

/// A name, and all that it may mean.
struct Name {
    directory: PathBuf,
    name: OsString,
    meanings: Vec<Option<InodeId>>,
}

impl State {
    /// Tells every state that a power loss may leave, some of them twice; in the last one
    /// everything reached the disk. Everything in them is durable.
    pub fn after_power_loss(&self, tell: &mut dyn FnMut(State)) {
        self.after_power_loss_up_to(ALL_MAX, tell);
    }

    /// Tells such states; if there are more than `all_max`, only some of them.
    pub fn after_power_loss_up_to(&self, all_max: u128, tell: &mut dyn FnMut(State)) {
        let choices = self.choices();
        let sizes: Vec<usize> = choices.iter().map(Choice::len).collect();
        let possible = sizes.iter().map(|size| *size as u128).product::<u128>();
        let mut visit = |picks: &[usize]| tell(self.settled(&choices, picks));
        if possible <= all_max {
            all(&sizes, &mut visit)
        } else {
            some(&sizes, SAMPLES.min(all_max as usize / 4), &mut visit)
        }
    }

    /// Returns the undecided facts, each with the newest possibility last.
    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut temporary = Vec::new();
        let mut read = vec![false; self.inodes.len()];
        for (path, directory) in &self.directories {
            let cached = directory.cached.iter();
            let cached = cached.filter_map(|(name, inode)| Some((name, (*inode)?)));
            let durable = directory.durable.iter().map(|(name, inode)| (name, *inode));
            for (_, inode) in durable
                .chain(cached)
                .filter(|(name, _)| !is_temporary(name) && !is_lock(name))
            {
                read[inode.0] = true;
            }
            for (name, meanings) in directory.undecided() {
                let is_temporary = is_temporary(&name);
                let name = Name {
                    directory: path.clone(),
                    name,
                    meanings,
                };
                if is_temporary {
                    temporary.push(name)
                } else {
                    choices.push(Choice::Names(vec![name]))
                }
            }
        }
        if !temporary.is_empty() {
            choices.push(Choice::Names(temporary));
        }
        for (index, inode) in self.inodes.iter().enumerate() {
            if read[index] && !inode.is_durable() {
                choices.push(Choice::Content {
                    inode: InodeId(index),
                    contents: inode.contents(),
                });
            }
        }
        for (path, directory) in &self.directories {
            if directory.durable_mode != directory.cached_mode {
                choices.push(Choice::Mode(path.clone()));
            }
        }
        if !self.moves.is_empty() {
            choices.push(Choice::Moves(self.moves.len()));
        }
        choices
    }

    /// Returns the state that these picks make.
    fn settled(&self, choices: &[Choice], picks: &[usize]) -> State {
        let mut entries: Vec<_> = self
            .directories
            .values()
            .map(|d| d.durable.clone())
            .collect();
        let mut files: Vec<_> = self.inodes.iter().map(|inode| &inode.durable).collect();
        let mut moves_kept = 0;
        let mut modes_kept: Vec<&PathBuf> = Vec::new();
        for (choice, pick) in choices.iter().zip(picks) {
            match choice {
                Choice::Names(names) => {
                    for name in names {
                        let mut paths = self.directories.keys();
                        let index = paths.position(|path| *path == name.directory);
                        let entries = &mut entries[index.expect("its directory is there")];
                        let last = name.meanings.len() - 1;
                        match name.meanings[last.min(*pick)] {
                            Some(inode) => entries.insert(name.name.clone(), inode),
                            None => entries.remove(&name.name),
                        };
                    }
                }
                Choice::Content { inode, contents } => files[inode.0] = &contents[*pick],
                Choice::Mode(path) if *pick == 1 => modes_kept.push(path),
                Choice::Mode(_) => {}
                Choice::Moves(_) => moves_kept = *pick,
            }
        }
        let mut state = State {
            boot: self.boot + 1,
            ..State::default()
        };
        // Each inode keeps its place: a directory whose removal is lost comes back with its files.
        let settled = |(inode, file): (&Arc<Inode>, &File)| {
            if inode.is_durable() && !inode.doomed {
                Arc::clone(inode)
            } else {
                Arc::new(Inode::durable(file.clone()))
            }
        };
        state.inodes = self.inodes.iter().zip(files).map(settled).collect();
        for (path, entries) in self.directories.keys().zip(entries) {
            state.add_directory(path);
            let before = &self.directories[path];
            let mode = if modes_kept.contains(&path) {
                before.cached_mode
            } else {
                before.durable_mode
            };
            let directory = state.directories.get_mut(path).expect("it was just added");
            directory.number = before.number;
            (directory.durable_mode, directory.cached_mode) = (mode, mode);
            directory.durable = entries;
        }
        state.made = self.made;
        state.moves = self.moves.clone();
        state.undo_moves(moves_kept);
        state.moves.clear();
        for directory in state.directories.values_mut() {
            directory.cached.clear();
            directory.cached_mode = directory.durable_mode;
        }
        state
    }
}

impl Directory {
    /// Returns the names that changed since the last sync, each with all its meanings, newest last.
    fn undecided(&self) -> Vec<(OsString, Vec<Option<InodeId>>)> {
        let mut names: Vec<(OsString, Vec<Option<InodeId>>)> = Vec::new();
        for (name, meaning) in &self.cached {
            let known = names.iter().position(|(other, _)| other == name);
            let known = known.unwrap_or_else(|| {
                names.push((name.clone(), vec![self.durable.get(name).copied()]));
                names.len() - 1
            });
            let meanings = &mut names[known].1;
            meanings.retain(|earlier| earlier != meaning);
            meanings.push(*meaning);
        }
        names
    }
}

impl Inode {
    /// Returns the contents that the file may have after a power loss. An addition may be missing,
    /// there in part, there in part as zeros, or whole; an overwritten file may also be empty, or
    /// begin with the new content and end with the old.
    fn contents(&self) -> Vec<File> {
        if self.durable.bytes.starts_with(&self.cached.bytes) {
            // A file that was cut has its old length or its new one.
            return vec![self.durable.clone(), self.cached.clone()];
        }
        if !self.cached.bytes.starts_with(&self.durable.bytes) {
            return self.contents_overwritten();
        }
        let (from, to) = (self.durable.bytes.len(), self.cached.bytes.len());
        let middle = from + (to - from) / 2;
        let file = |bytes: Vec<u8>| File {
            bytes,
            attributes: self.cached.attributes,
        };
        let cut = |at: usize| file(self.cached.bytes[..at].to_vec());
        let hole = |end: usize| {
            let mut bytes = self.cached.bytes.clone();
            bytes[from..end].fill(0);
            file(bytes)
        };
        let mut contents = vec![self.durable.clone()];
        if to > from {
            contents.extend([cut(middle), cut(to - 1), hole(to), hole(middle)]);
        }
        contents.push(self.cached.clone());
        contents.dedup();
        contents
    }
}

impl Inode {
    fn contents_overwritten(&self) -> Vec<File> {
        let (old, new) = (&self.durable.bytes, &self.cached.bytes);
        let half = new.len() / 2;
        let mixed = [&new[..half], old.get(half..).unwrap_or_default()].concat();
        let contents = [old.clone(), Vec::new(), mixed, new.clone()];
        let file = |bytes| File {
            bytes,
            attributes: self.cached.attributes,
        };
        contents.map(file).into()
    }
}

impl Choice {
    fn len(&self) -> usize {
        match self {
            Choice::Names(names) => {
                let meanings = names.iter().map(|name| name.meanings.len());
                meanings.max().expect("there is a name")
            }
            Choice::Content { contents, .. } => contents.len(),
            Choice::Mode(_) => 2,
            Choice::Moves(moves) => moves + 1,
        }
    }
}

/// Visits every combination of picks.
fn all(sizes: &[usize], visit: &mut dyn FnMut(&[usize])) {
    let mut picks = vec![0; sizes.len()];
    loop {
        visit(&picks);
        let Some(next) = (0..sizes.len()).find(|place| picks[*place] + 1 < sizes[*place]) else {
            return;
        };
        picks[next] += 1;
        picks[..next].fill(0);
    }
}

/// Visits both corners, everything that differs from one of them in one place, or in two if many
/// samples are wanted, and a sample that is the same in every run.
fn some(sizes: &[usize], samples: usize, visit: &mut dyn FnMut(&[usize])) {
    let newest: Vec<usize> = sizes.iter().map(|size| size - 1).collect();
    let oldest = vec![0; sizes.len()];
    visit(&oldest);
    let mut picks = oldest.clone();
    for corner in [&oldest, &newest] {
        for first in 0..sizes.len() {
            let lasts = if samples < SAMPLES {
                first + 1
            } else {
                sizes.len()
            };
            for second in first..lasts {
                for (one, other) in pairs(sizes[first], sizes[second]) {
                    picks.copy_from_slice(corner);
                    picks[first] = one;
                    picks[second] = other;
                    visit(&picks);
                }
            }
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..samples {
        for (pick, size) in picks.iter_mut().zip(sizes) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *pick = (random >> 32) as usize % size;
        }
        visit(&picks);
    }
    visit(&newest);
}

fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |one| (0..second).map(move |other| (one, other)))
}

/// Returns true for the names of a ledger's lock file. While it is held, both are there.
pub(super) fn is_lock(name: &OsStr) -> bool {
    name == ".ledger.lock.tmp" || name == "ledger.lock"
}

fn is_temporary(name: &OsStr) -> bool {
    target_of_temporary(name).is_some()
}
