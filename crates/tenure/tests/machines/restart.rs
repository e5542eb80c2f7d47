//! The server is restarted under holders and waiters.

use std::time::{Duration, Instant};

use tenure_testkit::postgres::{Cluster, Settings, Stop};

use crate::moment::{now, until};
use crate::process::alone;
use crate::worker::{Order, Worker, names};

/// Longer than a restart takes.
const TTL: Duration = Duration::from_secs(12);
const EACH: usize = 10;
/// A wait that ends after the restart, with nothing granted.
const SHORT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(120);
/// The time within which every process finds the server again.
const FOUND: Duration = Duration::from_secs(15);

#[test]
fn a_fast_restart_costs_no_lease_and_no_place_in_line() {
    restart(Stop::Fast);
}

#[test]
fn a_crash_of_the_server_costs_no_lease_and_no_place_in_line() {
    restart(Stop::Crash);
}

fn restart(how: Stop) {
    let _alone = alone();
    let mut cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    let mut holder = Worker::start(&database, TTL);
    let guarded = names("guarded", EACH);
    holder.take(&Order::Guards {
        names: guarded.clone(),
    });
    holder.take(&Order::Leases {
        names: names("leased", EACH),
        ttl: TTL,
    });
    let mut waiter = Worker::start(&database, TTL);
    let wait = |wait| Order::Wait {
        names: guarded.clone(),
        wait,
        hold: Duration::ZERO,
    };
    waiter.tell(&wait(LONG));
    waiter.tell(&wait(SHORT));
    let in_line = |count: usize| {
        let seen = database.psql("SELECT count(*) FROM tenure.waiters");
        seen == count.to_string()
    };
    until(FOUND, "all are in line", || in_line(2 * EACH));
    let leases = "SELECT lock_id, token FROM tenure.dal_locks ORDER BY lock_id";
    let before = database.psql(leases);

    cluster.restart(how);
    let (back, began) = (now(), Instant::now());
    // Every lease is renewed by the server that runs now.
    let renewed = "SELECT count(*) FROM tenure.dal_locks \
                   WHERE heartbeat_ts > pg_postmaster_start_time() AND state = 'held'";
    until(TTL, "all leases are renewed", || {
        database.psql(renewed) == (2 * EACH).to_string()
    });
    assert_eq!(database.psql(leases), before, "a lease was lost");
    let mut states = holder.look();
    until(FOUND, "all guards hold", || {
        states = holder.look();
        states.held == EACH
    });
    assert_eq!((states.unknown, states.lost), (0, 0));
    assert!(
        states
            .renewed
            .values()
            .all(|at| at.is_some_and(|at| at > back)),
        "{states:?}"
    );

    // Waits with a short limit give up when it is over, and not before.
    waiter.ended(EACH, SHORT + FOUND);
    assert!(waiter.won.is_empty(), "{:?}", waiter.won);
    for (name, class, waited) in &waiter.failed {
        assert_eq!(class, "busy", "{name}");
        assert!(*waited >= SHORT, "{name} gave up after {waited:?}");
        assert!(*waited < SHORT + FOUND, "{name} gave up after {waited:?}");
    }
    until(FOUND, "the others are in line", || in_line(EACH));
    assert_eq!(holder.release(), [""; 0]);
    waiter.ended(2 * EACH, FOUND);
    assert_eq!(waiter.won.len(), EACH, "{:?}", waiter.failed);
    assert!(began.elapsed() < LONG / 2);
}
