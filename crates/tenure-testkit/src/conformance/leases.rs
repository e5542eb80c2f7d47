//! Leases that outlive their session: locked, renewed and released by id.

mod front;
mod left_half_way;
mod permission;
mod time;
mod upgrade;

use std::time::{Duration, SystemTime};

use tenure::{Binding, LeaseState, Mode, Timestamp};

use super::case::{Case, case};
use super::exclusion::shares;
use crate::agent::LONG_WAIT;
use crate::agent::lease_words::LeaseCommand;
use crate::agent::words::{Answer, Command, Kind, Notes};
use crate::stage::{Stage, TTL_LONG};
use front::the_blocking_front_tends_the_same_leases;
use left_half_way::{
    a_lock_dropped_at_any_await_leaves_nothing, a_lock_that_is_dropped_leaves_nothing,
    a_process_killed_while_it_locks_leaves_nothing,
};
use permission::{
    a_released_lease_is_over, an_unknown_lease_is_not_found,
    only_its_owner_tends_a_lease_where_an_owner_is_given,
    the_lock_of_a_session_is_not_ended_by_its_id,
    what_a_guard_has_in_hand_its_owner_takes_over_and_nobody_gets_it_in_between,
};
use time::{
    a_lease_that_was_taken_over_is_over, a_paused_holder_cannot_release_what_was_taken_over,
    an_expired_lease_nobody_took_over_is_renewed_and_released,
    renewing_moves_the_end_and_keeps_the_token,
    the_time_of_a_set_runs_from_when_all_of_it_is_there,
    the_time_to_live_is_between_a_second_and_a_day,
};
use upgrade::{
    a_lease_is_upgraded_and_downgraded_by_its_id,
    an_upgrade_by_id_keeps_to_the_order_of_the_session_that_locked,
    an_upgrade_by_id_waits_for_the_readers, an_upgrade_of_an_expired_lease_is_refused,
    only_an_upgradeable_lease_is_upgraded_by_its_id,
};

pub(super) const CASES: &[Case] = &[
    case!(a_lease_outlives_the_process_that_took_it, Leases),
    case!(a_lease_shows_its_time_and_who_took_it, Leases),
    case!(a_lease_keeps_out_whom_its_mode_keeps_out, Leases),
    case!(the_time_to_live_is_between_a_second_and_a_day, Leases),
    case!(renewing_moves_the_end_and_keeps_the_token, Leases),
    case!(slow an_expired_lease_nobody_took_over_is_renewed_and_released, Leases),
    case!(slow a_lease_that_was_taken_over_is_over, Leases),
    case!(slow a_paused_holder_cannot_release_what_was_taken_over, Leases),
    case!(only_its_owner_tends_a_lease_where_an_owner_is_given, Leases),
    case!(an_unknown_lease_is_not_found, Leases),
    case!(a_released_lease_is_over, Leases),
    case!(the_lock_of_a_session_is_not_ended_by_its_id, Leases),
    case!(
        what_a_guard_has_in_hand_its_owner_takes_over_and_nobody_gets_it_in_between,
        Leases
    ),
    case!(a_release_by_id_calls_who_waits, Leases),
    case!(a_set_is_locked_whole_or_not_at_all, Leases),
    case!(slow the_time_of_a_set_runs_from_when_all_of_it_is_there, Leases),
    case!(a_lock_that_is_dropped_leaves_nothing, Leases),
    case!(a_lock_dropped_at_any_await_leaves_nothing, Leases),
    case!(a_process_killed_while_it_locks_leaves_nothing, Leases),
    case!(a_token_is_good_until_a_later_exclusive_grant, Leases),
    case!(a_lease_is_upgraded_and_downgraded_by_its_id, Leases),
    case!(an_upgrade_by_id_waits_for_the_readers, Leases),
    case!(
        an_upgrade_by_id_keeps_to_the_order_of_the_session_that_locked,
        Leases
    ),
    case!(only_an_upgradeable_lease_is_upgraded_by_its_id, Leases),
    case!(slow an_upgrade_of_an_expired_lease_is_refused, Leases),
    case!(the_blocking_front_tends_the_same_leases, Leases),
];

const SHORT: Duration = Duration::from_millis(30);

fn a_lease_outlives_the_process_that_took_it(stage: &Stage<'_>) {
    for killed in [false, true] {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        let lease = ana.lock("a", Mode::Write, TTL_LONG);
        if killed {
            ana.crash();
        } else {
            assert!(ana.end_of_input().success());
        }
        assert_eq!(stage.shown(), ["ana name:a write"]);
        assert!(bo.try_take("a", Mode::Read).is_none(), "killed: {killed}");
        let wanted = bo.want_for("a", Mode::Write, SHORT);
        assert_eq!(bo.failed(wanted).kind, Kind::Timeout);
        let found = bo.change(LeaseCommand::Find {
            lease: lease.lease.clone(),
        });
        assert_eq!((found.token, found.state), (lease.token, LeaseState::Held));
        bo.release_lease(&lease.lease);
        bo.take("a", Mode::Write);
    }
}

