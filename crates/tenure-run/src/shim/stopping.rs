//! When the command gets SIGTERM and SIGKILL.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | its time limit is over | at once | when its grace is over |
//! | it is to end, or its worker died and it may not outlive it | at once | when its grace is over |
//! | its deadline is over, whatever was before | | at once |
//!
//! The first of these is the reason that is told. Once begun, the end is completed.

use std::time::Duration;

use rustix::process::Signal;

use super::status::Stopped;
use crate::held::GRACE;
use crate::watchdog::Patience;

/// The longest wait while something is due: the wait does not count sleep.
const LOOK_MAX_MS: u64 = 1000;

/// The end of a command that does not end by itself. All times are milliseconds since boot.
#[derive(Debug)]
pub struct Stopping {
    time_over_at: Option<u64>,
    deadline: Option<u64>,
    patience: Patience,
    begun: Option<Begun>,
    is_killed: bool,
}

#[derive(Debug)]
struct Begun {
    reason: Stopped,
    is_told: bool,
    kill_at: u64,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The command gets a signal. Then this is asked again.
    Signal(Signal),
    /// It goes on for so long, or as long as it likes.
    Wait(Option<Duration>),
}

impl Stopping {
    /// Begins with a command that is started now.
    pub fn new(time_ms: Option<u64>, deadline: Option<u64>, boot_ms: u64, awake_ms: u64) -> Self {
        Self {
            time_over_at: time_ms.map(|time_ms| boot_ms.saturating_add(time_ms)),
            deadline,
            patience: Patience::new(boot_ms, awake_ms),
            begun: None,
            is_killed: false,
        }
    }

    /// Moves the deadline.
    pub fn set_deadline(&mut self, deadline: u64) {
        self.deadline = Some(deadline);
    }

    /// Begins the end, unless it has begun.
    pub fn begin(&mut self, reason: Stopped, boot_ms: u64) {
        self.begun.get_or_insert(Begun {
            reason,
            is_told: false,
            kill_at: boot_ms + GRACE.as_millis() as u64,
        });
    }

    /// Returns why it was made to end, if it was.
    pub fn reason(&self) -> Option<Stopped> {
        self.begun.as_ref().map(|begun| begun.reason)
    }

    /// Returns what is to be done now.
    pub fn step(&mut self, boot_ms: u64, awake_ms: u64) -> Step {
        if self.is_killed {
            return Step::Wait(None);
        }
        let deadline = self.deadline.unwrap_or(u64::MAX);
        let deadline_in = self.patience.left_ms(deadline, boot_ms, awake_ms);
        if deadline_in == 0 {
            self.begin(Stopped::Deadline, boot_ms);
            return self.kill();
        }
        let time_in = left(self.time_over_at, boot_ms);
        if time_in == Some(0) {
            self.begin(Stopped::TimeLimit, boot_ms);
        }
        let is_due = |at: &Begun| at.kill_at <= boot_ms;
        match &mut self.begun {
            Some(begun) if !begun.is_told => {
                begun.is_told = true;
                Step::Signal(Signal::TERM)
            }
            Some(begun) if is_due(begun) => self.kill(),
            begun => {
                let kill_in = left(begun.as_ref().map(|begun| begun.kill_at), boot_ms);
                let deadline_in = self.deadline.map(|_| deadline_in);
                let due = [kill_in, deadline_in, time_in.filter(|left| *left > 0)];
                let wait = due.into_iter().flatten().min();
                Step::Wait(wait.map(|wait| Duration::from_millis(wait.min(LOOK_MAX_MS))))
            }
        }
    }

    fn kill(&mut self) -> Step {
        self.is_killed = true;
        Step::Signal(Signal::KILL)
    }
}

fn left(at: Option<u64>, boot_ms: u64) -> Option<u64> {
    at.map(|at| at.saturating_sub(boot_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Step = Step::Signal(Signal::TERM);
    const KILL: Step = Step::Signal(Signal::KILL);

    fn wait(ms: u64) -> Step {
        Step::Wait(Some(Duration::from_millis(ms)))
    }

    fn at(stopping: &mut Stopping, ms: u64) -> Step {
        stopping.step(ms, ms)
    }

    #[test]
    fn a_command_without_limits_is_not_looked_at() {
        let mut stopping = Stopping::new(None, None, 50, 50);
        assert_eq!(at(&mut stopping, 1 << 50), Step::Wait(None));
        assert_eq!(stopping.reason(), None);
    }

    #[test]
    fn a_time_limit_gives_a_grace() {
        let mut stopping = Stopping::new(Some(1500), None, 10_000, 10_000);
        assert_eq!(at(&mut stopping, 10_000), wait(1000));
        assert_eq!(at(&mut stopping, 11_400), wait(100));
        assert_eq!(at(&mut stopping, 11_500), TERM);
        assert_eq!(at(&mut stopping, 11_500), wait(1000));
        assert_eq!(at(&mut stopping, 16_499), wait(1));
        assert_eq!(at(&mut stopping, 16_500), KILL);
        assert_eq!(at(&mut stopping, 16_500), Step::Wait(None));
        assert_eq!(stopping.reason(), Some(Stopped::TimeLimit));
    }

    #[test]
    fn a_deadline_gives_none_unless_it_is_moved() {
        let mut stopping = Stopping::new(None, Some(11_000), 10_000, 10_000);
        assert_eq!(at(&mut stopping, 10_900), wait(100));
        stopping.set_deadline(12_000);
        assert_eq!(at(&mut stopping, 11_500), wait(500));
        assert_eq!(at(&mut stopping, 12_000), KILL);
        assert_eq!(stopping.reason(), Some(Stopped::Deadline));
    }

    #[test]
    fn a_deadline_cuts_a_grace_and_the_first_reason_stays() {
        let mut stopping = Stopping::new(Some(60_000), Some(11_000), 10_000, 10_000);
        stopping.begin(Stopped::WorkerDied, 10_000);
        stopping.begin(Stopped::Asked, 10_100);
        assert_eq!(at(&mut stopping, 10_100), TERM);
        assert_eq!(at(&mut stopping, 10_100), wait(900));
        assert_eq!(at(&mut stopping, 11_000), KILL);
        assert_eq!(stopping.reason(), Some(Stopped::WorkerDied));
    }

    #[test]
    fn after_a_sleep_of_the_machine_a_deadline_can_still_be_moved() {
        let mut stopping = Stopping::new(None, Some(11_000), 10_000, 10_000);
        assert_eq!(stopping.step(3_600_000, 10_100), wait(1000));
        stopping.set_deadline(3_630_000);
        assert_eq!(stopping.step(3_603_000, 13_100), wait(1000));
        assert_eq!(stopping.reason(), None);
    }
}
