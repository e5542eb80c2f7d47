//! Waits that run out.

use std::time::{Duration, Instant};

use tenure::{Error, Keeper, Mode, Options, Settings};

use super::case::{Case, case};
use crate::agent::resource;
use crate::agent::words::{Answer, Kind};
use crate::stage::{Stage, patient, set, wait};

pub(super) const CASES: &[Case] = &[
    case!(a_timeout_says_what_was_waited_for_how_long_and_who_holds_it),
    case!(a_wait_of_zero_is_busy_and_says_who_holds_it),
    case!(a_wait_that_ran_out_leaves_neither_lock_nor_waiter),
    case!(a_timeout_in_the_instant_of_the_grant_leaves_no_phantom),
    case!(a_set_has_one_deadline),
    case!(a_request_that_does_not_say_how_long_waits_as_the_settings_say),
];

const SHORT: Duration = Duration::from_millis(30);

fn a_timeout_says_what_was_waited_for_how_long_and_who_holds_it(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let bo = stage.session("bo");
    let a = resource("a");
    for (held, asked) in [(Mode::Write, Mode::Read), (Mode::Read, Mode::Write)] {
        let lease = ana.take("a", held);
        let began = Instant::now();
        let error = stage.block_on(bo.acquire(&a, asked, &wait(SHORT)));
        let took = began.elapsed();
        let error = error.unwrap_err();
        let Error::Timeout {
            context,
            waited,
            limit,
            attempts,
            holders,
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((&context.resource, context.mode), (&a, asked));
        assert_eq!(context.store, stage.keeper().url());
        let store = tenure::internal::store(stage.keeper());
        assert_eq!(context.location, store.location_of(&a));
        assert_eq!(*limit, SHORT);
        assert!(
            SHORT <= *waited && *waited <= took,
            "{waited:?} of {took:?}"
        );
        assert!(*attempts >= 1);
        let ids: Vec<_> = holders.iter().map(|holder| &holder.lease).collect();
        assert_eq!(ids, [&lease.lease]);
        assert_eq!(holders[0].pid, ana.pid());
        let message = error.to_string();
        assert!(
            message.contains("name:a") && message.contains("ana"),
            "{message}"
        );
        ana.release("a");
    }
}

fn a_wait_of_zero_is_busy_and_says_who_holds_it(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let bo = stage.session("bo");
    let a = resource("a");
    let lease = ana.take("a", Mode::Write);
    let error = stage.block_on(bo.acquire(&a, Mode::Write, &wait(Duration::ZERO)));
    let error = error.unwrap_err();
    let Error::Busy { context, holders } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(context.resource, a);
    let ids: Vec<_> = holders.iter().map(|holder| &holder.lease).collect();
    assert_eq!(ids, [&lease.lease]);
    ana.release("a");
    drop(
        stage
            .block_on(bo.acquire(&a, Mode::Write, &wait(Duration::ZERO)))
            .unwrap(),
    );
}

fn a_wait_that_ran_out_leaves_neither_lock_nor_waiter(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo, mut cy] = stage.agents(*placement, ["ana", "bo", "cy"]);
        for asked in Mode::ALL {
            ana.take("a", Mode::Write);
            let wanted = bo.want_for("a", asked, SHORT);
            assert_eq!(bo.failed(wanted).kind, Kind::Timeout, "{placement:?}");
            assert_eq!(stage.waiting("a"), 0);
            assert_eq!(stage.shown(), ["ana name:a write"]);
            ana.release("a");
            // No request is before cy in any line, and bo does not come to hold the lock later.
            cy.take("a", Mode::Write);
            assert_eq!(stage.shown(), ["cy name:a write"]);
            cy.release("a");
            bo.take("a", asked);
            bo.release("a");
        }
    }
}

