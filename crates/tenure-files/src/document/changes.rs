//! Waiting until something happens to a document.
//!
//! A document is replaced by a rename, which gives its name another inode; so the directory is
//! watched, and what happens to other names in it is left aside.
//!
//! No change is missed if the caller watches first, then reads, then waits: what happens after
//! the watching began is kept by the kernel until the next wait.
//!
//! # Limitations
//!
//! On a network file system the changes of other machines are not seen. What someone writes into
//! the file itself counts when it is closed. A directory further up that is moved is not noticed.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tenure_core::{Error, Result};

use crate::clock;

/// Watches one document, or the places its name leads through.
pub(crate) struct Changes {
    paths: Vec<PathBuf>,
    /// Which name in which watched directory.
    names: Vec<(i32, OsString)>,
    queue: OwnedFd,
    /// The directory went away or elsewhere: the queue will tell nothing more of this path.
    ended: bool,
}

impl Changes {
    /// Watches from now on. A path is that of the file itself, not of what a symbolic link means.
    pub(crate) fn watch(paths: &[&Path]) -> Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let queue = queue.map_err(|source| Error::io("watch", paths[0], source))?;
        let mut names = Vec::with_capacity(paths.len());
        for path in paths {
            names.push(Self::watch_one(&queue, path)?);
        }
        Ok(Self {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            names,
            queue,
            ended: false,
        })
    }

    fn watch_one(queue: &OwnedFd, path: &Path) -> Result<(i32, OsString)> {
        let Some(name) = path.file_name() else {
            return Err(Error::BadInput(format!("{} is not a file", path.display())));
        };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let events = WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(queue, directory, events);
        let watch = watch.map_err(|source| Error::io("watch", directory, source))?;
        Ok((watch, name.to_owned()))
    }

    /// Waits until something happened to the document, or may have: true. False if `limit` is
    /// over before that; without a limit there is no end.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Result<bool> {
        if self.ended {
            // Between the end of the old watch and the start of this one anything may have
            // happened: the caller must read again.
            let paths: Vec<&Path> = self.paths.iter().map(PathBuf::as_path).collect();
            *self = Self::watch(&paths)?;
            return Ok(true);
        }
        let deadline = limit.map(|limit| clock::after(Instant::now(), limit));
        loop {
            if self.take_events()? {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            self.sleep_until_events(left)?;
        }
    }

    /// Takes what the kernel has kept, one buffer at most: in a busy directory there may always
    /// be more. True if any of it concerns the document.
    fn take_events(&mut self) -> Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        let mut changed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let happened = event.events();
                    let name = event.file_name().map(|name| name.to_bytes());
                    let lost = happened.intersects(
                        ReadFlags::DELETE_SELF
                            | ReadFlags::MOVE_SELF
                            | ReadFlags::UNMOUNT
                            | ReadFlags::IGNORED,
                    );
                    self.ended |= lost;
                    changed |= lost
                        || happened.contains(ReadFlags::QUEUE_OVERFLOW)
                        || self.names.iter().any(|(watch, watched)| {
                            *watch == event.wd() && name == Some(watched.as_bytes())
                        });
                }
                Err(Errno::WOULDBLOCK) => return Ok(changed),
                Err(Errno::INTR) => {}
                Err(source) => return Err(Error::io("watch", &self.paths[0], source)),
            }
            // Everything in the buffer is looked at: the end of the watch may be in it.
            if reader.is_buffer_empty() {
                return Ok(changed);
            }
        }
    }

    fn sleep_until_events(&self, left: Option<Duration>) -> Result<()> {
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut queue = [PollFd::new(&self.queue, PollFlags::IN)];
        match poll(&mut queue, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(source) => Err(Error::io("watch", &self.paths[0], source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::fs;
    use std::thread;

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
    const LONG: Option<Duration> = Some(Duration::from_secs(20));

    struct Stage {
        directory: tempfile::TempDir,
        document: PathBuf,
        changes: Changes,
    }

    fn stage() -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let document = directory.path().join("a.json");
        fs::write(&document, "1").unwrap();
        let changes = Changes::watch(&[&document]).unwrap();
        Stage {
            directory,
            document,
            changes,
        }
    }

    /// Returns true if the change just made is seen, once.
    fn is_seen(changes: &mut Changes) -> bool {
        let seen = changes.wait(AT_ONCE).unwrap();
        while changes.wait(AT_ONCE).unwrap() {}
        seen
    }

    #[test]
    fn every_way_to_change_a_document_is_seen() {
        let Stage {
            directory,
            document,
            mut changes,
        } = stage();
        assert!(!is_seen(&mut changes), "nothing happened");
        let other = directory.path().join("b");
        fs::write(&document, "2").unwrap();
        assert!(is_seen(&mut changes), "written");
        fs::rename(&document, &other).unwrap();
        assert!(is_seen(&mut changes), "moved away");
        fs::rename(&other, &document).unwrap();
        assert!(is_seen(&mut changes), "replaced");
        fs::remove_file(&document).unwrap();
        assert!(is_seen(&mut changes), "removed");
        std::os::unix::fs::symlink("elsewhere", &document).unwrap();
        assert!(is_seen(&mut changes), "created");
    }

    #[test]
    fn a_change_between_watching_and_waiting_is_not_lost() {
        let Stage {
            directory,
            document,
            mut changes,
        } = stage();
        let other = directory.path().join("b");
        fs::write(&other, "2").unwrap();
        fs::rename(&other, &document).unwrap();
        assert!(changes.wait(AT_ONCE).unwrap());
    }

    #[test]
    fn a_change_ends_a_wait_without_a_limit() {
        let Stage {
            directory,
            document,
            mut changes,
        } = stage();
        let waiting = thread::spawn(move || changes.wait(None).unwrap());
        let other = directory.path().join("b");
        fs::write(&other, "2").unwrap();
        fs::rename(&other, &document).unwrap();
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn other_names_do_not_end_a_wait_and_waiting_is_not_spinning() {
        let Stage {
            directory,
            mut changes,
            ..
        } = stage();
        for name in [
            ".a.json.lock",
            "a.json.lock",
            "a.jso",
            ".a.json.0123456789abcdef.tmp",
        ] {
            fs::write(directory.path().join(name), "x").unwrap();
        }
        let limit = Duration::from_millis(300);
        let (started, used) = (Instant::now(), processor_time());
        assert!(!changes.wait(Some(limit)).unwrap());
        assert!(started.elapsed() >= limit);
        assert!(processor_time() - used < limit / 4);
    }

    fn processor_time() -> Duration {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
    }

    #[test]
    fn more_events_than_the_kernel_keeps_count_as_a_change() {
        let Stage {
            directory,
            mut changes,
            ..
        } = stage();
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let other = directory.path().join("b");
        for _ in 0..=limit.trim().parse::<u32>().unwrap() / 2 {
            fs::create_dir(&other).unwrap();
            fs::remove_dir(&other).unwrap();
        }
        assert!(changes.wait(LONG).unwrap());
    }

    #[test]
    fn a_directory_that_moves_is_a_change_and_the_path_is_watched_again() {
        let Stage {
            directory,
            mut changes,
            ..
        } = stage();
        let inner = directory.path().join("inner");
        let document = inner.join("a.json");
        fs::create_dir(&inner).unwrap();
        changes = Changes::watch(&[&document]).unwrap_or(changes);
        fs::rename(&inner, directory.path().join("moved")).unwrap();
        assert!(changes.wait(LONG).unwrap());
        assert!(changes.wait(LONG).is_err(), "there is nothing to watch");
        fs::create_dir(&inner).unwrap();
        assert!(
            changes.wait(LONG).unwrap(),
            "what happened between is not known"
        );
        assert!(!changes.wait(AT_ONCE).unwrap());
        fs::write(&document, "1").unwrap();
        assert!(changes.wait(LONG).unwrap());
    }

    #[test]
    fn a_directory_that_is_removed_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let mut changes = Changes::watch(&[&directory.path().join("a.json")]).unwrap();
        directory.close().unwrap();
        assert!(changes.wait(LONG).unwrap());
        assert!(changes.wait(LONG).is_err());
    }

    #[test]
    fn what_cannot_be_watched_is_an_error() {
        assert!(Changes::watch(&[Path::new("/")]).is_err());
        assert!(Changes::watch(&[Path::new("/nowhere/at/all")]).is_err());
        assert!(Changes::watch(&[Path::new("a.json")]).is_ok());
    }
}
