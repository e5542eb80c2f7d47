//! The life of a lease, and its state afterwards.

use std::time::{Duration, Instant, SystemTime};

use tenure::{LeaseState, Mode, Timestamp};
use tenure_core::leases::{TTL_MAX, TTL_MIN};

use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Command, Kind};
use crate::stage::{Stage, TTL_LONG, TTL_SHORT, throughout};

pub(super) fn the_time_to_live_is_between_a_second_and_a_day(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    let moment = Duration::from_millis(1);
    let odd = [
        Duration::ZERO,
        TTL_MIN - moment,
        TTL_MAX + moment,
        Duration::MAX,
    ];
    for ttl in odd {
        let asked = ana.want_lock(&[("a", Mode::Write)], ttl);
        assert_eq!(ana.failed(asked).kind, Kind::BadInput, "{ttl:?}");
        assert_eq!(stage.held(), []);
    }
    for ttl in [TTL_MIN, TTL_MAX] {
        let lease = ana.lock("a", Mode::Write, ttl);
        let renew = odd.map(|ttl| LeaseCommand::Renew {
            lease: lease.lease.clone(),
            ttl: Some(ttl),
            by: None,
        });
        ana.all_refused(Kind::BadInput, renew);
        assert_eq!(
            stage.listed(&lease.lease).unwrap().expires_at,
            lease.expires_at
        );
        ana.release_lease(&lease.lease);
    }
}

pub(super) fn renewing_moves_the_end_and_keeps_the_token(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Write, TTL_LONG);
    // An agent that knows the id renews the lease, with the time it had or with another.
    let mut last = lease.clone();
    for (ttl, lives) in [
        (None, TTL_LONG),
        (Some(TTL_LONG * 2), TTL_LONG * 2),
        (None, TTL_LONG * 2),
        (Some(TTL_LONG / 2), TTL_LONG / 2),
    ] {
        let before = Timestamp::from(SystemTime::now());
        let renewed = bo.change(LeaseCommand::Renew {
            lease: lease.lease.clone(),
            ttl,
            by: None,
        });
        let after = Timestamp::from(SystemTime::now());
        let expires = renewed.expires_at.unwrap();
        assert!(
            before.after(lives) <= expires && expires <= after.after(lives),
            "{ttl:?}: {expires}"
        );
        assert!(renewed.heartbeat_at >= before, "{ttl:?}");
        let kept = |lease: &tenure::Lease| {
            (
                lease.token,
                lease.mode,
                lease.owner.clone(),
                lease.session.clone(),
                lease.acquired_at,
            )
        };
        assert_eq!(kept(&renewed), kept(&last));
        assert_eq!(stage.held(), std::slice::from_ref(&renewed));
        last = renewed;
    }
    ana.release_lease(&lease.lease);
    assert!(bo.take("a", Mode::Write).token > lease.token);
}

pub(super) fn an_expired_lease_nobody_took_over_is_renewed_and_released(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let (kept, given) = (
        ana.lock("a", Mode::Write, TTL_SHORT),
        ana.lock("b", Mode::Write, TTL_SHORT),
    );
    stage.until_expired(&kept.lease);
    stage.until_expired(&given.lease);
    ana.release_lease(&given.lease);
    let renewed = ana.change(LeaseCommand::Renew {
        lease: kept.lease.clone(),
        ttl: Some(TTL_LONG),
        by: None,
    });
    assert_eq!(
        (renewed.state, renewed.token),
        (LeaseState::Held, kept.token)
    );
    assert!(bo.try_take("a", Mode::Read).is_none());
    assert!(!bo.is_fenced("a", kept.token));
    bo.take("b", Mode::Write);
    ana.release_lease(&kept.lease);
}

pub(super) fn a_lease_that_was_taken_over_is_over(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Upgradeable, TTL_SHORT);
    let wanted = bo.want("a", Mode::Write);
    let taken = bo.granted(wanted);
    assert!(taken.token > lease.token);
    ana.all_refused(
        Kind::LeaseOver,
        LeaseCommand::all_of_its_owner(&lease.lease, None),
    );
    // A caller that names its owner gets the same answer.
    ana.all_refused(
        Kind::LeaseOver,
        LeaseCommand::all_of_its_owner(&lease.lease, Some("ana")),
    );
    assert_eq!(stage.shown(), ["bo name:a write"]);
    assert!(ana.is_fenced("a", lease.token) && !ana.is_fenced("a", taken.token));
}

pub(super) fn a_paused_holder_cannot_release_what_was_taken_over(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Write, TTL_SHORT);
    stage.stop(&mut ana);
    let wanted = bo.want("a", Mode::Write);
    let taken = bo.granted(wanted);
    // As far as the holder can know, it asked for this before it stopped.
    let release = ana.send(Command::OnLease(LeaseCommand::release(&lease.lease)));
    let renew = ana.send(Command::OnLease(LeaseCommand::renew(&lease.lease)));
    ana.resume();
    assert_eq!(ana.failed(release).kind, Kind::LeaseOver);
    assert_eq!(ana.failed(renew).kind, Kind::LeaseOver);
    assert!(ana.is_fenced("a", lease.token));
    assert!(!bo.is_fenced("a", taken.token));
    assert_eq!(stage.shown(), ["bo name:a write"]);
}

pub(super) fn the_time_of_a_set_runs_from_when_all_of_it_is_there(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy, mut di] = stage.agents(stage.apart(), ["ana", "bo", "cy", "di"]);
    bo.take("b", Mode::Write);
    let locking = ana.want_lock(&[("a", Mode::Write), ("b", Mode::Write)], TTL_SHORT);
    stage.until_waiting("b", 1);
    let wanted = cy.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    // For twice as long as the lease will live, no other agent takes over the part that is there.
    throughout(TTL_SHORT * 2, || {
        assert!(di.try_take("a", Mode::Read).is_none());
        assert!(cy.answered(wanted).is_none());
        assert!(ana.answered(locking).is_none());
    });
    let complete = (Timestamp::from(SystemTime::now()), Instant::now());
    bo.release("b");
    let leases = ana.locked(locking);
    let ends: Vec<_> = leases
        .iter()
        .map(|lease| lease.expires_at.unwrap())
        .collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0], ends[1]);
    assert!(ends[0] >= complete.0.after(TTL_SHORT), "{ends:?}");
    cy.granted(wanted);
    assert!(complete.1.elapsed() >= TTL_SHORT, "it was taken over early");
    ana.release_lease(&leases[1].lease);
}
