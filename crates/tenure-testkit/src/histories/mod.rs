//! Random histories, compared step by step with a model that knows no store.
//!
//! A history is 20 to 30 steps of four sessions on three resources. The model says what
//! each step must answer, who of those waiting is granted by it, and what the list must show.
//! At most one request and one upgrade wait for a resource at a time, so the outcome is
//! certain whatever order a store keeps.
//!
//! `TENURE_HISTORIES` raises their number, `TENURE_HISTORIES_SEED` repeats a run.

mod model;
mod player;
mod step;
mod tally;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

use crate::Fixture;
use crate::tell::tell;
use model::{Model, Rules};
use player::Troupe;
use tally::Tally;

const STEPS: std::ops::RangeInclusive<usize> = 20..=30;

/// Plays the histories, prints what they met, and fails at the first that differs from the
/// model, shrunk, with the seed that repeats it.
pub fn run(fixture: &dyn Fixture) {
    let least = fixture.histories();
    let histories = number("TENURE_HISTORIES").map_or(least, |more| {
        let more = u32::try_from(more).expect("TENURE_HISTORIES is a number of histories");
        more.max(least)
    });
    let seed = number("TENURE_HISTORIES_SEED");
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    let name = fixture.name();
    tell(format!("histories: {name}: {histories} with seed {seed}"));
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
    let troupe: RefCell<Option<Troupe<'_>>> = RefCell::new(None);
    let tally = RefCell::new(Tally::default());
    let strategy = Rules::sequential_strategy(STEPS);
    let outcome = runner.run(&strategy, |(model, steps, seen)| {
        let kept = troupe.borrow_mut().take();
        let mut players = kept.unwrap_or_else(|| Troupe::new(fixture));
        let mut counted = tally.borrow().clone();
        let played = players.play(model, &steps, seen.as_deref(), &mut counted);
        played.map_err(TestCaseError::fail)?;
        // Only a troupe that played to the end is in a state that is known.
        troupe.replace(Some(players));
        tally.replace(counted);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{name} differs from the model; TENURE_HISTORIES_SEED={seed} repeats it\n{failure}");
    }
    let tally = tally.into_inner();
    tell(format!("histories: {name}:\n{tally}"));
    tally.assert_complete();
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
