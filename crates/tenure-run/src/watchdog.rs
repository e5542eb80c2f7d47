//! A second process that ends the command while this one stands still.
//!
//! A hold that runs out by time passes to another holder while this process is stopped (SIGSTOP,
//! Ctrl-Z, a debugger), and a command that goes on would work beside that holder. So a copy of this
//! process, the watchdog, kills the command at five sixths of that time.
//!
//! # Steps
//!
//! "Stopped" says what happens if the process of the step stops there and never goes on.
//!
//! | step | who | dies here | stopped here |
//! |---|---|---|---|
//! | 1. Before there are threads: shares a number, the deadline, and forks | run | nothing is held | nothing runs |
//! | 2. Enters a session of its own, so that Ctrl-Z does not stop it; blocks signals; closes all descriptors but its socket | watchdog | 4 fails | 4 fails after 5 s |
//! | 3. Writes the deadline, and starts the command | run | the command dies before 6, by the kernel | the command waits at 4, or is watched |
//! | 4. Before the exec: sends its number, waits for an answer | command | as a command that dies | 3 does not go on, what is held runs out, and nothing has run |
//! | 5. Opens the number as a pidfd, answers | watchdog | 4 fails | 4 fails after 5 s |
//! | 6. Exec | command | | |
//! | 7. Writes the new deadline after each renewal | run | the kernel kills the command, the socket ends, and with it the watchdog | 8 |
//! | 8. The deadline is over: marks it as such and kills the command's process group; ends | watchdog | run sees it, and ends the command | see below |
//! | 9. The command has ended: kills and reaps the watchdog, then reaps the command | run | as 7 | the command has ended |
//!
//! # Races
//!
//! - **Deadline and renewal.** Mark and renewal are one exchange of one number: either the renewal
//!   comes first and nothing is killed, or the command is killed and counts as lost.
//! - **A number that is used again.** While the watchdog lives, run does not reap a command that
//!   has started, so no other process gets its number. A command that fails to start, or whose run
//!   is killed, is reaped by others: the pidfd knows, and then reaches no process.
//! - **A command that ended before others in its group.** It is a zombie while run stands still,
//!   and its group is killed.
//! - **A sleep of the machine.** All processes stood still. Run may find that no holder took over,
//!   so it has two seconds for that before 8.
//!
//! # Limitations
//!
//! If both run and watchdog are stopped, or run is stopped and the watchdog is killed, no process
//! ends the command. It is ended when one of them goes on.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, setsid};
use tenure_core::{Error, Result};
use tenure_os::clock;
use tenure_os::platform::{
    SharedNumber, before_exec, block_signals, close_all_but, fork, has_ended, kill_and_reap,
    kill_group_of, send,
};

/// The deadline that is never over.
const NEVER: u64 = u64::MAX;
/// The deadline whose command was killed.
const KILLED: u64 = 0;
/// The longest time between two looks at the deadline.
const LOOK_MAX_MS: u64 = 1000;
/// The longest wait of a command for its watchdog.
const ANSWER_MAX_MS: u64 = 5000;
/// The time that run has, after a sleep of the machine, to find out whether another holder took
/// over.
const AFTER_SLEEP_MS: u64 = 2000;
/// The shortest sleep of the machine that counts: two clocks are never read at one moment.
const SLEEP_MIN_MS: u64 = 500;

/// A second process that kills the command when its hold is over by time. Dropping this ends that
/// process.
#[derive(Debug)]
pub struct Watchdog {
    process: Process,
    socket: UnixStream,
    deadline: SharedNumber,
}

/// A child that only this value reaps.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Pid);

impl Watchdog {
    /// Starts the watchdog. This is called before this process has other threads.
    pub fn start() -> Result<Self> {
        let failed = |source| Error::io("start", "the watchdog of the command", source);
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let deadline = SharedNumber::new().map_err(failed)?;
        deadline.get().store(NEVER, Ordering::Release);
        let work = || watch(theirs.as_fd(), deadline.get());
        // SAFETY: `watch` neither panics nor allocates, and makes system calls only.
        let process = unsafe { fork(work) }.map_err(failed)?;
        Ok(Self {
            process: Process(process),
            socket,
            deadline,
        })
    }

    /// Makes a command wait, before it is executed, until it is watched.
    pub(crate) fn watch_over(&self, command: &mut Command) {
        let socket = self.socket.as_raw_fd();
        // SAFETY: `wait_until_watched` makes system calls only.
        unsafe { before_exec(command, move || wait_until_watched(socket)) };
    }

    /// Notes when the command must be dead, in milliseconds since boot; `None` means never.
    pub(crate) fn set_deadline(&self, kill_at_ms: Option<u64>) {
        let deadline = kill_at_ms.map_or(NEVER, |at_ms| at_ms.max(KILLED + 1));
        let unless_killed = |now| (now != KILLED).then_some(deadline);
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.deadline.get().fetch_update(set, get, unless_killed);
    }

    /// Returns true if a command was not started because no watchdog would watch over it.
    pub(crate) fn is_missed(error: &io::Error) -> bool {
        matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::TimedOut
        )
    }

    /// Returns true if the watchdog ended before it had killed the command.
    pub(crate) fn is_dead(&self) -> bool {
        let has_killed = self.deadline.get().load(Ordering::Acquire) == KILLED;
        !has_killed && has_ended(self.process.0).unwrap_or(true)
    }

    /// Ends the watchdog. Returns true if it has killed the command.
    pub(crate) fn end(self) -> bool {
        let Self {
            process, deadline, ..
        } = self;
        // From here on the watchdog kills nothing.
        drop(process);
        deadline.get().load(Ordering::Acquire) == KILLED
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        kill_and_reap(self.0);
    }
}

