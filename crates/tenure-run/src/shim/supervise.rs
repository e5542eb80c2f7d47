//! The shim: from the attempt to its status.

use std::fmt::Display;
use std::io::{self, PipeReader};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitStatus, getpid, set_child_subreaper, setsid};
use tenure_os::clock;
use tenure_os::platform::{has_ended, send, signal_group, signal_process};

use super::attempt::{Attempt, Lifetime};
use super::command;
use super::descendants::{end_all, reap_children};
use super::lines::{Message, Received, line};
use super::output::Files;
use super::status::{End, NotStarted, Status, Stopped, create, short, write};
use super::stopping::{Step, Stopping};
use super::wait::wait;
use crate::spawn::pass_on;

/// Runs a command that is told over the control, and tells its status there. The descriptors of the
/// session are open until this process ends.
pub fn supervise(control: &UnixStream, session: Vec<OwnedFd>, children: BorrowedFd<'_>) {
    let _ = rustix::thread::set_name(c"tenure-shim");
    let session = ManuallyDrop::new(pass_on(session.into_iter().map(Ok)));
    let mut received = Received::default();
    let attempt: Attempt = loop {
        match received.next() {
            Some(attempt) => break attempt,
            None if session.is_ok() && received.read(control) => {}
            // The worker died before it had told all.
            None => return,
        }
    };
    let file = create(&attempt.status);
    let shim = file
        .as_ref()
        .map_err(of_shim("make the file of its status"));
    let shim = shim.and_then(|_| Shim::start(&attempt, control, received, children));
    let status = shim.map_or_else(|end| Status::new(&attempt.tag, end), Shim::run);
    // The worker is told, whatever becomes of the file.
    let _ = file.and_then(|file| write(&file, &status));
    let _ = line(&status).and_then(|line| send(control.as_fd(), &line));
}

/// Says that the shim could not do its own part.
fn of_shim<E: Display>(what: &'static str) -> impl Fn(E) -> End {
    move |error| End::NotStarted(NotStarted::Shim, short(format!("cannot {what}: {error}")))
}

/// A shim whose command runs.
struct Shim<'a> {
    attempt: &'a Attempt,
    leader: Pid,
    /// None after all who could print have closed it.
    pipe: Option<PipeReader>,
    files: Files,
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
    ) -> Result<Self, End> {
        let became = setsid().and_then(|_| set_child_subreaper(Some(getpid())));
        became.map_err(of_shim("become a subreaper"))?;
        let (pipe, printed) = io::pipe().map_err(of_shim("make a pipe"))?;
        ioctl_fionbio(&pipe, true).map_err(of_shim("make a pipe"))?;
        let now = clock::boot_now();
        if attempt.deadline_ms.is_some_and(|deadline| deadline <= now) {
            let reason = "its deadline was over before it was started";
            return Err(End::NotStarted(NotStarted::TooLate, reason.into()));
        }
        let (time, deadline) = (attempt.limits.time_ms, attempt.deadline_ms);
        Ok(Self {
            attempt,
            leader: command::start(attempt, printed)?,
            pipe: Some(pipe),
            files: Files::begin(&attempt.output),
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
        let mut status = Status::new(&self.attempt.tag, end(status));
        status.stopped = self
            .stopping
            .reason()
            .or_else(|| self.over_cpu(&status.end));
        status.output = match self.pipe {
            Some(mut pipe) => self.files.finish(&mut pipe),
            None => self.files.output,
        };
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
        let others = [
            self.control.map(AsFd::as_fd),
            self.pipe.as_ref().map(AsFd::as_fd),
        ];
        let [is_told, is_printed] = wait(self.children, others, time);
        reap_children(|child| child == self.leader);
        if let Some(pipe) = self.pipe.as_mut().filter(|_| is_printed)
            && matches!(self.files.copy(pipe), Ok(0))
        {
            self.pipe = None;
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
