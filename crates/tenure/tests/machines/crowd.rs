//! A thousand waiters on one resource.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure_testkit::postgres::Cluster;
use tenure_testkit::tell;

use crate::moment::until;
use crate::process::{LONG, alone};
use crate::worker::{Order, Won, Worker};

const PROCESSES: usize = 4;
const EACH: usize = 250;
const ALL: usize = PROCESSES * EACH;
const TTL: Duration = Duration::from_secs(30);
/// The longest time that the waiters wait.
const WAIT: Duration = Duration::from_secs(300);
/// Long enough for unused connections to be closed.
const QUIET: Duration = Duration::from_secs(30);
/// Long enough for a thousand hand-overs from process to process.
const HANDED_OVER: Duration = Duration::from_secs(90);

#[test]
fn a_thousand_waiters_of_four_processes_wait_at_one_connection_each_and_are_served_in_order() {
    let _alone = alone();
    let database = Cluster::shared().database();
    let mut look = database.session();
    let mut holder = Worker::start(&database, TTL);
    let one = || vec!["crowded".to_owned()];
    holder.take(&Order::Guards { names: one() });
    let mut workers: Vec<Worker> = (0..PROCESSES)
        .map(|_| Worker::start(&database, TTL))
        .collect();
    for worker in &mut workers {
        let order = Order::Wait {
            names: vec!["crowded".to_owned(); EACH],
            wait: WAIT,
            hold: Duration::ZERO,
        };
        worker.tell(&order);
    }
    let count = "SELECT count(*) FROM tenure.waiters";
    until(LONG, "all are in line", || {
        look.run(count) == ALL.to_string()
    });
    let connections = |workers: &[Worker]| -> Vec<usize> {
        workers
            .iter()
            .map(|worker| worker.proxy.connections())
            .collect()
    };
    until(QUIET, "one connection a process", || {
        connections(&workers) == [1; PROCESSES]
    });
    // The waiters stay on that connection for as long as three looks at the line take.
    let quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(3) {
        assert_eq!(connections(&workers), [1; PROCESSES]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let line = look.run("SELECT lock_id FROM tenure.waiters ORDER BY place");
    let line: Vec<&str> = line.lines().collect();
    assert_eq!(line.len(), ALL);

    let began = Instant::now();
    assert_eq!(holder.release(), [""; 0]);
    let end = Instant::now() + HANDED_OVER;
    let mut most = vec![0; PROCESSES];
    while workers.iter().map(|worker| worker.won.len()).sum::<usize>() < ALL {
        assert!(
            Instant::now() < end,
            "not all are served within {HANDED_OVER:?}"
        );
        for (most, worker) in most.iter_mut().zip(&mut workers) {
            *most = worker.proxy.connections().max(*most);
            worker.hear_until(Instant::now() + Duration::from_millis(5));
            assert!(worker.failed.is_empty(), "{:?}", worker.failed);
        }
    }
    let took = began.elapsed();
    assert!(most.iter().all(|most| *most <= 8), "{most:?} connections");
    let mut won: Vec<&Won> = workers.iter().flat_map(|worker| &worker.won).collect();
    won.sort_by_key(|won| won.token);
    let tokens: BTreeSet<u64> = won.iter().map(|won| won.token).collect();
    assert_eq!(tokens.len(), ALL, "a token was drawn twice");
    let served: Vec<&str> = won.iter().map(|won| won.lease.as_str()).collect();
    assert_eq!(served, line, "served in another order than they came");
    assert!(
        won.is_sorted_by_key(|won| won.at),
        "granted in another order than served"
    );
    tell(format!(
        "machines: {ALL} waiters served in {took:?}, at most {most:?} connections"
    ));
}
