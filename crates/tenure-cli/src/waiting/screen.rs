//! The output of a wait: one live line on a terminal, sparse lines elsewhere.

use std::env;
use std::io;
use std::time::Duration;

use tenure::{LeaseId, Resource};
use tenure_os::platform::own_group;

use tenure_service::observer::WaitObserver;
use tenure_service::waiting::BlockedRequest;

use super::words::{by, in_few_words, in_words};
use crate::output;
use crate::people::{cut, visible};

/// The time before a wait is shown: shorter waits are not worth a flicker.
const LIVE_AFTER: Duration = Duration::from_millis(300);
/// The interval at which the live line is drawn.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// The times at which lines are written if nothing can be redrawn. After the last, a line follows
/// every [`LINE_EVERY`].
const LINES_AT: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The width of a terminal that does not tell its own.
const WIDTH_DEFAULT: usize = 80;

/// The output of a wait.
pub enum Screen {
    /// Each holder and each circle is named once, and one line below them is redrawn.
    Live {
        colour: bool,
        drawn: bool,
        /// The holder named last.
        named: Option<(Resource, Option<LeaseId>)>,
        /// The circle told last.
        circle: Option<String>,
    },
    /// Lines are written one after the other.
    Lines,
}

impl Screen {
    /// Returns the screen for the standard error of this process.
    pub fn of_process() -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        // A job in the background must not paint over the work of the person in the foreground.
        let foreground = rustix::termios::tcgetpgrp(io::stderr()).ok();
        match !dumb && foreground.is_some() && foreground == own_group() {
            true => Screen::Live {
                colour: !is_set("NO_COLOR"),
                drawn: false,
                named: None,
                circle: None,
            },
            false => Screen::Lines,
        }
    }

    /// Returns the text to write.
    fn text(
        &mut self,
        blocked: Option<&BlockedRequest>,
        waited: Duration,
        limit: Duration,
        width: usize,
    ) -> String {
        let Screen::Live {
            colour,
            drawn,
            named,
            circle: told_circle,
        } = self
        else {
            let words = in_words(blocked, waited, limit);
            return format!("tenure: {}\n", visible(&words));
        };
        *drawn = true;
        let mut text = "\r\x1b[K".to_owned();
        let key = blocked.map(BlockedRequest::key);
        if let Some(blocked) = blocked.filter(|_| *named != key)
            && let Some(by) = by(blocked)
        {
            let by = visible(&by);
            text.push_str(&format!("tenure: {} is {by}\r\n", blocked.name));
            *named = key;
        }
        let circle = blocked.and_then(|blocked| blocked.circle.as_ref());
        if let Some(circle) = circle.filter(|circle| told_circle.as_ref() != Some(circle)) {
            text.push_str(&format!("tenure: in a circle: {}\r\n", visible(circle)));
            *told_circle = Some(circle.clone());
        }
        let line = in_few_words(blocked, waited, limit);
        let line = cut(&format!("tenure: {}", visible(&line)), width - 1);
        match colour {
            true => text + "\x1b[33m" + &line + "\x1b[0m",
            false => text + &line,
        }
    }
}

impl WaitObserver for Screen {
    fn when(&self, told: u32) -> Duration {
        match self {
            Screen::Live { .. } => LIVE_AFTER + LIVE_EVERY * told,
            Screen::Lines => match LINES_AT.get(told as usize) {
                Some(at) => *at,
                None => LINE_EVERY * (told + 2 - LINES_AT.len() as u32),
            },
        }
    }

    fn show(&mut self, blocked: Option<&BlockedRequest>, waited: Duration, limit: Duration) {
        let text = self.text(blocked, waited, limit, width());
        output::draw(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if matches!(self, Screen::Live { drawn: true, .. }) {
            output::draw("\r\x1b[K");
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
    use super::super::words::tests::blocked;
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn the_live_line_is_short_and_each_holder_is_named_once_above_it() {
        let mut live = Screen::Live {
            colour: false,
            drawn: false,
            named: None,
            circle: None,
        };
        let mut blocked = blocked(vec![lease("x")], None);
        let (waited, limit) = (Duration::from_millis(1300), Duration::from_secs(30));
        let mut shown = |blocked: &BlockedRequest| live.text(Some(blocked), waited, limit, 80);
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
        let circle = "ana waits for name:x (write), which bo holds as lease l2; ".repeat(3);
        blocked.circle = Some(circle.clone());
        let told = format!("\r\x1b[Ktenure: in a circle: {circle}\r\n");
        assert_eq!(shown(&blocked), short.replace("\r\x1b[K", &told));
        assert_eq!(shown(&blocked), short, "a circle is told once");
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
            circle: None,
        };
        assert_eq!(live.when(0), Duration::from_millis(300));
        assert_eq!(live.when(3), Duration::from_millis(3300));
    }
}
