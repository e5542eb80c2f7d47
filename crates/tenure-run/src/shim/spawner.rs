//! The process that forks the shims.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{self, Pid, WaitOptions, getpid, set_child_subreaper, setsid};
use tenure_core::{Error, Result};
use tenure_os::platform::{block_signals, child_signals, close_all_but, fork_alone, send};

use super::attempt::Attempt;
use super::descendants::kill_children;
use super::handle::Shim;
use super::lines::line;
use super::status::{End, NotStarted, Status};
use super::supervise::supervise;
use super::wait::wait;
use crate::watchdog::Process;

/// The most descriptors of a session.
const DESCRIPTORS_MAX: usize = 16;
/// The time between two looks, while what a killed shim has left dies.
const LOOK: Duration = Duration::from_millis(100);

/// A process that forks the shims of this one. Dropped, it is gone; the shims are not.
#[derive(Debug)]
pub struct Spawner {
    socket: UnixStream,
    _process: Process,
}

impl Spawner {
    /// Starts it. Fails if this process has other threads already.
    pub fn start() -> Result<Self> {
        let failed = |source| Error::io("start", "the spawner of jobs", source);
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let serve = || drop(Serving::begin(theirs).map(Serving::serve));
        let process = Process(fork_alone(serve).map_err(failed)?);
        Ok(Self {
            socket,
            _process: process,
        })
    }

    /// Starts a shim for an attempt, which has these descriptors until it ends. What comes of the
    /// attempt, and whether its command can be run, is told by [`Shim::ended`] alone. If this is
    /// dropped or fails, the attempt is not begun.
    pub async fn spawn(&self, attempt: &Attempt, session: &[BorrowedFd<'_>]) -> Result<Shim> {
        let begin = async {
            let attempt = line(attempt)?;
            let (control, theirs) = UnixStream::pair()?;
            self.send(theirs, session)?;
            Shim::begin(control, &attempt).await
        };
        let shim = begin.await.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                io::Error::new(error.kind(), "the spawner of this worker has ended")
            }
            _ => error,
        });
        shim.map_err(|source| Error::io("start", "a job", source))
    }

    fn send(&self, control: UnixStream, session: &[BorrowedFd<'_>]) -> io::Result<()> {
        let descriptors: Vec<_> = [control.as_fd()]
            .into_iter()
            .chain(session.iter().copied())
            .collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut buffer = SendAncillaryBuffer::new(&mut space);
        if !buffer.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too many descriptors",
            ));
        }
        sendmsg(
            &self.socket,
            &[IoSlice::new(&[0])],
            &mut buffer,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }
}

/// The spawner itself.
struct Serving {
    /// None after the worker has died.
    socket: Option<UnixStream>,
    children: OwnedFd,
    /// The shims that run, each with a copy of its control.
    shims: HashMap<Pid, UnixStream>,
    /// The controls of shims that have ended, until nothing of what they ran is left.
    ended: Vec<UnixStream>,
}

impl Serving {
    fn begin(socket: UnixStream) -> io::Result<Self> {
        block_signals();
        setsid()?;
        close_all_but(socket.as_fd())?;
        // No descriptor of a job gets the number of one of these.
        for _ in 0..3 {
            let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
            let _ = null.into_raw_fd();
        }
        set_child_subreaper(Some(getpid()))?;
        rustix::thread::set_name(c"tenure-spawner")?;
        Ok(Self {
            socket: Some(socket),
            children: child_signals()?,
            shims: HashMap::new(),
            ended: Vec::new(),
        })
    }

    /// Serves the worker to its end, and the shims to theirs.
    fn serve(mut self) {
        while self.socket.is_some() || !self.shims.is_empty() || !self.ended.is_empty() {
            let look = (!self.ended.is_empty()).then_some(LOOK);
            let socket = self.socket.as_ref().map(AsFd::as_fd);
            let [is_asked] = wait(self.children.as_fd(), [socket], look);
            self.reap();
            if is_asked {
                match self.socket.as_ref().and_then(receive) {
                    Some((control, session)) => self.fork(control, session),
                    // The worker has died.
                    None => self.socket = None,
                }
            }
        }
    }

    /// Reaps what has ended, and kills what shims have left: children that are none of ours.
    fn reap(&mut self) {
        while let Ok(Some((child, _))) = process::wait(WaitOptions::NOHANG) {
            self.ended.extend(self.shims.remove(&child));
        }
        if !self.ended.is_empty() && kill_children(|child| self.shims.contains_key(&child)) {
            self.ended.clear();
        }
    }

    /// Forks a shim. It has nothing open but what is its own.
    fn fork(&mut self, control: UnixStream, session: Vec<OwnedFd>) {
        let shim = fork_alone(|| {
            self.socket = None;
            self.shims.clear();
            self.ended.clear();
            supervise(&control, session, self.children.as_fd());
        });
        match shim {
            Ok(shim) => drop(self.shims.insert(shim, control)),
            Err(error) => {
                let reason = format!("cannot fork: {error}");
                let status = Status::new("", End::NotStarted(NotStarted::Shim, reason));
                let _ = line(&status).and_then(|line| send(control.as_fd(), &line));
            }
        }
    }
}

/// Returns the control of a new shim, and the descriptors of its session. None if the worker has
/// died.
fn receive(socket: &UnixStream) -> Option<(UnixStream, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut buffer,
        flags,
    )
    .ok()?;
    let is_whole = received.bytes == 1 && !received.flags.contains(ReturnFlags::CTRUNC);
    let mut descriptors = buffer.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let control = descriptors.next().filter(|_| is_whole)?;
    Some((control.into(), descriptors.collect()))
}
