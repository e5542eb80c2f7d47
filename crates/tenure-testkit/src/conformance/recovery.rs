//! Stale leases: the moment from which they may be taken over, and the report of it.

use std::time::{Duration, Instant};

use tenure::leases::LeaseTerms;
use tenure::{Binding, Keeper, LeaseState, Mode, Owner, SessionOptions, Settings};
use tenure_core::audit::Action;
use tenure_core::leases::Recovery;

use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::Answer;
use crate::agent::{Agent, LONG_WAIT};
use crate::stage::{Stage, TTL_LONG, TTL_SHORT, in_time, patient, set, throughout, until};

pub(super) const CASES: &[Case] = &[
    case!(slow a_waiter_takes_over_a_stale_lease_within_a_second_and_not_before, Leases),
    case!(slow a_stale_lease_gives_way_to_who_tries, Leases),
    case!(slow a_stale_reader_gives_way_to_an_upgrade, Leases),
    case!(slow a_lease_that_is_renewed_is_not_taken_over, Leases),
    case!(slow a_claimed_lease_is_taken_over_when_its_claimant_dies, Leases),
    case!(slow a_claimed_lease_is_taken_over_when_the_claim_ends, Leases),
    case!(slow an_expired_lease_whose_heartbeat_is_young_is_not_recovered, Leases),
    case!(slow a_lease_is_taken_over_when_its_grace_period_is_over_too, Leases),
    case!(slow recovery_says_what_it_would_do_and_then_does_it, Leases),
    case!(slow recovery_says_who_claims_a_lease, Leases),
    case!(a_lease_in_its_time_is_not_recovered, Leases),
    case!(slow a_recovery_is_in_the_audit, Leases),
    case!(slow the_lock_of_a_stopped_session_is_not_recovered, Leases),
    case!(the_lock_of_a_dead_session_is_ended_and_audited, Leases),
];

/// The longest time from the moment at which a takeover is allowed to its end (rule 9).
const TAKEOVER_MAX: Duration = Duration::from_secs(1);

fn a_waiter_takes_over_a_stale_lease_within_a_second_and_not_before(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    in_time("taking over", TAKEOVER_MAX, || {
        let before = Instant::now();
        let lease = ana.lock("a", Mode::Write, TTL_SHORT);
        let after = Instant::now();
        let taken = {
            let wanted = bo.want("a", Mode::Write);
            bo.granted(wanted)
        };
        assert!(before.elapsed() >= TTL_SHORT, "{:?}", before.elapsed());
        let late = after.elapsed().saturating_sub(TTL_SHORT);
        assert!(taken.token > lease.token);
        assert_eq!(stage.shown(), ["bo name:a write"]);
        bo.release("a");
        late
    });
}

fn a_stale_lease_gives_way_to_who_tries(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    for (held, asked) in [(Mode::Write, Mode::Read), (Mode::Read, Mode::Write)] {
        let before = Instant::now();
        let lease = ana.lock("a", held, TTL_SHORT);
        until("it is taken over", || bo.try_take("a", asked).is_some());
        assert!(before.elapsed() >= TTL_SHORT, "{:?}", before.elapsed());
        assert_eq!(stage.shown(), [format!("bo name:a {asked}")]);
        assert!(stage.listed(&lease.lease).is_none());
        bo.release("a");
    }
}

fn a_stale_reader_gives_way_to_an_upgrade(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let before = Instant::now();
    ana.lock("a", Mode::Read, TTL_SHORT);
    bo.take("a", Mode::Upgradeable);
    let upgrade = bo.want_upgrade("a", LONG_WAIT);
    bo.upgraded(upgrade);
    assert!(before.elapsed() >= TTL_SHORT, "{:?}", before.elapsed());
    assert_eq!(stage.shown(), ["bo name:a write"]);
}

fn a_lease_that_is_renewed_is_not_taken_over(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    // This is long enough that a machine that stands still for a moment does not make the lease
    // stale.
    let ttl = TTL_SHORT * 2;
    let lease = ana.lock("a", Mode::Write, ttl);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    throughout(ttl * 2, || {
        assert_eq!(ana.renew(&lease.lease).token, lease.token);
        assert!(cy.try_take("a", Mode::Read).is_none());
        assert!(bo.answered(wanted).is_none());
    });
    ana.release_lease(&lease.lease);
    bo.granted(wanted);
}

/// Makes a stale lease of `ana` that a claim of `job` protects from `bo`.
fn claimed(stage: &Stage<'_>, [ana, bo, job]: [&mut Agent; 3]) -> tenure::Lease {
    let lease = ana.lock("a", Mode::Write, TTL_SHORT);
    job.claim(&lease.lease, "job:7");
    stage.until_expired(&lease.lease);
    // In this time the grace period ends, too.
    throughout(TTL_SHORT, || {
        assert!(bo.try_take("a", Mode::Read).is_none());
    });
    assert_eq!(
        stage.listed(&lease.lease).unwrap().state,
        LeaseState::Expired
    );
    lease
}

