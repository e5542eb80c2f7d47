//! The files and directories of a simulated disk: what is durable, and what is only cached.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Attributes, Stamp};
use crate::platform::Identity;

/// The one device of the simulated disk.
pub(super) const DEVICE: u64 = 1;

/// Everything on a disk and in the cache above it.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(super) directories: BTreeMap<PathBuf, Directory>,
    pub(super) inodes: Vec<Arc<Inode>>,
    /// The changes of directories since the directory above was synced, in order.
    pub(super) moves: Vec<Move>,
    /// The number of power losses.
    pub boot: u32,
    /// The number of directories that were made.
    pub(super) made: u64,
}

/// One change of directories.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Move {
    Made(PathBuf),
    Renamed(PathBuf, PathBuf),
    Exchanged(PathBuf, PathBuf),
    /// A removal, with everything that was inside: it comes back if the removal is lost.
    Removed(PathBuf, Vec<(PathBuf, Directory)>),
}

/// A place in [`State::inodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct InodeId(pub(super) usize);

/// Names and what they mean.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Directory {
    /// The identity, which a rename keeps.
    pub(super) number: u64,
    pub(super) durable_mode: u32,
    pub(super) cached_mode: u32,
    pub(super) durable: BTreeMap<OsString, InodeId>,
    /// The changes since the last sync, in order; `None` removes the name.
    pub(super) cached: Vec<(OsString, Option<InodeId>)>,
}

/// A file under any name.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) durable: File,
    /// The content that every process reads.
    pub(super) cached: File,
    /// True after a failed sync: the cache forgot what it still has to save.
    pub(super) doomed: bool,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub attributes: Attributes,
}

impl State {
    /// Adds a directory, durably.
    pub fn add_directory(&mut self, path: impl Into<PathBuf>) {
        self.made += 1;
        let number = self.made;
        let directory = Directory {
            number,
            durable_mode: 0o755,
            cached_mode: 0o755,
            ..Directory::default()
        };
        self.directories.insert(path.into(), directory);
    }

    /// Returns the identity of the file or directory of a name.
    pub(super) fn identity_at(&self, path: &Path) -> Option<u64> {
        let directory = self.directories.get(path);
        let directory = directory.map(|directory| directory.number | 1 << 32);
        directory.or_else(|| Some(self.inode_at(path).ok()?.0 as u64))
    }

    /// Returns the stamp of a file. No test writes to a file that has its name, so no time is
    /// needed.
    pub(super) fn stamp(&self, inode: InodeId) -> Stamp {
        Stamp {
            identity: Identity::simulated(inode.0 as u64),
            length: self.inodes[inode.0].cached.bytes.len() as u64,
            ..own_attributes().stamp
        }
    }

    /// Returns true if the name is that of a directory.
    pub fn is_directory(&self, path: &Path) -> bool {
        self.directories.contains_key(path)
    }

    /// Returns the mode of a directory, as every process sees it now.
    pub fn mode(&self, path: &Path) -> Option<u32> {
        Some(self.directories.get(path)?.cached_mode)
    }