fn a_lease_shows_its_time_and_who_took_it(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    for mode in Mode::ALL {
        let before = Timestamp::from(SystemTime::now());
        let lease = ana.lock("a", mode, TTL_LONG);
        let after = Timestamp::from(SystemTime::now());
        assert_eq!(
            (lease.binding, lease.state),
            (Binding::Lease, LeaseState::Held)
        );
        assert_eq!((lease.mode, &lease.session), (mode, ana.session()));
        assert_eq!((lease.owner.as_str(), lease.pid), ("ana", ana.pid()));
        let expires = lease.expires_at.unwrap();
        assert!(before.after(TTL_LONG) <= expires && expires <= after.after(TTL_LONG));
        assert!(before <= lease.acquired_at && lease.acquired_at <= after);
        assert!(before <= lease.heartbeat_at && lease.heartbeat_at <= after);
        assert_eq!(stage.listed(&lease.lease).as_ref(), Some(&lease));
        ana.release_lease(&lease.lease);
    }
}

fn a_lease_keeps_out_whom_its_mode_keeps_out(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    for held in Mode::ALL {
        for asked in Mode::ALL {
            let lease = ana.lock("a", held, TTL_LONG);
            let got = bo.try_take("a", asked).is_some();
            assert_eq!(got, shares(held, asked), "{asked} while {held}");
            if got {
                bo.release("a");
            }
            ana.release_lease(&lease.lease);
            bo.take("a", asked);
            bo.release("a");
        }
    }
}

fn a_release_by_id_calls_who_waits(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let lease = ana.lock("a", Mode::Write, TTL_LONG);
    let wanted = bo.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let locking = cy.want_lock(&[("a", Mode::Write)], TTL_LONG);
    stage.until_waiting("a", 2);
    ana.release_lease(&lease.lease);
    bo.granted(wanted);
    assert!(cy.answered(locking).is_none());
    bo.release("a");
    let locked = cy.locked(locking);
    assert_eq!(locked[0].binding, Binding::Lease);
    assert_eq!(stage.held(), locked);
    cy.release_lease(&locked[0].lease);
}

fn a_set_is_locked_whole_or_not_at_all(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let items = [
        ("map:m", Mode::Read),
        ("a", Mode::Write),
        ("b", Mode::Upgradeable),
    ];
    bo.take("b", Mode::Write);
    for wait in [Duration::ZERO, SHORT] {
        let asked = ana.want_keyed(&items, TTL_LONG, None, wait);
        let failure = ana.failed(asked);
        assert!(
            matches!(failure.kind, Kind::Busy | Kind::Timeout),
            "{failure:?}"
        );
        assert_eq!(stage.shown(), ["bo name:b write"]);
        assert_eq!(stage.waiting("b"), 0);
    }
    bo.release("b");
    let asked = ana.want_lock(&items, TTL_LONG);
    let leases = ana.locked(asked);
    let shown: Vec<_> = leases
        .iter()
        .map(|lease| (lease.resource.as_str(), lease.mode))
        .collect();
    assert_eq!(
        shown,
        [
            ("map:m", Mode::Read),
            ("name:a", Mode::Write),
            ("name:b", Mode::Upgradeable)
        ]
    );
    for lease in leases {
        assert_eq!(&lease.session, ana.session());
        ana.release_lease(&lease.lease);
    }
}

fn a_token_is_good_until_a_later_exclusive_grant(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let lease = ana.lock("a", Mode::Write, TTL_LONG);
    let good = |bo: &mut crate::agent::Agent| !bo.is_fenced("a", lease.token);
    assert!(good(&mut bo));
    ana.renew(&lease.lease);
    assert!(good(&mut bo));
    ana.release_lease(&lease.lease);
    assert!(good(&mut bo), "nobody came after it");
    for mode in [Mode::Read, Mode::Upgradeable] {
        bo.take("a", mode);
        assert!(good(&mut bo), "{mode} fences nothing");
        bo.release("a");
    }
    bo.take("b", Mode::Write);
    assert!(good(&mut bo), "another resource fences nothing");
    let later = ana.send(Command::Acquire {
        resource: crate::agent::resource("a"),
        mode: Mode::Upgradeable,
        wait: LONG_WAIT,
        notes: Notes::default(),
    });
    ana.granted(later);
    let token = ana.try_upgrade("a").unwrap();
    assert!(!good(&mut bo), "an upgrade is an exclusive grant");
    let answer = bo.on_lease(LeaseCommand::Check {
        resource: crate::agent::resource("a"),
        token,
    });
    assert!(matches!(answer, Answer::Done), "{answer:?}");
}
