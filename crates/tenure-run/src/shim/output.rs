//! What the command prints, in two files of a bounded size.
//!
//! The file grows to half of what is kept, becomes `.old`, and a new one begins. What was `.old`
//! is dropped then, and the first bytes of what is `.old` now say how much that was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::status::short;

/// The most that is read at once.
const CHUNK: usize = 1 << 16;
/// A file of this size is full. Both together, with a last chunk each, are at most 10 MB.
const FULL: u64 = 5_000_000 - CHUNK as u64;
/// The length of the line that tells of dropped output.
const NOTICE: usize = 72;

/// What became of the output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The bytes it printed.
    pub bytes: u64,
    /// The bytes of these that are not kept any more: the first ones.
    pub dropped: u64,
    /// The bytes of these that could not be written.
    pub lost: u64,
    /// The first error of writing.
    pub error: Option<String>,
}

/// The files, while they are written.
pub struct Files {
    path: PathBuf,
    old: PathBuf,
    file: Option<File>,
    /// The size of the file.
    size: u64,
    /// The bytes that were printed before those of the file.
    before: u64,
    pub output: Output,
}

impl Files {
    /// Begins files at a path, in the place of those of an earlier attempt.
    pub fn begin(path: &Path) -> Self {
        let mut old = path.to_owned().into_os_string();
        old.push(".old");
        let _ = fs::remove_file(&old);
        let mut files = Self {
            path: path.to_owned(),
            old: old.into(),
            file: None,
            size: 0,
            before: 0,
            output: Output::default(),
        };
        if let Err(error) = files.open() {
            files.failed(&error);
        }
        files
    }

    fn open(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        self.file = Some(options.open(&self.path)?);
        Ok(())
    }

    /// Copies some of what is printed. Returns its length, which is zero at its end.
    pub fn copy(&mut self, pipe: &mut impl Read) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        let length = pipe.read(&mut chunk)?;
        self.output.bytes += length as u64;
        if let Err(error) = self.write(&chunk[..length]) {
            // The command never waits for a disk that has no space.
            self.output.lost += length as u64;
            self.failed(&error);
        }
        Ok(length)
    }

    /// Copies what is left in the pipe when all who could print are dead.
    pub fn finish(mut self, pipe: &mut impl Read) -> Output {
        loop {
            match self.copy(pipe) {
                Ok(0) => return self.output,
                Ok(_) => {}
                Err(error) => {
                    self.failed(&error);
                    return self.output;
                }
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.output.error.get_or_insert_with(|| short(error));
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        if self.size >= FULL {
            self.turn()?;
        }
        if self.file.is_none() {
            self.open()?;
        }
        // A part may be written if this fails, so the size is the most that it may be.
        self.size += chunk.len() as u64;
        self.file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(chunk))
    }

    /// Makes the file the old one, and drops what was the old one.
    fn turn(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.old)?;
        if let Some(file) = self.file.take().filter(|_| self.before > 0) {
            self.output.dropped = self.before + NOTICE as u64;
            let dropped = self.output.dropped;
            let notice = format!("[tenure: {dropped} bytes before this line were not kept]");
            let width = NOTICE - 1;
            file.write_all_at(format!("{notice:<width$}\n").as_bytes(), 0)?;
        }
        self.before += self.size;
        self.size = 0;
        Ok(())
    }
}