fn a_claimed_lease_is_taken_over_when_its_claimant_dies(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut job] = stage.agents(stage.apart(), ["ana", "bo", "job:7"]);
    let lease = claimed(stage, [&mut ana, &mut bo, &mut job]);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    assert!(bo.answered(wanted).is_none());
    job.crash();
    assert!(bo.granted(wanted).token > lease.token);
}

fn a_claimed_lease_is_taken_over_when_the_claim_ends(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut job] = stage.agents(stage.apart(), ["ana", "bo", "job:7"]);
    let lease = claimed(stage, [&mut ana, &mut bo, &mut job]);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    job.do_on_lease(LeaseCommand::Unclaim {
        lease: lease.lease,
        claimant: "job:7".into(),
    });
    bo.granted(wanted);
}

/// Takes `a` for the shortest time, with a set grace period.
fn lock_with_grace(stage: &Stage<'_>, grace: Duration) -> tenure::Lease {
    stage.block_on(async {
        let settings = Settings::default().with_stale_grace(grace);
        let keeper = Keeper::open_with(stage.url(), settings).await.unwrap();
        let options = SessionOptions::new(Owner::parse("ana").unwrap());
        let session = keeper.session(options);
        let (set, terms) = (
            set(&[("a", Mode::Write)]),
            LeaseTerms::default().with_ttl(TTL_SHORT),
        );
        let locked = keeper.lock(&session, &set, &terms, &patient()).await;
        locked.unwrap().remove(0)
    })
}

fn an_expired_lease_whose_heartbeat_is_young_is_not_recovered(stage: &Stage<'_>) {
    // The agent that recovers has no grace period of its own: the lease has it.
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let lease = lock_with_grace(stage, TTL_LONG);
    stage.until_expired(&lease.lease);
    for recovery in [Recovery::DryRun, Recovery::Real] {
        let found = stage.recover_one(recovery, &lease.lease).unwrap();
        assert!(found.expired && !found.heartbeat_old, "{found:?}");
        assert!(!found.recoverable && !found.recovered, "{found:?}");
        assert!(found.reason.contains("heartbeat"), "{}", found.reason);
    }
    assert!(bo.try_take("a", Mode::Read).is_none());
    let wanted = bo.want_for("a", Mode::Write, Duration::from_millis(50));
    bo.failed(wanted);
    bo.release_lease(&lease.lease);
}

fn a_lease_is_taken_over_when_its_grace_period_is_over_too(stage: &Stage<'_>) {
    let grace = TTL_SHORT * 3;
    let [mut bo] = stage.agents(stage.apart(), ["bo"]);
    let before = Instant::now();
    lock_with_grace(stage, grace);
    let wanted = bo.want("a", Mode::Write);
    bo.granted(wanted);
    assert!(before.elapsed() >= grace, "{:?}", before.elapsed());
    let entries = stage.audit_of("a");
    let recovered = entries.iter().find(|one| one.action == Action::Recover);
    let reason = recovered.and_then(|entry| entry.reason.clone()).unwrap();
    assert!(reason.contains("heartbeat"), "{reason}");
}

fn recovery_says_what_it_would_do_and_then_does_it(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let stale = ana.lock("a", Mode::Write, TTL_SHORT);
    let good = ana.lock("b", Mode::Write, TTL_LONG);
    until("it may be recovered", || {
        let found = stage.recover_one(Recovery::DryRun, &stale.lease);
        found.is_some_and(|found| found.recoverable)
    });
    for _ in 0..2 {
        let found = stage.recover_one(Recovery::DryRun, &stale.lease).unwrap();
        assert!(found.expired && found.heartbeat_old && found.recoverable);
        assert_eq!((found.claimed_by.as_ref(), found.recovered), (None, false));
        assert!(!found.reason.is_empty());
        assert_eq!(stage.shown(), ["ana name:a write", "ana name:b write"]);
    }
    let Answer::Told { list } = bo.on_lease(LeaseCommand::Recover) else {
        panic!("it recovers");
    };
    let list = list.as_array().unwrap();
    let found = list
        .iter()
        .find(|found| found["lease"] == stale.lease.as_str());
    let found = found.expect("it is told of");
    assert_eq!(
        (&found["recoverable"], &found["recovered"]),
        (&true.into(), &true.into())
    );
    assert_eq!(stage.shown(), ["ana name:b write"]);
    let again = stage.recover(Recovery::Real);
    assert!(again.iter().all(|found| !found.recovered), "{again:?}");
    ana.release_lease(&good.lease);
}

