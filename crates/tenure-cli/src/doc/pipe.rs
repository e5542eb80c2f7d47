//! Text into a command and out of it, at the same time: a command may print before it has read all,
//! or never read at all.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

/// As much as a pipe holds, as a rule.
const CHUNK_BYTES: usize = 64 * 1024;

/// Feeds the command, and answers what it printed; None if that is more than `limit` bytes.
///
/// It ends with the output. If the command failed, it ends with the command: what it started may go
/// on and keep the output open, but nobody is interested in it.
pub fn exchange(child: &mut Child, input: &[u8], limit: usize) -> io::Result<Option<Vec<u8>>> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let Some(mut stdout) = stdout else {
        return Ok(Some(Vec::new()));
    };
    let mut feed = Feed { stdin, input };
    if let Some(stdin) = &feed.stdin {
        do_not_block(stdin)?;
    }
    do_not_block(&stdout)?;
    // An old kernel has none: then the end of the output is waited for in any case.
    let mut ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok();
    let mut printed = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let [readable, is_over, writable] = wait_for([
            Some((stdout.as_fd(), PollFlags::IN)),
            ended.as_ref().map(|ended| (ended.as_fd(), PollFlags::IN)),
            feed.stdin
                .as_ref()
                .map(|stdin| (stdin.as_fd(), PollFlags::OUT)),
        ])?;
        if readable {
            match stdout.read(&mut chunk) {
                Ok(0) => return Ok(Some(printed)),
                Ok(read) if printed.len() + read > limit => return Ok(None),
                Ok(read) => printed.extend_from_slice(&chunk[..read]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if is_over {
            if has_failed(child) {
                return Ok(Some(printed));
            }
            ended = None;
        }
        if writable {
            feed.some();
        }
    }
}

/// What is still to be read by the command.
struct Feed<'a> {
    stdin: Option<std::process::ChildStdin>,
    input: &'a [u8],
}

impl Feed<'_> {
    /// As much as it takes now. The pipe is closed at the end, so that the command sees it; and when
    /// nobody reads any more, as a command that has read enough may do.
    fn some(&mut self) {
        let Some(stdin) = &mut self.stdin else {
            return;
        };
        match stdin.write(self.input) {
            Ok(written) => self.input = &self.input[written..],
            Err(error) if is_passing(&error) => {}
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn do_not_block(end: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    Ok(rustix::fs::fcntl_setfl(&end, flags | OFlags::NONBLOCK)?)
}

/// Which of them something can be done with.
fn wait_for<const N: usize>(
    wanted: [Option<(std::os::fd::BorrowedFd<'_>, PollFlags)>; N],
) -> io::Result<[bool; N]> {
    let watched = wanted.iter().flatten();
    let mut watched: Vec<PollFd<'_>> = watched
        .map(|(descriptor, events)| PollFd::from_borrowed_fd(*descriptor, *events))
        .collect();
    loop {
        match poll(&mut watched, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut answers = watched.iter().map(|watched| !watched.revents().is_empty());
    Ok(wanted.map(|wanted| wanted.is_some() && answers.next().unwrap_or(false)))
}

/// Whether it ended otherwise than well. It is not reaped.
fn has_failed(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(Some(status)) => status.exit_status() != Some(0),
        _ => false,
    }
}
