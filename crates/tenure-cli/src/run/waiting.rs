//! What a person sees while `run` waits: one live line on a terminal, sparse lines elsewhere.

use std::convert::Infallible;
use std::env;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use tenure::{
    Keeper, Lease, LockSet, Mode, Query, Resource, Session, Timestamp, Waiting, duration,
};
use tokio::time::{Instant, sleep_until};

use crate::people::{cut, ends, held_by};

/// Shorter waits are not worth a flicker.
const LIVE_AFTER: Duration = Duration::from_millis(300);
/// How often the live line is drawn.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// When lines are written where nothing can be redrawn; after the last, one each of [`LINE_EVERY`].
const LINES_AT: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
const LINE_EVERY: Duration = Duration::from_secs(60);
/// A terminal that does not tell its width has this one.
const WIDTH_DEFAULT: usize = 80;

/// Tells about the wait until it is dropped, which also removes the live line.
pub async fn tell(session: &Session, set: &LockSet, limit: Duration) -> Infallible {
    let began = Instant::now();
    let since = Timestamp::from(SystemTime::now());
    let mut screen = Screen::of_process();
    let mut told = 0;
    loop {
        sleep_until(began + screen.when(told)).await;
        told += 1;
        let blocked = what_blocks(session, set, since).await;
        screen.show(&in_words(&blocked, began.elapsed(), limit));
    }
}

/// What stands between a set and its grant.
#[derive(Debug)]
struct Blocked {
    resource: Resource,
    mode: Mode,
    holders: Vec<Lease>,
    /// Our place in the queue, where the store knows it.
    position: Option<usize>,
}

/// Finds what is waited for: the first of the set that is not ours and that someone keeps from us.
/// A listing that fails says nothing; the wait itself will tell.
async fn what_blocks(session: &Session, set: &LockSet, since: Timestamp) -> Option<Blocked> {
    let mut first_missing = None;
    for (resource, mode) in set.iter() {
        let (held, waiting) = look(session.keeper(), resource).await.unwrap_or_default();
        if held.iter().any(|lease| lease.session == *session.id()) {
            continue;
        }
        let conflicting = held
            .into_iter()
            .filter(|lease| lease.mode.conflicts_with(*mode));
        let blocked = Blocked {
            resource: resource.clone(),
            mode: *mode,
            holders: conflicting.collect(),
            position: own_position(session, &waiting, *mode, since),
        };
        if !blocked.holders.is_empty() || blocked.position.is_some() {
            return Some(blocked);
        }
        // Nobody holds it: it is about to be ours, or someone else is before us.
        first_missing = first_missing.or(Some(blocked));
    }
    first_missing
}

async fn look(keeper: &Keeper, resource: &Resource) -> tenure::Result<(Vec<Lease>, Vec<Waiting>)> {
    let query = Query {
        resource: Some(resource.clone()),
        ..Query::default()
    };
    let listing = keeper.list(&query).await?;
    Ok((listing.held, listing.waiting.unwrap_or_default()))
}

/// Our own entry in the queue: the one of our owner and mode that is as old as we are.
fn own_position(
    session: &Session,
    waiting: &[Waiting],
    mode: Mode,
    since: Timestamp,
) -> Option<usize> {
    let ours = waiting
        .iter()
        .filter(|entry| entry.owner == *session.owner() && entry.mode == mode);
    let distance = |entry: &&Waiting| entry.since.as_millis().abs_diff(since.as_millis());
    ours.min_by_key(distance).map(|entry| entry.position)
}

fn in_words(blocked: &Option<Blocked>, waited: Duration, limit: Duration) -> String {
    let time = format!("{} of {}", duration::show(waited), duration::show(limit));
    let Some(blocked) = blocked else {
        return format!("waiting for a lock, {time}");
    };
    let what = format!(
        "waiting for {} ({}), {time}",
        blocked.resource, blocked.mode
    );
    let place = match blocked.position {
        Some(position) => format!("; place {position} in the queue"),
        None => String::new(),
    };
    match &blocked.holders[..] {
        [] => format!("{what}{place}"),
        [one, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            format!("{what}: {}{more}, {}{place}", held_by(one), ends(one))
        }
    }
}

/// Where it is shown.
enum Screen {
    /// One line, drawn again and again.
    Live { colour: bool, drawn: bool },
    /// One line after the other.
    Lines,
}

impl Screen {
    fn of_process() -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        // A job in the background must not paint over what the person does meanwhile.
        let foreground = rustix::termios::tcgetpgrp(io::stderr());
        match !dumb && foreground == Ok(rustix::process::getpgrp()) {
            true => Screen::Live {
                colour: !is_set("NO_COLOR"),
                drawn: false,
            },
            false => Screen::Lines,
        }
    }

    /// When to tell for the `told`-th time (from 0), counted from the beginning of the wait.
    fn when(&self, told: u32) -> Duration {
        match self {
            Screen::Live { .. } => LIVE_AFTER + LIVE_EVERY * told,
            Screen::Lines => match LINES_AT.get(told as usize) {
                Some(at) => *at,
                None => LINE_EVERY * (told + 2 - LINES_AT.len() as u32),
            },
        }
    }

    fn show(&mut self, text: &str) {
        let mut output = io::stderr();
        // Nobody can be told that telling failed.
        let _ = match self {
            Screen::Lines => writeln!(output, "tenure: {text}"),
            Screen::Live { colour, drawn } => {
                *drawn = true;
                let line = cut(&format!("tenure: {text}"), width() - 1);
                match colour {
                    true => write!(output, "\r\x1b[K\x1b[33m{line}\x1b[0m"),
                    false => write!(output, "\r\x1b[K{line}"),
                }
            }
        };
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if matches!(self, Screen::Live { drawn: true, .. }) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    let columns = size.map(|size| usize::from(size.ws_col)).unwrap_or(0);
    if columns < 2 { WIDTH_DEFAULT } else { columns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    fn blocked(holders: Vec<Lease>, position: Option<usize>) -> Option<Blocked> {
        Some(Blocked {
            resource: Resource::parse("x").unwrap(),
            mode: Mode::Write,
            holders,
            position,
        })
    }

    #[test]
    fn a_wait_tells_what_who_until_when_and_how_long() {
        let words = in_words(
            &blocked(vec![lease("x")], Some(2)),
            Duration::from_secs(12),
            Duration::from_secs(600),
        );
        assert_eq!(
            words,
            "waiting for name:x (write), 12s of 10m 00s: held (write) by ana@desk for 3m 05s: \
             pid 4242 on desk, \"cargo test\", purpose: nightly, until it is released; \
             place 2 in the queue"
        );
    }

    #[test]
    fn a_wait_nobody_is_seen_to_cause_still_tells_the_time() {
        let words = in_words(
            &blocked(vec![], None),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert_eq!(words, "waiting for name:x (write), 1.0s of 5.0s");
    }

    #[test]
    fn lines_become_rarer() {
        let at: Vec<u64> = (0..7)
            .map(|told| Screen::Lines.when(told).as_secs())
            .collect();
        assert_eq!(at, [1, 10, 30, 60, 120, 180, 240]);
    }

    #[test]
    fn the_live_line_is_drawn_every_second() {
        let live = Screen::Live {
            colour: false,
            drawn: false,
        };
        assert_eq!(live.when(0), Duration::from_millis(300));
        assert_eq!(live.when(3), Duration::from_millis(3300));
    }
}
