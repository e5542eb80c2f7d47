//! The end of all that a command has started.
//!
//! What is left of a process group or has made a session of its own becomes a child of the
//! subreaper when its parent dies. A child that is not reaped keeps its number, so no other
//! process is killed in its place.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait, waitpid};
use tenure_os::platform::{children, signal_group};

/// The longest time for the end of what can be killed.
const END_MAX: Duration = Duration::from_secs(2);
/// The time between two looks, while children die.
const LOOK: Duration = Duration::from_millis(2);

/// Reaps the children of this process that have ended, but for those that are spared.
pub fn reap_children(is_spared: impl Fn(Pid) -> bool) {
    let children = children().unwrap_or_default();
    for child in children.into_iter().filter(|child| !is_spared(*child)) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// Kills the children of this process, but for those that are spared, and reaps those that are
/// dead. Returns true if there was none: those that die leave theirs to us.
pub fn kill_children(is_spared: impl Fn(Pid) -> bool) -> bool {
    let mut others = children().unwrap_or_default();
    others.retain(|child| !is_spared(*child));
    for child in &others {
        let _ = kill_process(*child, Signal::KILL);
        let _ = waitpid(Some(*child), WaitOptions::NOHANG);
    }
    others.is_empty()
}

/// Kills all that a command has left, which has ended itself and is reaped last: its group is its
/// own until then. Returns how it ended, and true if nothing is left.
pub fn end_all(leader: Pid) -> (WaitStatus, bool) {
    let until = Instant::now() + END_MAX;
    loop {
        signal_group(leader, Signal::KILL.as_raw());
        if kill_children(|child| child == leader) || Instant::now() > until {
            break;
        }
        sleep(LOOK);
    }
    let status = reap(leader);
    // A child that the list had left out is killed now.
    while !matches!(wait(WaitOptions::NOHANG), Err(Errno::CHILD)) {
        if Instant::now() > until {
            return (status, false);
        }
        kill_children(|_| false);
        sleep(LOOK);
    }
    (status, true)
}

/// Reaps a child that has ended.
fn reap(child: Pid) -> WaitStatus {
    loop {
        if let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::empty()) {
            return status;
        }
    }
}
