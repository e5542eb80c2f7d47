//! The one wait of a shim and of the spawner.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until a child has ended, the socket can be read or is closed at its other end, or the time
/// is over. Returns true if it is the socket.
pub fn wait(children: BorrowedFd<'_>, socket: Option<&UnixStream>, time: Option<Duration>) -> bool {
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let sources = [Some(children), socket.map(AsFd::as_fd)]
        .into_iter()
        .flatten();
    let mut sources: Vec<_> = sources
        .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN))
        .collect();
    let is_ready = poll(&mut sources, time.as_ref()).is_ok();
    // Children that end after this are another signal.
    let _ = rustix::io::read(children, &mut [0; 128]);
    is_ready
        && sources
            .get(1)
            .is_some_and(|socket| !socket.revents().is_empty())
}
