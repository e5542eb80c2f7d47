//! The one wait of a shim and of the spawner.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until a child has ended, one of the others can be read or is closed at its other end, or
/// the time is over. Returns which of the others it is.
pub fn wait<const N: usize>(
    children: BorrowedFd<'_>,
    others: [Option<BorrowedFd<'_>>; N],
    time: Option<Duration>,
) -> [bool; N] {
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let all = [Some(children)].into_iter().chain(others).flatten();
    let source = |source| PollFd::from_borrowed_fd(source, PollFlags::IN);
    let mut sources: Vec<_> = all.map(source).collect();
    let is_ready = poll(&mut sources, time.as_ref()).is_ok();
    // Children that end after this are another signal.
    let _ = rustix::io::read(children, &mut [0; 128]);
    let mut found = sources
        .iter()
        .skip(1)
        .map(|source| !source.revents().is_empty());
    others.map(|other| other.is_some() && found.next() == Some(true) && is_ready)
}
