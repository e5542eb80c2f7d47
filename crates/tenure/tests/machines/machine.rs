//! The work of a machine in a history: it takes locks, works under them, and writes down what it
//! sees.
//!
//! Each resource has a task of its own, with a session of its own:
//!
//! 1. It asks for the lock, mostly for writing, for a random time; now and then it drops the
//!    question.
//! 2. Under the lock it announces its token to the register and works in rounds: it asks its guard,
//!    thinks, asks its guard again, and writes one more than the value it knows. Now and then it
//!    works for longer than a lease lasts, so that renewals matter.
//! 3. While the guard is unknown it stands still. Told that the lock is lost, it does everything
//!    that must fail from then on: it goes on to write for a while, renews and releases.
//! 4. Otherwise it releases, or now and then just drops the guard.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{
    Class, Error, Guard, GuardState, Keeper, Mode, Options, Owner, Resource, Session,
    SessionOptions,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::event_log::{Entry, EventLog, Grant, Late, Outcome, Who};
use crate::moment::now;
use crate::process::{heard, runtime, say};
use crate::register::Registers;

/// A machine that did nothing for longer was stopped or starved.
const GAP: Duration = Duration::from_millis(60);
/// A holder that has lost its lock waits this long for an answer of the store.
const LATE_MAX: Duration = Duration::from_secs(2);

/// The arguments of a machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    pub who: Who,
    /// The store, through the proxy of the machine.
    pub store: String,
    /// The registers, which no proxy cuts off.
    pub registers: String,
    pub event_log: PathBuf,
    pub seed: u64,
    /// The resources: from the first, up to but without the last.
    pub resources: (u32, u32),
}

/// The words between a machine and its test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// The machine has opened the store, and begins.
    Ready,
    /// The machine is to end its work.
    Stop,
    /// The machine has ended its work.
    Done,
}

/// Returns the lock of a history.
pub fn resource(number: u32) -> Resource {
    Resource::parse(&format!("map:history/{number}")).unwrap()
}

/// State that all tasks of a machine share.
struct Machine {
    keeper: Keeper,
    registers: Registers,
    event_log: EventLog,
    holds: AtomicU64,
    stop: watch::Receiver<bool>,
}

/// Plays the role of a machine in this process.
pub fn play(orders: &Orders) {
    runtime().block_on(async {
        let mut heard = heard::<Word>();
        let (stopping, stop) = watch::channel(false);
        let machine = Arc::new(Machine {
            keeper: Keeper::open(&orders.store).await.unwrap(),
            registers: Registers::open(&orders.registers, orders.who).await,
            event_log: EventLog::open(&orders.event_log),
            holds: AtomicU64::new(0),
            stop,
        });
        say(&Word::Ready);
        let pulse = tokio::spawn(pulse(Arc::clone(&machine)));
        let mut tasks = JoinSet::new();
        for resource in orders.resources.0..orders.resources.1 {
            let Who {
                machine: number,
                life,
            } = orders.who;
            let of = [u64::from(resource), u64::from(number), u64::from(life)];
            let dice = Dice::new(orders.seed, &of);
            tasks.spawn(Arc::clone(&machine).work(resource, number, dice));
        }
        heard.recv().await;
        stopping.send_replace(true);
        while let Some(done) = tasks.join_next().await {
            if let Err(problem) = done {
                let what = problem.to_string();
                machine.event_log.note(&Entry::Surprise { what });
            }
        }
        pulse.abort();
        say(&Word::Done);
    });
}

/// Notes each time during which nothing could run in this process.
async fn pulse(machine: Arc<Machine>) {
    let mut last = now();
    loop {
        sleep(Duration::from_millis(10)).await;
        let (from, to) = (last, now());
        if to - from > u64::try_from(GAP.as_micros()).unwrap() {
            machine.event_log.note(&Entry::Gap { from, to });
        }
        last = to;
    }
}

impl Machine {
    async fn work(self: Arc<Self>, number: u32, machine: u32, mut dice: Dice) {
        let owner = Owner::parse(&format!("machine-{machine}")).unwrap();
        let session = self.keeper.session(SessionOptions::new(owner));
        let mut stop = self.stop.clone();
        while !*stop.borrow() {
            let dropped = dice.once_in(12).then(|| dice.millis(1..300));
            let asking = self.ask(&session, number, &mut dice);
            let taken = tokio::select! {
                taken = asking => taken,
                () = given_up(dropped) => None,
                _ = stop.wait_for(|stop| *stop) => None,
            };
            if let Some((guard, hold)) = taken {
                self.hold(guard, hold, number, &mut dice).await;
            }
            sleep(dice.millis(0..60)).await;
        }
    }

    async fn ask(&self, session: &Session, number: u32, dice: &mut Dice) -> Option<(Guard, u64)> {
        let mode = match dice.once_in(4) {
            true => Mode::Read,
            false => Mode::Write,
        };
        let wait = match dice.once_in(8) {
            true => Duration::ZERO,
            false => dice.millis(100..2500),
        };
        let options = Options::default().with_wait(wait);
        let (name, pause) = (resource(number), dice.millis(20..150));
        let asked = now();
        match session.acquire(&name, mode, &options).await {
            Ok(guard) => {
                let hold = self.holds.fetch_add(1, Ordering::Relaxed);
                let lease = guard.lease();
                self.event_log.note(&Entry::Granted(Grant {
                    hold,
                    resource: number,
                    mode,
                    token: lease.token.get(),
                    lease: lease.lease.to_string(),
                    asked,
                    granted: now(),
                }));
                Some((guard, hold))
            }
            Err(error) => {
                self.missed(&error);
                sleep(pause).await;
                None
            }
        }
    }

