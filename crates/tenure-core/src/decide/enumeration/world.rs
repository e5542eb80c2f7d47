//! Small worlds, and everything that can happen in them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::OnceLock;

use crate::decide::*;
use crate::{LeaseId, Mode, SessionId};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Offers, breaks, deadlines and times to live that begin at the first moment are over at the
/// second.
pub(super) const MOMENTS: [Millis; 2] = [0, 12_000];
const SOON: Millis = 6_000;
const LATE: Millis = 30_000;
const SHORT: Millis = 3_000;
const LONG: Millis = 30_000;

/// The sessions and requests of a world, and the events that can happen in it.
#[derive(Debug, Default)]
pub(super) struct World {
    name: &'static str,
    sessions: usize,
    capacities: Vec<Option<u32>>,
    modes: Vec<Mode>,
    deadlines: Vec<Millis>,
    deaths: bool,
    breaks: bool,
    leases: bool,
    /// All requests that are tried.
    asks: Vec<Ask>,
    /// All states that can be reached, in one spelling each.
    states: Vec<State>,
}

/// One decision, with the states before and after it.
pub(super) struct Step<'a> {
    pub(super) before: &'a State,
    pub(super) ask: &'a Ask,
    pub(super) now: Millis,
    pub(super) decision: &'a Decision,
    pub(super) after: &'a State,
    /// True if requests state capacities in this world.
    pub(super) slots: bool,
}

/// Calls `check` with every decision of every world. Returns how many there were.
pub(super) fn every_step(check: impl FnMut(&Step)) -> usize {
    every_step_of(|_| true, check)
}

/// Calls `check` with every decision on requests of some kind. Returns how many there were.
pub(super) fn every_step_of(kind: fn(&Ask) -> bool, mut check: impl FnMut(&Step)) -> usize {
    let mut steps = 0;
    for world in worlds() {
        let asks: Vec<Ask> = world.asks.iter().filter(|ask| kind(ask)).cloned().collect();
        for before in &world.states {
            for (ask, now) in moments(&asks) {
                let decision = decide(before, ask, now);
                check(&Step {
                    before,
                    ask,
                    now,
                    decision: &decision,
                    after: &after(before, &decision),
                    slots: world.capacities.len() > 1,
                });
                steps += 1;
            }
        }
    }
    steps
}

fn worlds() -> &'static [World] {
    static WORLDS: OnceLock<Vec<World>> = OnceLock::new();
    WORLDS.get_or_init(|| {
        let plain = || World {
            capacities: vec![None],
            modes: Mode::ALL.to_vec(),
            deadlines: vec![SOON, LATE],
            ..World::default()
        };
        let worlds = [
            World {
                name: "a long line",
                sessions: 4,
                ..plain()
            },
            World {
                name: "deaths and breaks",
                sessions: 3,
                deadlines: vec![LATE],
                deaths: true,
                breaks: true,
                ..plain()
            },
            World {
                name: "leases of their own",
                sessions: 3,
                deadlines: vec![LATE],
                leases: true,
                ..plain()
            },
            World {
                name: "slots",
                sessions: 4,
                capacities: vec![None, Some(1), Some(2), Some(3)],
                modes: vec![Mode::Write],
                ..plain()
            },
            World {
                name: "everything, for two",
                sessions: 2,
                deaths: true,
                breaks: true,
                leases: true,
                ..plain()
            },
        ];
        let explored = worlds.into_iter().map(|mut world| {
            world.asks = world.list_asks();
            world.states = world.explore();
            println!("{}: {} states", world.name, world.states.len());
            assert!(world.states.len() > 1000, "{} is too small", world.name);
            world
        });
        explored.collect()
    })
}

impl World {
    fn list_asks(&self) -> Vec<Ask> {
        let mut asks = vec![Ask::Look];
        for name in &NAMES[..self.sessions] {
            // One lease a session is enough, since a session holds a resource once.
            let lease = || LeaseId::parse(name).unwrap();
            let session = || SessionId::parse(name).unwrap();
            let deadlines = self.deadlines.iter().map(|deadline| Wait::Until(*deadline));
            for wait in deadlines.chain([Wait::No]) {
                for (mode, capacity) in self.wants() {
                    asks.push(Ask::Acquire {
                        lease: lease(),
                        session: session(),
                        mode,
                        capacity,
                        wait,
                    });
                }
                asks.push(Ask::Upgrade {
                    lease: lease(),
                    wait,
                });
            }
            asks.push(Ask::Accept(lease()));
            asks.push(Ask::Downgrade(lease()));
            asks.push(Ask::Release(lease()));
            asks.push(Ask::Withdraw(lease()));
            if self.breaks {
                asks.push(Ask::Break(lease()));
            }
            if self.leases {
                asks.extend(times(&lease()));
            }
        }
        asks
    }

