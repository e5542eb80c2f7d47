//! The faults that happen to one machine while the others go on.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tenure_testkit::postgres::Proxy;

use crate::dice::Dice;
use crate::event_log::Who;
use crate::machine::{Orders, Word};
use crate::process::Child;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The machine is killed, and another life of it begins.
    Crash,
    /// The machine stands still for longer than a lease lasts.
    Pause,
    /// Nothing passes, in either direction.
    Silence,
    /// The database does what the machine asks, and the machine does not hear of it.
    Deafness,
    /// The connections are reset; the machine may connect anew at once.
    Reset,
    /// The connections are reset, and new ones refused.
    Refusal,
}

impl Fault {
    pub const ALL: [Self; 6] = [
        Self::Crash,
        Self::Pause,
        Self::Silence,
        Self::Deafness,
        Self::Reset,
        Self::Refusal,
    ];

    /// Returns the word for this fault in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crashes",
            Self::Pause => "pauses",
            Self::Silence => "silences",
            Self::Deafness => "deafnesses",
            Self::Reset => "resets",
            Self::Refusal => "refusals",
        }
    }
}

/// A machine, its proxy to the database, and its event logs.
pub struct Victim {
    proxy: Proxy,
    orders: Orders,
    directory: PathBuf,
    child: Child,
}

impl Victim {
    /// Starts a machine, completes its orders, and returns when it is at work.
    pub fn start(proxy: Proxy, orders: Orders, directory: &Path) -> Self {
        let mut orders = orders;
        let child = begin(&mut orders, directory);
        Self {
            proxy,
            orders,
            directory: directory.to_owned(),
            child,
        }
    }

    /// Lets faults happen until the end, beginning with the given kind, and returns which happened.
    /// The machine is well when this returns.
    pub fn suffer(
        &mut self,
        first: Fault,
        ttl: Duration,
        dice: &mut Dice,
        end: Instant,
    ) -> Vec<Fault> {
        let mut suffered = Vec::new();
        let mut next = first;
        loop {
            sleep(dice.millis(400..2400));
            if Instant::now() >= end {
                return suffered;
            }
            self.happen(next, ttl, dice);
            suffered.push(next);
            let kind = dice.within(0..Fault::ALL.len().try_into().unwrap());
            next = Fault::ALL[usize::try_from(kind).unwrap()];
        }
    }

    fn happen(&mut self, fault: Fault, ttl: Duration, dice: &mut Dice) {
        let ttl = u64::try_from(ttl.as_millis()).unwrap();
        // Some faults end before a lease does, some after.
        let while_cut_off = dice.millis(ttl / 4..ttl * 7 / 4);
        match fault {
            Fault::Crash => {
                self.child.kill();
                sleep(dice.millis(50..800));
                self.orders.who.life += 1;
                self.child = begin(&mut self.orders, &self.directory);
            }
            Fault::Pause => {
                self.child.stop();
                sleep(dice.millis(ttl * 5 / 4..ttl * 7 / 4));
                self.child.go_on();
            }
            Fault::Silence => {
                self.proxy.pause();
                sleep(while_cut_off);
                self.proxy.resume();
            }
            Fault::Deafness => {
                self.proxy.pause_answers();
                sleep(while_cut_off);
                self.proxy.resume();
            }
            Fault::Reset => self.proxy.cut(),
            Fault::Refusal => {
                self.proxy.refuse();
                self.proxy.cut();
                sleep(while_cut_off);
                self.proxy.admit();
            }
        }
    }

    /// Ends the machine once it has finished its current work.
    pub fn finish(mut self) {
        self.child.tell(&Word::Stop);
        assert_eq!(self.child.answer::<Word>(), Word::Done);
        self.child.finish();
    }

    /// Returns all lives of the machine, and the paths of their event logs.
    pub fn diaries(&self) -> Vec<(Who, PathBuf)> {
        let Who { machine, life } = self.orders.who;
        let who = (0..=life).map(|life| Who { machine, life });
        who.map(|who| (who, event_log(&self.directory, who)))
            .collect()
    }
}

fn event_log(directory: &Path, who: Who) -> PathBuf {
    directory.join(format!("machine-{}-{}", who.machine, who.life))
}

fn begin(orders: &mut Orders, directory: &Path) -> Child {
    orders.event_log = event_log(directory, orders.who);
    let mut child = Child::start("machine", orders);
    assert_eq!(child.answer::<Word>(), Word::Ready);
    child
}