    pub(super) fn set_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let directory = self.directories.get_mut(path).ok_or_else(missing)?;
        directory.cached_mode = mode;
        Ok(())
    }

    /// Removes a directory and everything inside, in one step.
    pub(super) fn remove_tree(&mut self, path: &Path) {
        let directories = std::mem::take(&mut self.directories).into_iter();
        let (removed, left): (Vec<_>, Vec<_>) =
            directories.partition(|(inner, _)| inner.starts_with(path));
        self.directories = left.into_iter().collect();
        self.moves.push(Move::Removed(path.into(), removed));
    }

    /// Adds a file, durably. Its mode is not the one that new files have.
    pub fn add_file(&mut self, path: impl AsRef<Path>, bytes: &[u8]) {
        let inode = self.add_inode(Inode::durable(File {
            bytes: bytes.to_vec(),
            attributes: Attributes {
                mode: 0o640,
                ..own_attributes()
            },
        }));
        let (directory, name) = self.place(path.as_ref()).expect("its directory was added");
        directory.durable.insert(name, inode);
    }

    /// Adds a file whose content a program wrote and did not sync.
    pub fn add_file_not_synced(&mut self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.add_file(&path, b"");
        let inode = self.inode_at(path.as_ref()).expect("it was just added");
        self.write(inode, bytes);
    }

    /// Makes everything durable, but leaves only zeros in the second half of this file.
    pub fn tear(&mut self, name: &str) {
        let is_it = |path: &PathBuf| path.file_name() == Some(OsStr::new(name));
        let path = self.paths().into_iter().find(is_it).expect("it is there");
        let torn = self.inode_at(&path).expect("it is there");
        let directories: Vec<PathBuf> = self.directories.keys().cloned().collect();
        for directory in directories {
            self.sync_directory(&directory).expect("it is there");
        }
        let bytes = &mut self.inode(torn).cached.bytes;
        let half = bytes.len() / 2;
        bytes[half..].fill(0);
        (0..self.inodes.len()).for_each(|inode| self.sync(InodeId(inode)));
        self.boot += 1;
    }

    /// Returns the inode of a name, as every process sees it now.
    pub(super) fn inode_at(&self, path: &Path) -> io::Result<InodeId> {
        let (directory, name) = parts(path)?;
        let directory = self.directories.get(directory).ok_or_else(missing)?;
        directory.get(name).ok_or_else(missing)
    }

    /// Returns the file of a name, as every process reads it now.
    pub fn file(&self, path: &Path) -> io::Result<Option<&File>> {
        let (directory, name) = parts(path)?;
        let directory = self.directories.get(directory).ok_or_else(missing)?;
        let inode = directory.get(name);
        Ok(inode.map(|inode| &self.inodes[inode.0].cached))
    }

    /// Returns all names in a directory, as every process sees them now.
    pub fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.directories.get(path).ok_or_else(missing)?;
        let mut names: Vec<OsString> = directory.entries().into_keys().collect();
        let inner = self.directories.keys();
        let inner = inner.filter(|inner| inner.parent() == Some(path));
        names.extend(inner.filter_map(|inner| inner.file_name().map(OsStr::to_owned)));
        Ok(names)
    }

    /// Returns all paths there are now.
    pub fn paths(&self) -> Vec<PathBuf> {
        let paths = |(path, directory): (&PathBuf, &Directory)| {
            let names = directory.entries().into_keys();
            names.map(|name| path.join(name)).collect::<Vec<_>>()
        };
        self.directories.iter().flat_map(paths).collect()
    }

    /// Fails if a name is taken.
    pub(super) fn require_free(&self, path: &Path) -> io::Result<()> {
        if self.file(path)?.is_some() || self.directories.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        self.require_free(path)?;
        let inode = self.create_unnamed();
        self.name(inode, path)?;
        Ok(inode)
    }

    pub(super) fn create_unnamed(&mut self) -> InodeId {
        self.add_inode(Inode::durable(File {
            bytes: Vec::new(),
            attributes: own_attributes(),
        }))
    }

    /// Gives a file a name, or one more.
    pub(super) fn name(&mut self, inode: InodeId, path: &Path) -> io::Result<()> {
        self.require_free(path)?;
        let (directory, name) = self.place(path)?;
        directory.cached.push((name, Some(inode)));
        Ok(())
    }

    /// Renames a file by two changes, each of which may be lost on its own: the target is the old
    /// or the new one. A directory is renamed by one.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.directories.contains_key(from) {
            self.require_free(to)?;
            self.move_directory(from, to);
            self.moves.push(Move::Renamed(from.into(), to.into()));
            return Ok(());
        }
        let (directory, source) = self.place(from)?;
        let inode = directory.get(&source).ok_or_else(missing)?;
        let (directory, target) = self.place(to)?;
        directory.cached.push((target, Some(inode)));
        let (directory, source) = self.place(from)?;
        directory.cached.push((source, None));
        Ok(())
    }

    /// Puts a file that another program synced under a name, as a rename does.
    pub(super) fn rename_new_over(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let inode = self.add_inode(Inode::durable(File {
            bytes: bytes.to_vec(),
            attributes: own_attributes(),
        }));
        let (directory, name) = self.place(path)?;
        directory.cached.push((name, Some(inode)));
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.inode_at(from)?;
        self.name(inode, to)
    }

    pub(super) fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        self.require_free(path)?;
        self.add_directory(path);
        self.moves.push(Move::Made(path.into()));
        Ok(())
    }

    /// Exchanges two names. Of files these are two changes, each of which may be lost on its own.
    pub(super) fn exchange(&mut self, one: &Path, other: &Path) -> io::Result<()> {
        if let (Ok(of_one), Ok(of_other)) = (self.inode_at(one), self.inode_at(other)) {
            for (path, inode) in [(other, of_one), (one, of_other)] {
                let (directory, name) = self.place(path)?;
                directory.cached.push((name, Some(inode)));
            }
            return Ok(());
        }
        if ![one, other]
            .iter()
            .all(|path| self.directories.contains_key(*path))
        {
            return Err(missing());
        }
        self.exchange_directories(one, other);
        self.moves.push(Move::Exchanged(one.into(), other.into()));
        Ok(())
    }

    /// Takes back all but the first moves of directories.
    pub(super) fn undo_moves(&mut self, kept: usize) {
        for undone in self.moves.split_off(kept).into_iter().rev() {
            match undone {
                Move::Made(path) => self
                    .directories
                    .retain(|inner, _| !inner.starts_with(&path)),
                Move::Renamed(from, to) => self.move_directory(&to, &from),
                Move::Exchanged(one, other) => self.exchange_directories(&one, &other),
                Move::Removed(_, directories) => self.directories.extend(directories),
            }
        }
    }

    fn exchange_directories(&mut self, one: &Path, other: &Path) {
        let aside = Path::new("/aside");
        self.move_directory(one, aside);
        self.move_directory(other, one);
        self.move_directory(aside, other);
    }

    /// Moves a directory with everything inside.
    fn move_directory(&mut self, from: &Path, to: &Path) {
        let moved = |path: PathBuf| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path,
        };
        let directories = std::mem::take(&mut self.directories).into_iter();
        self.directories = directories
            .map(|(path, inner)| (moved(path), inner))
            .collect();
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        directory.get(&name).ok_or_else(missing)?;
        directory.cached.push((name, None));
        Ok(())
    }

    pub(super) fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        let directory = self.directories.get_mut(path).ok_or_else(missing)?;
        directory.durable = directory.entries();
        directory.cached.clear();
        directory.durable_mode = directory.cached_mode;
        let last = self.moves.iter().rposition(|moved| moved.is_in(path));
        self.moves.drain(..last.map_or(0, |last| last + 1));
        Ok(())
    }

    /// Replaces the content of a file.
    pub(super) fn overwrite(&mut self, inode: InodeId, bytes: &[u8]) {
        self.inode(inode).cached.bytes = bytes.to_vec();
    }

    pub(super) fn cut(&mut self, inode: InodeId, length: usize) {
        self.inode(inode).cached.bytes.truncate(length);
    }

    pub(super) fn write(&mut self, inode: InodeId, bytes: &[u8]) {
        self.inode(inode).cached.bytes.extend_from_slice(bytes);
    }

    pub(super) fn dress(&mut self, inode: InodeId, like: &Attributes) {
        let attributes = &mut self.inode(inode).cached.attributes;
        let stamp = attributes.stamp;
        *attributes = Attributes { stamp, ..*like };
    }

    pub(super) fn sync(&mut self, inode: InodeId) {
        let inode = self.inode(inode);
        if !inode.doomed {
            inode.durable = inode.cached.clone();
        }
    }

    /// Notes a failed sync. Linux tells once that content could not be saved, and takes it for
    /// saved from then on.
    pub(super) fn doom(&mut self, inode: InodeId) {
        self.inode(inode).doomed = true;
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> InodeId {
        self.inodes.push(Arc::new(inode));
        InodeId(self.inodes.len() - 1)
    }

    fn inode(&mut self, inode: InodeId) -> &mut Inode {
        Arc::make_mut(&mut self.inodes[inode.0])
    }

    fn place(&mut self, path: &Path) -> io::Result<(&mut Directory, OsString)> {
        let (directory, name) = parts(path)?;
        let directory = self.directories.get_mut(directory).ok_or_else(missing)?;
        Ok((directory, name.to_owned()))
    }
}

