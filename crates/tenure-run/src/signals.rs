//! Signals to this process.
//!
//! Signals that ask for the end are passed on to the process group of the command, and end a wait.
//! A signal that was ignored from the start stays ignored, for the command too: a program started
//! by `nohup` outlives its terminal.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::Poll;

use rustix::process::Signal;
use tenure_core::{Error, Result};
use tenure_os::platform::{BlockedSignals, is_ignored, stop_self};
use tokio::signal::unix::{self, SignalKind};

/// The signals that are passed on to the command, and end a wait.
pub const ENDING: [i32; 4] = [
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
];

/// A signal to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A signal that asks the command to end.
    End(i32),
    /// A child ended or stopped.
    Child,
    /// This process goes on after it was stopped, or was put into the foreground.
    Continued,
    /// Ctrl-Z: the command must stop.
    Suspend,
}

/// All signals that this process listens to.
pub struct Signals {
    streams: Vec<(Event, unix::Signal)>,
}

impl Signals {
    /// Starts to listen. From here on no signal is lost: a signal that arrives is remembered.
    ///
    /// Signals are blocked during this call. The library first installs its handler and then the
    /// handler's action, and a signal in between would be swallowed.
    pub fn listen() -> Result<Self> {
        let _blocked = BlockedSignals::all();
        let mut events = vec![
            (Event::Child, Signal::CHILD.as_raw()),
            (Event::Continued, Signal::CONT.as_raw()),
        ];
        let ending = ENDING.into_iter().filter(|number| !is_ignored(*number));
        events.extend(ending.map(|number| (Event::End(number), number)));
        if !is_ignored(Signal::TSTP.as_raw()) {
            events.push((Event::Suspend, Signal::TSTP.as_raw()));
        }
        let streams = events.into_iter().map(|(event, number)| {
            let stream = unix::signal(SignalKind::from_raw(number)).map_err(unavailable)?;
            Ok((event, stream))
        });
        let streams = streams.collect::<Result<_>>()?;
        Ok(Self { streams })
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Event {
        poll_fn(|context| {
            for (event, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*event);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next signal that asks for the end. Ctrl-Z stops this process meanwhile.
    pub async fn interruption(&mut self) -> i32 {
        loop {
            match self.next().await {
                Event::End(number) => return number,
                Event::Suspend => stop_self(),
                Event::Child | Event::Continued => {}
            }
        }
    }
}

/// Returns the error when the system has no descriptor or handler left for us.
pub fn unavailable(source: io::Error) -> Error {
    Error::io("prepare for signals in", Path::new("this process"), source)
}