/// The release comes before, at and after the deadline of the waiter: at the ends of the sweep the
/// outcome is certain, in the middle both happen in one instant.
fn a_timeout_in_the_instant_of_the_grant_leaves_no_phantom(stage: &Stage<'_>) {
    const ROUNDS: u32 = 120;
    let wait = stage.wait_of(Duration::from_millis(2), Duration::from_millis(60));
    for placement in stage.placements() {
        let [mut ana, mut bo, mut cy] = stage.agents(*placement, ["ana", "bo", "cy"]);
        let (mut granted, mut timed_out) = (0, 0);
        for round in 0..ROUNDS {
            ana.take("a", Mode::Write);
            let asked = [Mode::Write, Mode::Read][round as usize % 2];
            let began = Instant::now();
            let wanted = bo.want_for("a", asked, wait);
            let release_after = wait * 2 * round / ROUNDS;
            spin_until(began + release_after);
            if round == ROUNDS - 1 {
                // The end of this round is waited for, so that one round is a timeout on any
                // machine.
                assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
                ana.release("a");
                timed_out += 1;
                continue;
            }
            ana.release("a");
            match bo.answer(wanted) {
                Answer::Granted { .. } => {
                    granted += 1;
                    assert!(cy.try_take("a", Mode::Write).is_none(), "{placement:?}");
                    assert_eq!(stage.shown(), [format!("bo name:a {asked}")]);
                    bo.release("a");
                }
                Answer::Failed(failure) => {
                    timed_out += 1;
                    assert_eq!(failure.kind, Kind::Timeout, "{failure:?}");
                }
                other => panic!("{other:?}"),
            }
            cy.take("a", Mode::Write);
            cy.release("a");
        }
        assert!(granted > 0 && timed_out > 0, "{granted} {timed_out}");
    }
}

/// Returns at an instant, as exactly as the machine can. It sleeps until shortly before.
fn spin_until(instant: Instant) {
    const SHORTLY: Duration = Duration::from_millis(1);
    let left = instant.saturating_duration_since(Instant::now());
    std::thread::sleep(left.saturating_sub(SHORTLY));
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}

fn a_set_has_one_deadline(stage: &Stage<'_>) {
    // A busy machine may be late by half of this.
    let allowed = Duration::from_secs(2);
    let [mut ana, mut cy] = stage.agents(stage.apart(), ["ana", "cy"]);
    let bo = stage.session("bo");
    ana.take("b", Mode::Write);
    cy.take("c", Mode::Write);
    let wanted = set(&[("a", Mode::Write), ("b", Mode::Write), ("c", Mode::Write)]);
    let began = Instant::now();
    let asking = stage.runtime().spawn({
        let bo = bo.clone();
        async move { bo.acquire_many(&wanted, &wait(allowed)).await }
    });
    // Half of the time goes to b, so only the other half is left for c.
    stage.until_waiting("b", 1);
    spin_until(began + allowed / 2);
    ana.release("b");
    let error = stage.block_on(asking).unwrap().unwrap_err();
    let took = began.elapsed();
    let Error::Timeout { context, limit, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!((&context.resource, *limit), (&resource("c"), allowed));
    assert!(took >= allowed && took < allowed * 3 / 2, "{took:?}");
    assert_eq!(stage.shown(), ["cy name:c write"]);
}

fn a_request_that_does_not_say_how_long_waits_as_the_settings_say(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let settings = Settings::default().with_wait(SHORT);
    let keeper = Keeper::from_store(tenure::internal::store(stage.keeper()).clone(), settings);
    let options = tenure::SessionOptions::new(tenure::Owner::parse("bo").unwrap());
    let bo = keeper.session(options);
    let a = resource("a");
    ana.take("a", Mode::Write);
    let error = stage.block_on(bo.acquire(&a, Mode::Write, &Options::default()));
    let error = error.unwrap_err();
    assert!(
        matches!(&error, Error::Timeout { limit, .. } if *limit == SHORT),
        "{error:?}"
    );
    ana.release("a");
    drop(
        stage
            .block_on(bo.acquire(&a, Mode::Write, &patient()))
            .unwrap(),
    );
}
