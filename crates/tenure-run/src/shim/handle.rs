//! A shim, as its worker sees it.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use serde::Serialize;
use tenure_os::platform::send;
use tokio::net::UnixStream;

use super::lines::{Message, Received, line};
use super::status::Status;

/// A shim. Dropped, it sees that as the death of its worker.
#[derive(Debug)]
#[must_use = "dropped, the shim takes its worker for dead"]
pub struct Shim {
    control: UnixStream,
    received: Received,
}

impl Shim {
    /// Tells a shim its attempt. Dropped or failed, the attempt is not begun.
    pub(super) async fn begin(
        control: std::os::unix::net::UnixStream,
        attempt: &[u8],
    ) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        let control = UnixStream::from_std(control)?;
        let mut left = attempt;
        while !left.is_empty() {
            control.writable().await?;
            match control.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let received = Received::default();
        Ok(Self { control, received })
    }

    /// Waits for the end of the attempt. Returns its status, once; or None if the shim was killed,
    /// and then the command and all that it had started are dead, too, unless the spawner is. It
    /// may be asked again after it was dropped.
    pub async fn ended(&mut self) -> Option<Status> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(status) = self.received.next() {
                return Some(status);
            }
            self.control.readable().await.ok()?;
            match self.control.try_read(&mut bytes) {
                Ok(length @ 1..) => self.received.add(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Moves the time when the command must be dead, in milliseconds since boot.
    pub fn set_deadline(&self, at_ms: u64) {
        self.tell(Message::Deadline(at_ms));
    }

    /// Has the command ended: SIGTERM, and SIGKILL when its grace is over.
    pub fn end(&self) {
        self.tell(Message::End);
    }

    fn tell(&self, message: impl Serialize) {
        let sent = line(&message).and_then(|line| send(self.control.as_fd(), &line));
        // It has ended, or was stopped so long ago that nothing more fits in.
        drop(sent);
    }
}
