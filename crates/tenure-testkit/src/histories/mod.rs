//! Random histories, compared step by step with a model that knows no store.
//!
//! A history is 20 to 30 steps of four sessions on three resources. The model says what each step
//! must answer, which waiters it grants, and what the list must show. At most one request and one
//! upgrade wait for a resource at a time, so the outcome is certain whatever order a store keeps.
//!
//! Several groups of players play at once, each on a store of its own: most of a history is a wait
//! for an answer.
//!
//! `TENURE_HISTORIES` raises the number of histories, `TENURE_HISTORIES_SEED` repeats a run.

mod model;
mod player;
mod step;
mod tally;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::panic::resume_unwind;
use std::thread;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

use crate::Fixture;
use crate::tell;
use model::{Model, Rules};
use player::Players;
use tally::Tally;

const STEPS: std::ops::RangeInclusive<usize> = 20..=30;

/// The number of groups that play at once.
const GROUPS: u32 = 2;

/// Plays the histories, and prints what they met. It fails at the first that differs from the
/// model, and shows it shrunk, with the seed that repeats it.
pub fn run(fixture: &dyn Fixture) {
    let least = fixture.histories();
    let histories = number("TENURE_HISTORIES").map_or(least, |more| {
        let more = u32::try_from(more).expect("TENURE_HISTORIES is a number of histories");
        more.max(least)
    });
    let seed =
        number("TENURE_HISTORIES_SEED").unwrap_or_else(|| RandomState::new().hash_one("seed"));
    let name = fixture.name();
    tell(format!("histories: {name}: {histories} with seed {seed}"));
    let outcomes: Vec<_> = thread::scope(|scope| {
        let playing: Vec<_> = (0..GROUPS)
            .map(|group| {
                let share = histories / GROUPS + u32::from(group < histories % GROUPS);
                let seed = seed.wrapping_add(group.into());
                scope.spawn(move || play(fixture, share, seed))
            })
            .collect();
        let playing = playing.into_iter();
        playing.map(thread::ScopedJoinHandle::join).collect()
    });
    let mut tally = Tally::default();
    for outcome in outcomes {
        match outcome.unwrap_or_else(|panic| resume_unwind(panic)) {
            Ok(met) => tally.add(&met),
            Err(failure) => panic!(
                "{name} differs from the model; TENURE_HISTORIES_SEED={seed} repeats it\n{failure}"
            ),
        }
    }
    tell(format!("histories: {name}:\n{tally}"));
    tally.assert_complete(histories);
}

/// Plays so many histories, one after the other; returns what they met, or how one failed.
fn play(fixture: &dyn Fixture, histories: u32, seed: u64) -> Result<Tally, String> {
    let config = Config {
        cases: histories,
        failure_persistence: None,
        max_shrink_iters: 300,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let bytes = std::array::from_fn::<u8, 16, _>(|at| seed.to_le_bytes()[at % 8]);
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    // The agents live on from history to history: a child costs more than all its steps.
    let ready: RefCell<Option<Players<'_>>> = RefCell::new(None);
    let tally = RefCell::new(Tally::default());
    let strategy = Rules::sequential_strategy(STEPS);
    let outcome = runner.run(&strategy, |(model, steps, seen)| {
        let kept = ready.borrow_mut().take();
        let mut players = kept.unwrap_or_else(|| Players::new(fixture));
        let mut counted = tally.borrow().clone();
        let played = players.play(model, &steps, seen.as_deref(), &mut counted);
        played.map_err(TestCaseError::fail)?;
        // Only players that played to the end are in a known state.
        ready.replace(Some(players));
        tally.replace(counted);
        Ok(())
    });
    outcome.map_err(|failure| failure.to_string())?;
    Ok(tally.into_inner())
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text:?}")),
    )
}

impl Model {
    fn after(self, step: &step::Step) -> Model {
        Rules::apply(self, step)
    }
}