/// Does step 4, in the command. It allocates nothing.
fn wait_until_watched(socket: RawFd) -> io::Result<()> {
    // SAFETY: the watchdog outlives the start of the command, and this is a copy of its process.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    send(socket, &getpid().as_raw_pid().to_ne_bytes())?;
    wait_for(socket, ANSWER_MAX_MS)?;
    match rustix::io::read(socket, &mut [0])? {
        1 => Ok(()),
        _ => Err(Errno::PIPE.into()),
    }
}

/// Does the work of the watchdog. It allocates nothing.
fn watch(socket: BorrowedFd<'_>, deadline: &AtomicU64) {
    block_signals();
    // It fails only for a leader of a process group, which a copy is not.
    let _ = setsid();
    if close_all_but(socket).is_err() {
        return;
    }
    let mut command: Option<(OwnedFd, Pid)> = None;
    let mut patience = Patience::new(clock::boot_now(), clock::awake_now());
    loop {
        let due = deadline.load(Ordering::Acquire);
        let left_ms = patience.left_ms(due, clock::boot_now(), clock::awake_now());
        if let Some((leader, group)) = command.as_ref().filter(|_| left_ms == 0) {
            let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
            if deadline.compare_exchange(due, KILLED, set, get).is_ok() {
                kill_group_of(leader.as_fd(), *group);
                return;
            }
            continue;
        }
        // Without a command there is no deadline to meet.
        let wait_ms = command.as_ref().map_or(LOOK_MAX_MS, |_| left_ms);
        if wait_for(socket, wait_ms.min(LOOK_MAX_MS)).is_err() {
            continue;
        }
        let mut number = [0; 4];
        // A socket without a number means that run has ended.
        let Ok(4) = rustix::io::read(socket, &mut number) else {
            return;
        };
        let Some(group) = Pid::from_raw(i32::from_ne_bytes(number)) else {
            return;
        };
        let Ok(leader) = pidfd_open(group, PidfdFlags::empty()) else {
            return;
        };
        command = Some((leader, group));
        if send(socket, &[1]).is_err() {
            return;
        }
    }
}

/// Waits until something can be read, or the other end is closed. Fails with `TimedOut`.
fn wait_for(socket: BorrowedFd<'_>, wait_ms: u64) -> io::Result<()> {
    let wait = Timespec {
        tv_sec: (wait_ms / 1000).cast_signed(),
        tv_nsec: (wait_ms % 1000 * 1_000_000).cast_signed(),
    };
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait))? {
        0 => Err(Errno::TIMEDOUT.into()),
        _ => Ok(()),
    }
}

/// A memory of sleeps of the machine, by the clock that counts sleep and the one that does not.
#[derive(Debug)]
pub(crate) struct Patience {
    slept_ms: u64,
    until_awake_ms: u64,
}

impl Patience {
    pub(crate) fn new(boot_ms: u64, awake_ms: u64) -> Self {
        Self {
            slept_ms: boot_ms.saturating_sub(awake_ms),
            until_awake_ms: 0,
        }
    }

    /// Returns the time until a deadline is over. If the machine slept since the last call, that is
    /// some time after the deadline.
    pub(crate) fn left_ms(&mut self, due_ms: u64, boot_ms: u64, awake_ms: u64) -> u64 {
        let slept_ms = boot_ms.saturating_sub(awake_ms);
        if slept_ms >= self.slept_ms + SLEEP_MIN_MS {
            self.until_awake_ms = awake_ms + AFTER_SLEEP_MS;
        }
        self.slept_ms = slept_ms;
        let patience_ms = self.until_awake_ms.saturating_sub(awake_ms);
        due_ms.saturating_sub(boot_ms).max(patience_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_in_its_time_and_later_after_a_sleep_of_the_machine() {
        let mut patience = Patience::new(10_000, 4_000);
        assert_eq!(patience.left_ms(11_000, 10_400, 4_400), 600);
        assert_eq!(patience.left_ms(11_000, 11_000, 5_000), 0);
        // The machine sleeps for an hour.
        assert_eq!(patience.left_ms(13_000, 3_612_000, 6_000), AFTER_SLEEP_MS);
        assert_eq!(patience.left_ms(13_000, 3_613_500, 7_500), 500);
        assert_eq!(patience.left_ms(13_000, 3_614_000, 8_000), 0);
    }

    #[test]
    fn a_command_is_not_started_if_its_watchdog_is_dead() {
        let watchdog = Watchdog::start().unwrap();
        let pid = watchdog.process.0;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        while !has_ended(pid).unwrap() {}
        assert!(watchdog.is_dead());
        let mut command = Command::new("true");
        watchdog.watch_over(&mut command);
        let error = command.spawn().unwrap_err();
        assert!(Watchdog::is_missed(&error), "{error}");
    }

    #[test]
    fn a_deadline_whose_command_was_killed_stays_so() {
        let watchdog = Watchdog::start().unwrap();
        watchdog.set_deadline(Some(5));
        assert!(!watchdog.is_dead());
        watchdog.deadline.get().store(KILLED, Ordering::Release);
        watchdog.set_deadline(None);
        assert!(watchdog.end());
    }
}