fn recovery_says_who_claims_a_lease(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut job] = stage.agents(stage.apart(), ["ana", "bo", "job:7"]);
    let lease = claimed(stage, [&mut ana, &mut bo, &mut job]);
    for recovery in [Recovery::DryRun, Recovery::Real] {
        let found = stage.recover_one(recovery, &lease.lease).unwrap();
        assert!(found.expired && found.heartbeat_old, "{found:?}");
        assert_eq!(found.claimed_by.as_deref(), Some("job:7"));
        assert!(!found.recoverable && !found.recovered, "{found:?}");
        assert!(found.reason.contains("job:7"), "{}", found.reason);
        assert!(stage.listed(&lease.lease).is_some());
    }
    job.crash();
    until("its claimant is proved dead", || {
        let found = stage.recover_one(Recovery::Real, &lease.lease);
        found.is_some_and(|found| found.recovered && found.claimed_by.is_none())
    });
    bo.take("a", Mode::Write);
}

fn a_lease_in_its_time_is_not_recovered(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Write, TTL_LONG);
    bo.take("b", Mode::Write);
    for recovery in [Recovery::DryRun, Recovery::Real] {
        let found = stage.recover(recovery);
        let taken = found
            .iter()
            .find(|found| found.recoverable || found.recovered);
        assert!(taken.is_none(), "{taken:?}");
        assert_eq!(stage.shown(), ["ana name:a write", "bo name:b write"]);
    }
    ana.release_lease(&lease.lease);
}

/// A recovery is in the audit after a takeover by a request, and after a plain recovery.
fn a_recovery_is_in_the_audit(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let taken_over = ana.lock("a", Mode::Write, TTL_SHORT);
    let recovered = ana.lock("b", Mode::Write, TTL_SHORT);
    let wanted = bo.want("a", Mode::Write);
    let taken = bo.granted(wanted);
    until("it is recovered", || {
        let found = stage.recover_one(Recovery::Real, &recovered.lease);
        found.is_some_and(|found| found.recovered)
    });
    for (name, lease, next) in [("a", &taken_over, Some(&taken)), ("b", &recovered, None)] {
        let entries = stage.audit_of(name);
        let at = entries
            .iter()
            .position(|entry| entry.action == Action::Recover);
        let at = at.unwrap_or_else(|| panic!("{name}: no recovery in {entries:?}"));
        let entry = &entries[at];
        assert_eq!(
            (entry.lease.as_ref(), entry.token),
            (Some(&lease.lease), Some(lease.token))
        );
        assert_eq!(entry.owner.as_str(), "ana");
        let reason = entry.reason.as_deref().unwrap();
        assert!(reason.starts_with("expired"), "{reason}");
        // The grace period is no longer than the time of the lease, and decided nothing.
        assert!(!reason.contains("heartbeat"), "{reason}");
        // The recovery is written before the next holder has the lock.
        let granted = entries[at + 1..]
            .iter()
            .filter_map(|entry| Some((entry.action, entry.lease.as_ref()?)));
        let granted: Vec<_> = granted
            .filter(|(action, _)| *action == Action::Acquire)
            .collect();
        let expected: Vec<_> = next
            .iter()
            .map(|next| (Action::Acquire, &next.lease))
            .collect();
        assert_eq!(granted, expected, "{name}");
    }
    let by_admin = &stage.audit_of("b")[1];
    assert_eq!(by_admin.actor.as_str(), "admin");
}

fn the_lock_of_a_stopped_session_is_not_recovered(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.take("a", Mode::Write);
    stage.stop(&mut ana);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let check = stage.capabilities().check_every.unwrap_or_default();
    throughout(check * 3, || {
        let found = stage.recover_one(Recovery::Real, &lease.lease);
        assert!(found.is_none_or(|found| !found.recoverable && !found.recovered));
        assert!(bo.answered(wanted).is_none());
    });
    let listed = stage.listed(&lease.lease).unwrap();
    assert_eq!(
        (listed.binding, listed.state),
        (stage.binding(), LeaseState::Held)
    );
    ana.resume();
    ana.release("a");
    bo.granted(wanted);
}

fn the_lock_of_a_dead_session_is_ended_and_audited(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let (waited_for, left) = (ana.take("a", Mode::Write), ana.take("b", Mode::Write));
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    ana.crash();
    bo.granted(wanted);
    // No request waits for `b`: recovery ends its lease, and so does the next request.
    stage.recover(Recovery::Real);
    stage.take_from_the_dead(&mut cy, "b", Mode::Write);
    for (name, lease) in [("a", &waited_for), ("b", &left)] {
        let next = if name == "a" {
            "acquire bo"
        } else {
            "acquire cy"
        };
        let ended = match stage.binding() {
            Binding::Session => "session_ended ana",
            Binding::Lease => "recover ana",
        };
        let expected = ["acquire ana", ended, next];
        assert_eq!(stage.recorded(name), expected);
        let ended = &stage.audit_of(name)[1];
        let ended_as = (ended.lease.as_ref(), ended.token);
        assert_eq!(ended_as, (Some(&lease.lease), Some(lease.token)));
    }
}