    /// Notes a lock that was not granted. That is usual for a machine that is cut off, but not for
    /// every reason.
    fn missed(&self, error: &Error) {
        let class = error.class();
        let class_name = class.as_str().to_owned();
        self.event_log.note(&Entry::Missed { class: class_name });
        let usual = matches!(class, Class::Busy | Class::Unreachable | Class::Lost);
        // A grant may be over by the time the machine hears of it.
        let over = matches!(error, Error::LeaseOver { .. });
        if !usual && !over {
            let what = format!("not granted: {error}");
            self.event_log.note(&Entry::Surprise { what });
        }
    }

    async fn hold(&self, guard: Guard, hold: u64, number: u32, dice: &mut Dice) {
        let value = &mut None;
        let lost = tokio::select! {
            biased;
            _ = guard.lost() => true,
            () = self.work_under(&guard, hold, number, dice, value) => false,
        };
        let at = now();
        if lost {
            self.event_log.note(&Entry::Told { hold, at });
            let late = self.be_late(guard, hold, number, *value, dice).await;
            self.event_log.note(&Entry::Late { hold, late });
        } else if dice.once_in(10) {
            self.event_log.note(&Entry::Dropped { hold, at });
            drop(guard);
        } else {
            self.event_log.note(&Entry::Releasing { hold, at });
            let released = guard.release().await;
            let at = now();
            match released {
                Ok(()) => self.event_log.note(&Entry::Released { hold, at }),
                Err(failed) => self.missed(&failed.source),
            }
        }
    }

    async fn work_under(
        &self,
        guard: &Guard,
        hold: u64,
        number: u32,
        dice: &mut Dice,
        value: &mut Option<i64>,
    ) {
        let (rounds, pauses) = match dice.once_in(8) {
            true => (dice.within(8..16), 100..250),
            false => (dice.within(1..4), 5..80),
        };
        let (token, mode) = (guard.token().get(), guard.mode());
        if mode == Mode::Write {
            *value = Some(self.registers.announce(number, token).await);
        }
        for _ in 0..rounds {
            self.vouch(guard, hold).await;
            sleep(dice.millis(pauses.clone())).await;
            self.vouch(guard, hold).await;
            let asked = now();
            let Some(believed) = *value else {
                let value = self.registers.read(number).await;
                self.event_log.note(&Entry::Read {
                    resource: number,
                    value,
                    asked,
                    answered: now(),
                });
                continue;
            };
            if self.write(number, token, hold, believed).await {
                *value = Some(believed + 1);
            }
        }
    }

    async fn write(&self, number: u32, token: u64, hold: u64, believed: i64) -> bool {
        let written = self.registers.write(number, token, hold, believed, now());
        let accepted = written.await;
        if accepted {
            self.event_log.note(&Entry::Wrote {
                resource: number,
                value: believed + 1,
                answered: now(),
            });
        }
        accepted
    }

    /// Returns when the guard says that it holds. If the lock is lost, this never returns.
    async fn vouch(&self, guard: &Guard, hold: u64) {
        loop {
            // The moment is taken before the question: the answer is true of that moment, too.
            let at = now();
            if guard.state() == GuardState::Held {
                return self.event_log.note(&Entry::Vouched { hold, at });
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Does everything that a lost lock gives no right to.
    async fn be_late(
        &self,
        guard: Guard,
        hold: u64,
        number: u32,
        mut value: Option<i64>,
        dice: &mut Dice,
    ) -> Late {
        let lease = guard.lease();
        let token = lease.token;
        for _ in 0..dice.within(3..9) {
            if let Some(believed) = value
                && self.write(number, token.get(), hold, believed).await
            {
                value = Some(believed + 1);
            }
            sleep(dice.millis(10..150)).await;
        }
        let at = now();
        let store = Arc::clone(tenure::internal::store(&self.keeper));
        let renewal = timeout(LATE_MAX, store.renew(&lease.lease)).await;
        let checked = timeout(LATE_MAX, self.keeper.check(&lease.resource, token)).await;
        let release = async { guard.release().await.map_err(|failed| failed.source) };
        let release = timeout(LATE_MAX, release).await;
        Late {
            at,
            renewal: outcome(renewal.ok()),
            token: outcome(checked.ok()),
            release: outcome(release.ok()),
        }
    }
}

fn outcome<T>(answer: Option<Result<T, Error>>) -> Outcome {
    let Some(answer) = answer else {
        return Outcome::NoAnswer("in time".into());
    };
    match answer {
        Ok(_) => Outcome::Done,
        Err(error) => match error.class() {
            Class::NotAllowed | Class::Lost => Outcome::Refused,
            _ => Outcome::NoAnswer(error.to_string()),
        },
    }
}

async fn given_up(after: Option<Duration>) {
    match after {
        Some(after) => sleep(after).await,
        None => std::future::pending().await,
    }
}
