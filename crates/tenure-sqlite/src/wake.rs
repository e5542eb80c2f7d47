//! Waking a waiter in another process, and learning that a process has ended.
//!
//! Both are hints. A wake-up that is lost, or has no cause, costs a waiter time and never a lock:
//! after every wake-up it looks in the database, and it also looks at intervals.
//!
//! A session that waits has a FIFO, open at both ends: so it never reads an end of file, and a
//! process that wakes it never blocks and never gets SIGPIPE. The FIFO stays for the next wait, and
//! is removed with the session.

use std::future;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use tenure_core::internal::OrCannot;
use tenure_core::{Result, SessionId};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;

use crate::platform;

/// The FIFO of a waiting session. A session has only one: two would take each other's wake-ups.
#[derive(Debug)]
pub(crate) struct Wake {
    fifo: Receiver,
    path: PathBuf,
}

impl Wake {
    /// Begins to listen. To be called in a runtime with its I/O driver on.
    pub(crate) fn listen(directory: &Path, session: &SessionId) -> Result<Wake> {
        let path = directory.join(session.as_str());
        let made = match platform::make_fifo(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = platform::make_directory(directory);
                made.or_cannot("make the directory of", &path)?;
                platform::make_fifo(&path)
            }
            made => made,
        };
        made.or_cannot("make", &path)?;
        let fifo = platform::open_fifo(&path).or_cannot("open", &path)?;
        let fifo = fifo.ok_or_else(|| io::Error::other("it is not a pipe"));
        let fifo = Receiver::from_file_unchecked(fifo.or_cannot("open", &path)?)
            .or_cannot("listen to", &path)?;
        Ok(Wake { fifo, path })
    }

    /// Resolves when the session is woken, and takes all wake-ups that are there. Dropped before
    /// that, it takes none.
    pub(crate) async fn notified(&self) -> Result<()> {
        loop {
            let readable = self.fifo.readable().await;
            readable.or_cannot("listen to", &self.path)?;
            match drain(&self.fifo) {
                // There was nothing to read after all.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                drained => return drained.or_cannot("listen to", &self.path),
            }
        }
    }
}

/// Reads everything; `WouldBlock` if there is nothing.
fn drain(fifo: &Receiver) -> io::Result<()> {
    let mut bytes = [0; 4096];
    let mut read = fifo.try_read(&mut bytes)?;
    // A short read has emptied the pipe.
    while read == bytes.len() {
        match fifo.try_read(&mut bytes) {
            Ok(more) => read = more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Wakes a session if it listens.
pub(crate) fn wake(directory: &Path, session: &SessionId) {
    // A full pipe wakes the session as well.
    if let Ok(Some(mut fifo)) = platform::open_fifo(&directory.join(session.as_str())) {
        let _ = fifo.write(&[1]);
    }
}

/// Removes the pipe of a session that is over.
pub(crate) fn remove(directory: &Path, session: &SessionId) {
    let _ = platform::unlink(&directory.join(session.as_str()));
}

/// The end of a process. Its id may belong to another process by now, so this is only a reason to
/// look.
#[derive(Debug)]
pub(crate) struct Death {
    process: Option<AsyncFd<OwnedFd>>,
}

impl Death {
    /// Begins to watch. A process that cannot be watched seems never to end.
    pub(crate) fn watch(pid: u32) -> Death {
        let process = platform::open_process(pid);
        let watched = process.and_then(|process| {
            // SAFETY: the descriptor is owned, open, and never given away or changed.
            Ok(unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?)
        });
        Death {
            process: watched.ok(),
        }
    }

    /// Resolves when the process has ended.
    pub(crate) async fn died(&self) {
        if let Some(process) = &self.process
            && process.readable().await.is_ok()
        {
            return;
        }
        future::pending().await
    }
}

#[cfg(test)]
mod tests;
