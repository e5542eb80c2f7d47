//! What commands print on standard output: one JSON document, or words for people.

use std::io::{self, Write};
use std::{process, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;

use crate::report::Failure;

/// Prints one document.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let document = serde_json::to_string(document);
    let document = document.expect("text, numbers and JSON values are always serialisable");
    text(&(document + "\n"))
}

/// Prints words as they are.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout();
    let written = output.write_all(text.as_bytes());
    written
        .and_then(|()| output.flush())
        .map_err(Failure::output)
}

/// Ends this process when nobody reads any more what it prints: for one who waits for something to print. As with a pipe that
/// breaks while it is written to, nothing is wrong.
pub fn end_when_unread() {
    thread::spawn(|| {
        let output = io::stdout();
        let mut polled = [PollFd::new(&output, PollFlags::empty())];
        loop {
            match poll(&mut polled, None) {
                Ok(_) if polled[0].revents().contains(PollFlags::ERR) => process::exit(0),
                Err(Errno::INTR) => {}
                // What cannot break need not be watched.
                _ => return,
            }
        }
    });
}
