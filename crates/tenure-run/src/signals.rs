//! Signals to this process.
//!
//! Signals that ask for the end are passed on to the process group of the command, and end a wait.
//! A signal that was ignored from the start stays ignored, for the command too: a program started
//! by `nohup` outlives its terminal.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::task::Poll;

use rustix::process::Signal;
use tenure_core::{Error, Result};
use tenure_os::platform::{arrival_events, arrivals, count_arrivals, ignore, stop_self};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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
    heard: Vec<Heard>,
    /// Becomes readable with each of them.
    wake: AsyncFd<OwnedFd>,
}

/// A signal, and how often it had arrived when it was last told.
struct Heard {
    event: Event,
    number: i32,
    arrivals: u32,
}

impl Signals {
    /// Starts to listen, within a runtime. From here on no signal is lost: a signal that arrives
    /// is remembered.
    pub fn listen() -> Result<Self> {
        let events = arrival_events().map_err(unavailable)?;
        // SAFETY: the descriptor is owned by what is made of it, and neither closed nor replaced.
        let wake = unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) };
        let wake = wake.map_err(|refused| unavailable(refused.into()))?;
        let ending = ENDING.map(|number| (Event::End(number), number));
        let others = [
            (Event::Child, Signal::CHILD.as_raw()),
            (Event::Continued, Signal::CONT.as_raw()),
        ];
        let events = others.into_iter().chain(ending);
        let mut heard = Vec::new();
        for (event, number) in events.chain([(Event::Suspend, Signal::TSTP.as_raw())]) {
            let arrivals = arrivals(number);
            let was_ignored = count_arrivals(number);
            if was_ignored && matches!(event, Event::End(_) | Event::Suspend) {
                ignore(number);
            } else {
                heard.push(Heard {
                    event,
                    number,
                    arrivals,
                });
            }
        }
        Ok(Self { heard, wake })
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Event {
        poll_fn(|context| {
            loop {
                if let Some(event) = self.arrived() {
                    return Poll::Ready(event);
                }
                match self.wake.poll_read_ready(context) {
                    Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                    // An error says that the runtime ends.
                    Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Returns a signal that has arrived since it was last told.
    fn arrived(&mut self) -> Option<Event> {
        self.heard.iter_mut().find_map(|heard| {
            let before = mem::replace(&mut heard.arrivals, arrivals(heard.number));
            (before != heard.arrivals).then_some(heard.event)
        })
    }

    /// Returns the next signal that asks for the end; whatever children do meanwhile.
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