    fn wants(&self) -> impl Iterator<Item = (Mode, Option<u32>)> {
        let modes = self.modes.iter();
        modes.flat_map(|mode| self.capacities.iter().map(|capacity| (*mode, *capacity)))
    }

    fn explore(&self) -> Vec<State> {
        let mut seen = HashSet::from([State::default()]);
        let mut todo = VecDeque::from([State::default()]);
        let mut states = Vec::new();
        while let Some(state) = todo.pop_front() {
            let decided =
                moments(&self.asks).map(|(ask, now)| after(&state, &decide(&state, ask, now)));
            let changed = decided.filter_map(|next| match next {
                Cow::Borrowed(_) => None,
                Cow::Owned(next) => Some(next),
            });
            for next in changed.chain(self.events(&state)) {
                let next = spelled(next);
                if seen.insert(next.clone()) {
                    todo.push_back(next);
                }
            }
            states.push(state);
        }
        states
    }

    /// Events that happen without a request: a session dies, a job claims a lease or ends its
    /// claim.
    fn events(&self, state: &State) -> Vec<State> {
        let mut events = Vec::new();
        for (i, holder) in state.holders.iter().enumerate() {
            let mut next = state.clone();
            match &mut next.holders[i].binding {
                // The death of its session does not matter to a lease-bound lease.
                Bound::Session if self.deaths => next.holders[i].life = Life::Dead,
                Bound::Lease { claimed, .. } => *claimed = !*claimed,
                Bound::Session => continue,
            }
            if next.holders[i] != *holder {
                events.push(next);
            }
        }
        for i in 0..state.waiters.len() * usize::from(self.deaths) {
            let mut next = state.clone();
            next.waiters[i].life = Life::Dead;
            events.push(next);
        }
        events
    }
}

fn times(lease: &LeaseId) -> Vec<Ask> {
    let mut asks = Vec::new();
    // The grace may be shorter than the time to live, or longer.
    for (ttl, grace) in [(SHORT, SHORT), (LONG, SHORT), (SHORT, LONG)] {
        let lease = || lease.clone();
        asks.push(Ask::Bind {
            lease: lease(),
            ttl,
            grace,
        });
        asks.push(Ask::Renew {
            lease: lease(),
            ttl,
            grace,
        });
    }
    asks
}

fn moments(asks: &[Ask]) -> impl Iterator<Item = (&Ask, Millis)> {
    asks.iter().flat_map(|ask| MOMENTS.map(|now| (ask, now)))
}

/// Returns the state after a decision. Most decisions change nothing and need no copy.
pub(super) fn after<'a>(before: &'a State, decision: &Decision) -> Cow<'a, State> {
    let mut after = Cow::Borrowed(before);
    for change in &decision.changes {
        after.to_mut().apply(change);
    }
    after
}

/// Returns the state in its one spelling, which ignores what makes no difference to the decision:
/// the names of sessions, the order of holders, and the exact time at which something ends between
/// two moments.
fn spelled(mut state: State) -> State {
    for waiter in &mut state.waiters {
        waiter.deadline = rounded(waiter.deadline);
    }
    for holder in &mut state.holders {
        match &mut holder.state {
            HolderState::Held => {}
            HolderState::Offered { until } | HolderState::Revoking { until } => {
                *until = rounded(*until)
            }
        }
        if let Bound::Lease { expires, stale, .. } = &mut holder.binding {
            *expires = rounded(*expires);
            *stale = rounded(*stale);
        }
    }
    let place = |holder: &Holder| state.waiters.iter().position(|w| w.lease == holder.lease);
    state.holders.sort_by_cached_key(|holder| {
        let facts = (holder.mode, holder.upgraded, holder.state);
        (place(holder), facts, holder.binding, holder.life)
    });
    let sessions = state.waiters.iter().map(|w| &w.session);
    let sessions = sessions.chain(state.holders.iter().map(|h| &h.session));
    let mut names = BTreeMap::new();
    for session in sessions {
        let next = names.len();
        names.entry(session.clone()).or_insert(NAMES[next.min(3)]);
    }
    let lease = |of: &SessionId| LeaseId::parse(names[of]).unwrap();
    for waiter in &mut state.waiters {
        waiter.lease = lease(&waiter.session);
        waiter.session = SessionId::parse(names[&waiter.session]).unwrap();
    }
    for holder in &mut state.holders {
        holder.lease = lease(&holder.session);
        holder.session = SessionId::parse(names[&holder.session]).unwrap();
    }
    state
}

fn rounded(time: Millis) -> Millis {
    let next = MOMENTS.into_iter().find(|moment| time <= *moment);
    next.unwrap_or(Millis::MAX)
}
