//! Messages of JSON on a socket, one a line.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message.
pub const LINE_MAX: usize = 1 << 20;

/// A message of the worker to a shim that has its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The command must be dead then, in milliseconds since boot, and not before.
    Deadline(u64),
    /// The command is to end.
    End,
}

/// Returns a message as a line.
pub fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    if line.len() > LINE_MAX {
        let problem = format!("{} bytes, more than {LINE_MAX}", line.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(line)
}

/// What was received of messages.
#[derive(Debug, Default)]
pub struct Received(Vec<u8>);

impl Received {
    /// Adds bytes that were received.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next message that is whole. One that cannot be read is left out.
    pub fn next<M: DeserializeOwned>(&mut self) -> Option<M> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if let Ok(message) = serde_json::from_slice(&line) {
                return Some(message);
            }
        }
    }

    /// Waits for more. Returns false if there is an end of it.
    pub fn read(&mut self, mut socket: &UnixStream) -> bool {
        let mut bytes = [0; 1 << 16];
        let Ok(length @ 1..) = socket.read(&mut bytes) else {
            return false;
        };
        self.add(&bytes[..length]);
        true
    }
}
