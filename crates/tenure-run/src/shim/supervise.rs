//! The shim: from the attempt to its status.

use std::fmt::Display;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, getpid, set_child_subreaper, setsid};
use tenure_os::clock;
use tenure_os::platform::{has_ended, send, signal_group, signal_process};

use super::attempt::{Attempt, Lifetime};
use super::command;
use super::descendants::{end_all, reap_children};
use super::lines::{Message, Received, line};
use super::output::{self, Output};
use super::status::{End, NotStarted, Status, StatusFile, Stopped};
use super::stopping::{Step, Stopping};
use crate::spawn::pass_on;

/// The longest wait for output after all who could print are dead.
const OUTPUT_MAX: Duration = Duration::from_secs(2);

/// Runs a command that is told over the control, and tells its status there. The descriptors of the
/// session are open until this process ends.
pub fn supervise(control: &UnixStream, session: Vec<OwnedFd>, children: BorrowedFd<'_>) {
    let _ = rustix::thread::set_name(c"tenure-shim");
    let session = ManuallyDrop::new(pass_on(session.into_iter().map(Ok)));
    let mut received = Received::default();
    let attempt: Attempt = loop {
        match received.next() {
            Some(attempt) => break attempt,
            None if received.read(control) => {}
            // The worker died before it had told all.
            None => return,
        }
    };
    let not_started = |(why, reason)| Status::not_started(&attempt.tag, why, reason);
    let started = match &*session {
        Ok(_) => StatusFile::create(&attempt.status),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    let status = match started {
        Err(error) => not_started(of_shim("begin", error)),
        Ok(file) => {
            let shim = Shim::start(&attempt, control, received, children);
            let status = shim.map_or_else(not_started, Shim::run);
            // The worker is told, whatever becomes of the file.
            let _ = file.write(&status);
            status
        }
    };
    let told = line(&status);
    let _ = told.and_then(|told| send(control.as_fd(), &told));
}

/// Says that the shim could not do its own part.
fn of_shim(what: &str, error: impl Display) -> (NotStarted, String) {
    (NotStarted::Shim, format!("cannot {what}: {error}"))
}

/// A shim whose command runs.
struct Shim<'a> {
    attempt: &'a Attempt,
    leader: Pid,
    output: Receiver<Output>,
    /// Can be read when a child has ended.
    children: BorrowedFd<'a>,
    /// None after the worker has died.
    control: Option<&'a UnixStream>,
    received: Received,
    stopping: Stopping,
}

impl<'a> Shim<'a> {
    fn start(
        attempt: &'a Attempt,
        control: &'a UnixStream,
        received: Received,
        children: BorrowedFd<'a>,
    ) -> Result<Self, (NotStarted, String)> {
        let became = setsid().and_then(|_| set_child_subreaper(Some(getpid())));
        became.map_err(|error| of_shim("become a subreaper", error))?;
        let piped = io::pipe().map_err(|error| of_shim("make a pipe", error));
        let (pipe, printed) = piped?;
        let output = output::copy(pipe, &attempt.output);
        let output = output.map_err(|error| of_shim("copy output", error))?;
        let now = clock::boot_now();
        if attempt.deadline_ms.is_some_and(|deadline| deadline <= now) {
            let reason = "its deadline was over before it was started";
            return Err((NotStarted::TooLate, reason.to_owned()));
        }
        let (time, deadline) = (attempt.limits.time_ms, attempt.deadline_ms);
        Ok(Self {
            attempt,
            leader: command::start(attempt, printed)?,
            output,
            children,
            control: Some(control),
            received,
            stopping: Stopping::new(time, deadline, now, clock::awake_now()),
        })
    }

    /// Supervises the command to its end, and ends what it has left.
    fn run(mut self) -> Status {
        // It is not reaped, so that its number stays its own.
        while !has_ended(self.leader).unwrap_or(true) {
            self.listen();
            match self.stopping.step(clock::boot_now(), clock::awake_now()) {
                Step::Signal(signal) => self.signal(signal),
                Step::Wait(time) => self.wait(time),
            }
        }
        let (status, is_all) = end_all(self.leader);
        let output = self.output.recv_timeout(OUTPUT_MAX);
        let mut status = Status::new(&self.attempt.tag, end(status));
        status.stopped = self
            .stopping
            .reason()
            .or_else(|| self.over_cpu(&status.end));
        status.output = output.unwrap_or_else(|_| Output {
            error: Some("something that could not be ended has it open".to_owned()),
            ..Output::default()
        });
        status.still_runs = !is_all;
        status
    }

    /// Does what the worker has told.
    fn listen(&mut self) {
        while let Some(message) = self.received.next() {
            match message {
                Message::Deadline(at) => self.stopping.set_deadline(at),
                Message::End => self.stopping.begin(Stopped::Asked, clock::boot_now()),
            }
        }
    }

    /// Waits for a child, for the worker, or for some time.
    fn wait(&mut self, time: Option<Duration>) {
        let time = time.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        let children = PollFd::new(&self.children, PollFlags::IN);
        let control = self
            .control
            .map(|control| PollFd::new(control, PollFlags::IN));
        let mut sources: Vec<_> = [children].into_iter().chain(control).collect();
        if poll(&mut sources, time.as_ref()).is_err() {
            return;
        }
        let is_told = sources
            .get(1)
            .is_some_and(|control| !control.revents().is_empty());
        // Children that end after this are another signal.
        if rustix::io::read(self.children, &mut [0; 128]).is_ok() {
            reap_children(|child| child == self.leader);
        }
        if let Some(control) = self.control.filter(|_| is_told)
            && !self.received.read(control)
        {
            self.control = None;
            if self.attempt.lifetime == Lifetime::EndsWithWorker {
                self.stopping.begin(Stopped::WorkerDied, clock::boot_now());
            }
        }
    }

    fn signal(&self, signal: Signal) {
        signal_group(self.leader, signal.as_raw());
        if signal == Signal::KILL {
            // It may have left its group.
            signal_process(self.leader, signal.as_raw());
        }
        // A stopped command could not follow.
        signal_group(self.leader, Signal::CONT.as_raw());
    }

    /// Returns the limit of CPU time if that ended the command, or a part of it that its shell
    /// tells of.
    fn over_cpu(&self, end: &End) -> Option<Stopped> {
        self.attempt.limits.cpu_seconds?;
        let over = Signal::XCPU.as_raw();
        let is_over = [End::Signalled(over), End::Exited(128 + over)].contains(end);
        is_over.then_some(Stopped::CpuLimit)
    }
}

fn end(status: WaitStatus) -> End {
    let signalled = || status.terminating_signal().map(End::Signalled);
    let exited = status.exit_status().map(End::Exited);
    exited.or_else(signalled).unwrap_or(End::Signalled(0))
}
