//! The text that the program of an agent writes to its hook.
//!
//! A program that keeps the pipe open must not be kept waiting by its own hook. So reading ends
//! after a time, and the text read by then is the event.

use std::io::{self, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Error, Result, duration};

use crate::output::word;

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads standard input to its end, for as long as `wait`, and up to a length of `bytes_max`.
pub fn read(bytes_max: usize, wait: Duration) -> Result<Vec<u8>> {
    let end = Instant::now() + wait;
    let (sender, chunks) = mpsc::sync_channel(1);
    // A read of a pipe that stays open ends only with this process, so a thread is left with it.
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = stdin.read(&mut chunk).map(|length| {
                chunk.truncate(length);
                chunk
            });
            if read
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
            {
                continue;
            }
            let is_over = read.as_ref().is_ok_and(Vec::is_empty);
            if is_over || sender.send(read).is_err() {
                return;
            }
        }
    });
    let mut body = Vec::new();
    while body.len() < bytes_max {
        match chunks.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(chunk) => {
                let chunk = chunk.map_err(|error| Error::io("read", "standard input", error))?;
                body.extend(chunk);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let wait = duration::show(wait);
                word(&format!(
                    "agent hook: standard input stayed open for {wait}; what was read counts"
                ));
                break;
            }
        }
    }
    body.truncate(bytes_max);
    Ok(body)
}
