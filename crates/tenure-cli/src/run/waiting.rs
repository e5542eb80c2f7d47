//! What a person sees while `run` waits. On a terminal: who is in the way, once, and below it
//! one live line. Elsewhere: sparse lines that say both.

use std::convert::Infallible;
use std::env;
use std::io::{self, Write};
use std::time::Duration;

use tenure::{
    Keeper, Lease, LeaseId, LockSet, Mode, Place, Query, Resource, Session, Timestamp, Waiting,
    clock, duration,
};
use tokio::time::{Instant, sleep_until};

use crate::people::{cut, ends, held_by, outlived};

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
    let since = clock::now();
    let mut screen = Screen::of_process();
    let mut told = 0;
    loop {
        sleep_until(began + screen.when(told)).await;
        told += 1;
        let blocked = what_blocks(session, set, since).await;
        screen.show(blocked.as_ref(), began.elapsed(), limit);
    }
}

/// What stands between a set and its grant.
#[derive(Debug)]
struct Blocked {
    resource: Resource,
    mode: Mode,
    holders: Vec<Lease>,
    /// Those of the holders whose `run` is gone.
    outlived: Vec<LeaseId>,
    /// How to see a holder that left no record, where that can be.
    see: Option<String>,
    /// Our place in the queue, where the store knows it.
    position: Option<usize>,
}

impl Blocked {
    /// Who is in the way: `held (write) by …`. None if nobody is.
    fn by(&self) -> Option<String> {
        match (&self.holders[..], &self.see) {
            ([], Some(see)) => Some(format!(
                "held by a program that leaves no record; see: {see}"
            )),
            ([], None) => None,
            ([one, rest @ ..], _) => {
                let more = match rest.len() {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                Some(held_by(one, &self.outlived) + &more)
            }
        }
    }

    /// What tells one holder from the next.
    fn key(&self) -> (Resource, Option<LeaseId>) {
        let first = self.holders.first();
        (
            self.resource.clone(),
            first.map(|lease| lease.lease.clone()),
        )
    }

    /// `, until it is released; place 2 in the queue`.
    fn until(&self) -> String {
        let mut text = String::new();
        if let Some(holder) = self.holders.first() {
            text = format!(", {}", ends(holder));
        }
        if let Some(position) = self.position {
            text.push_str(&format!("; place {position} in the queue"));
        }
        text
    }
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
        let holders: Vec<Lease> = conflicting.collect();
        let store = session.keeper().store();
        let place = Place {
            resource: resource.clone(),
            mode: *mode,
            store: store.url().to_owned(),
            location: store.place_of(resource),
        };
        let blocked = Blocked {
            resource: resource.clone(),
            mode: *mode,
            outlived: outlived(session.keeper(), &holders).await,
            holders,
            see: place.without_record(),
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

/// `waiting for name:x (write), 12s of 10m 00s`.
fn waiting_for(blocked: Option<&Blocked>, waited: Duration, limit: Duration) -> String {
    let time = format!("{} of {}", duration::show(waited), duration::show(limit));
    match blocked {
        None => format!("waiting for a lock, {time}"),
        Some(Blocked { resource, mode, .. }) => format!("waiting for {resource} ({mode}), {time}"),
    }
}

/// Everything in one line.
fn in_words(blocked: Option<&Blocked>, waited: Duration, limit: Duration) -> String {
    let mut text = waiting_for(blocked, waited, limit);
    if let Some(blocked) = blocked {
        if let Some(by) = blocked.by() {
            text.push_str(": ");
            text.push_str(&by);
        }
        text.push_str(&blocked.until());
    }
    text
}

/// What changes from second to second, short enough for most terminals.
fn in_few_words(blocked: Option<&Blocked>, waited: Duration, limit: Duration) -> String {
    let until = blocked.map(Blocked::until).unwrap_or_default();
    waiting_for(blocked, waited, limit) + &until
}

/// Where it is shown.
enum Screen {
    /// Each holder once, and below one line that is drawn again and again.
    Live {
        colour: bool,
        drawn: bool,
        /// The holder named last.
        named: Option<(Resource, Option<LeaseId>)>,
    },
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
                named: None,
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

    fn show(&mut self, blocked: Option<&Blocked>, waited: Duration, limit: Duration) {
        let text = self.text(blocked, waited, limit, width());
        // Nobody can be told that telling failed.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// What is to be written.
    fn text(
        &mut self,
        blocked: Option<&Blocked>,
        waited: Duration,
        limit: Duration,
        width: usize,
    ) -> String {
        let Screen::Live {
            colour,
            drawn,
            named,
        } = self
        else {
            return format!("tenure: {}\n", in_words(blocked, waited, limit));
        };
        *drawn = true;
        let mut text = "\r\x1b[K".to_owned();
        let key = blocked.map(Blocked::key);
        if let Some(blocked) = blocked.filter(|_| *named != key)
            && let Some(by) = blocked.by()
        {
            text.push_str(&format!("tenure: {} is {by}\r\n", blocked.resource));
            *named = key;
        }
        let line = in_few_words(blocked, waited, limit);
        let line = cut(&format!("tenure: {line}"), width - 1);
        match colour {
            true => text + "\x1b[33m" + &line + "\x1b[0m",
            false => text + &line,
        }
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

    fn blocked(holders: Vec<Lease>, position: Option<usize>) -> Blocked {
        Blocked {
            resource: Resource::parse("x").unwrap(),
            mode: Mode::Write,
            holders,
            outlived: Vec::new(),
            see: None,
            position,
        }
    }

    #[test]
    fn a_wait_tells_what_who_until_when_and_how_long() {
        let words = in_words(
            Some(&blocked(vec![lease("x")], Some(2))),
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
            Some(&blocked(vec![], None)),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert_eq!(words, "waiting for name:x (write), 1.0s of 5.0s");
    }

    #[test]
    fn a_holder_without_a_record_is_looked_for_by_its_file() {
        let mut blocked = blocked(vec![], None);
        blocked.see = Some("fuser /s/x".into());
        let words = in_words(
            Some(&blocked),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        assert!(
            words.ends_with(": held by a program that leaves no record; see: fuser /s/x"),
            "{words}"
        );
    }

    #[test]
    fn the_live_line_is_short_and_each_holder_is_named_once_above_it() {
        let mut live = Screen::Live {
            colour: false,
            drawn: false,
            named: None,
        };
        let mut blocked = blocked(vec![lease("x")], None);
        let (waited, limit) = (Duration::from_millis(1300), Duration::from_secs(30));
        let mut shown = |blocked: &Blocked| live.text(Some(blocked), waited, limit, 80);
        let short = "\r\x1b[Ktenure: waiting for name:x (write), 1.3s of 30s, until it is released";
        let first = shown(&blocked);
        assert!(
            first.starts_with("\r\x1b[Ktenure: name:x is held (write) by ana@desk for "),
            "{first:?}"
        );
        assert!(first.contains("purpose: nightly\r\ntenure: waiting for name:x (write), 1.3s"));
        assert_eq!(shown(&blocked), short);
        blocked.holders[0].lease = LeaseId::parse("l2").unwrap();
        assert!(
            shown(&blocked).contains("is held (write)"),
            "the next holder"
        );
        assert_eq!(shown(&blocked), short);
        std::mem::forget(live);
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
            named: None,
        };
        assert_eq!(live.when(0), Duration::from_millis(300));
        assert_eq!(live.when(3), Duration::from_millis(3300));
    }
}
