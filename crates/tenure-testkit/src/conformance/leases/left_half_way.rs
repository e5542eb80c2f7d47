//! Requests for a set that are given up before all of it is there.

use tenure::leases::LeaseTerms;
use tenure::{IdempotenceKey, LockSet, Mode};

use crate::conformance::cancellation::{poll_times, poll_until_waiting, polls_max};
use crate::stage::{Stage, TTL_LONG, patient, set, until};

pub(super) fn a_lock_that_is_dropped_leaves_nothing(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    bo.take("b", Mode::Write);
    for _ in 0..3 {
        let locking = ana.want_lock(&[("a", Mode::Write), ("b", Mode::Write)], TTL_LONG);
        stage.until_waiting("b", 1);
        assert!(ana.cancel(locking));
        stage.until_waiting("b", 0);
        assert_eq!(stage.shown(), ["bo name:b write"]);
    }
    bo.release("b");
    let lease = ana.lock("b", Mode::Write, TTL_LONG);
    ana.release_lease(&lease.lease);
}

/// Nothing is left of the key of the request, either: it may stand for another request.
pub(super) fn a_lock_dropped_at_any_await_leaves_nothing(stage: &Stage<'_>) {
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let ana = stage.session("ana");
    let both = set(&[("a", Mode::Write), ("b", Mode::Write)]);
    let (first, options) = (set(&[("a", Mode::Read)]), patient());
    bo.take("b", Mode::Write);
    let polls_max = polls_max(stage);
    for polls in 0..polls_max {
        for key in [None, Some(format!("after {polls} polls"))] {
            let key = key.map(|key| IdempotenceKey::parse(&key).unwrap());
            let mut terms = LeaseTerms::default().with_ttl(TTL_LONG);
            terms.key = key;
            let lock = |set: &LockSet| {
                let set = set.clone();
                let (ana, terms, options) = (&ana, &terms, &options);
                async move { stage.keeper().lock(ana, &set, terms, options).await }
            };
            let mut locking = Box::pin(lock(&both));
            let done = stage.block_on(poll_times(&mut locking, polls));
            assert!(done.is_none(), "{done:?}");
            if polls == polls_max - 1 {
                poll_until_waiting(stage, &mut locking, "b");
            }
            // The drop is inside a runtime: the rest of the work about the key may be done there.
            stage.block_on(async { drop(locking) });
            assert_eq!(stage.waiting("b"), 0, "after {polls} polls");
            assert_eq!(stage.shown(), ["bo name:b write"], "after {polls} polls");
            let leases = stage.block_on(lock(&first)).unwrap();
            let released = stage.keeper().release(&leases[0].lease, None);
            stage.block_on(released).unwrap();
        }
    }
}

pub(super) fn a_process_killed_while_it_locks_leaves_nothing(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    bo.take("b", Mode::Write);
    let _never = ana.want_lock(&[("a", Mode::Write), ("b", Mode::Write)], TTL_LONG);
    stage.until_waiting("b", 1);
    let wanted = cy.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    ana.crash();
    cy.granted(wanted);
    until("its place in the line is gone", || stage.waiting("b") == 0);
    assert_eq!(stage.shown(), ["bo name:b write", "cy name:a write"]);
}