impl Move {
    /// Returns true if a directory above is this one.
    fn is_in(&self, directory: &Path) -> bool {
        let is_in = |path: &PathBuf| path.parent() == Some(directory);
        match self {
            Move::Made(path) | Move::Removed(path, _) => is_in(path),
            Move::Renamed(one, other) | Move::Exchanged(one, other) => is_in(one) || is_in(other),
        }
    }
}

impl Directory {
    /// Returns the present meaning of a name.
    fn get(&self, name: &OsStr) -> Option<InodeId> {
        let changed = self.cached.iter().rev().find(|(other, _)| other == name);
        match changed {
            Some((_, inode)) => *inode,
            None => self.durable.get(name).copied(),
        }
    }

    /// Returns all names inside now, with their files.
    fn entries(&self) -> BTreeMap<OsString, InodeId> {
        let mut entries = self.durable.clone();
        for (name, inode) in &self.cached {
            match inode {
                Some(inode) => entries.insert(name.clone(), *inode),
                None => entries.remove(name),
            };
        }
        entries
    }
}

impl Inode {
    pub(super) fn durable(file: File) -> Self {
        Self {
            durable: file.clone(),
            cached: file,
            doomed: false,
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.cached
    }
}

fn own_attributes() -> Attributes {
    Attributes {
        mode: 0o600,
        owner: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
        device: DEVICE,
        mounted_on: false,
        stamp: Stamp {
            identity: Identity::simulated(0),
            length: 0,
            content_changed: 0,
            changed: 0,
        },
    }
}

fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}
