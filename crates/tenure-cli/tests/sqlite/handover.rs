//! The instant of the grant: waiters killed, stopped and interrupted in it, and dead holders.

use std::thread;
use std::time::{Duration, Instant};

use tenure_testkit::stage::in_time;

use crate::broken_offer;
use crate::holder::Holder;
use crate::process::{
    Process, TELL, assert_nothing_is_left, field, held, timed, until_in_line, waiting,
};
use crate::world::{World, code, signal, signal_group, text, until};

/// Makes a holder of x, a first waiter that is stopped, and a second waiter.
fn first_in_line_is_stopped(world: &World) -> (String, Process, Process) {
    let lease = world.lock(["x", "--ttl", "1h"]);
    let first = Process::in_line(world, "x", "first");
    let second = Process::in_line(world, "x", "second");
    signal(first.id(), libc::SIGSTOP);
    until("the first is stopped", || {
        crate::world::state(first.id()) == Some('T')
    });
    (lease, first, second)
}

fn until_offered(world: &World) {
    until("it is offered to the first", || {
        let held = held(world);
        held.len() == 1 && held[0]["owner"] == "first" && held[0]["state"] == "offered"
    });
}

#[test]
fn a_waiter_killed_when_its_offer_is_made_is_passed_over_within_a_second() {
    in_time("passing on", Duration::from_secs(1), || {
        let world = World::new();
        let (lease, first, second) = first_in_line_is_stopped(&world);
        assert_eq!(code(&world.call(["release", &lease])), 0);
        until_offered(&world);
        signal(first.id(), libc::SIGKILL);
        let (_, took) = timed(|| second.token());
        drop(first);
        assert_nothing_is_left(&world);
        took
    });
}

#[test]
fn a_waiter_stopped_when_its_offer_is_made_is_passed_over_after_five_seconds_and_waits_again() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h"]);
    let first = Process::in_line(&world, "x", "first");
    let run = ["run", "--wait", "60s", "--owner", "second", "x"];
    let gate = world.path("gate");
    let script = format!(
        "echo $TENURE_TOKEN; until [ -e {} ]; do sleep 0.02; done",
        gate.display()
    );
    let second = Process::tenure(&world, run.into_iter().chain(["--", "sh", "-c", &script]));
    until_in_line(&world, "second");
    signal(first.id(), libc::SIGSTOP);
    until("the first is stopped", || {
        crate::world::state(first.id()) == Some('T')
    });
    let began = Instant::now();
    assert_eq!(code(&world.call(["release", &lease])), 0);
    until_offered(&world);
    until("the second has it", || {
        let held = held(&world);
        held.iter()
            .any(|lease| lease["owner"] == "second" && lease["state"] == "held")
    });
    let took = began.elapsed();
    assert!(took > Duration::from_secs(4), "{took:?}");
    assert!(took < Duration::from_secs(7), "{took:?}");
    signal(first.id(), libc::SIGCONT);
    until_in_line(&world, "first");
    assert_eq!(held(&world).len(), 1, "one writer");
    std::fs::write(&gate, "").unwrap();
    let (second, first) = (second.token(), first.token());
    assert!(first > second, "{first} after {second}");
    assert_nothing_is_left(&world);
}

#[test]
fn a_run_whose_offer_a_person_breaks_ends_with_79_and_starts_nothing() {
    let world = World::new();
    broken_offer::ends_run_with_who_broke_it_and_why(&world);
    assert_nothing_is_left(&world);
}

#[test]
fn a_waiter_interrupted_in_the_instant_of_its_grant_leaves_nothing() {
    let world = World::new();
    // The delay goes up when the interrupt came too early, and down when it came too late, so it
    // stays around the instant.
    let mut delay = Duration::from_millis(20);
    let mut step = Duration::from_millis(8);
    let (mut interrupted, mut granted) = (0, 0);
    for _ in 0..40 {
        let lease = world.lock(["x", "--ttl", "1h"]);
        let wait = [
            "lock", "x", "--wait", "60s", "--ttl", "1h", "--owner", "waiter",
        ];
        let waiter = Process::tenure(&world, wait);
        until_in_line(&world, "waiter");
        let release = Process::tenure(&world, ["release", &lease]);
        thread::sleep(delay);
        signal(waiter.id(), libc::SIGINT);
        assert_eq!(code(&release.end()), 0);
        let output = waiter.end();
        let held = held(&world);
        match output.status.code() {
            Some(0) => {
                granted += 1;
                assert_eq!(held.len(), 1, "{held:?}");
                assert_eq!(field(&held[0], "lease"), text(&output.stdout).trim());
                assert_eq!(code(&world.call(["release", &field(&held[0], "lease")])), 0);
                delay = delay.saturating_sub(step);
            }
            // Nothing is printed and nothing held. The waiter may die of the signal as it ends.
            _ => {
                interrupted += 1;
                assert_eq!(code(&output), 130, "{output:?}");
                assert!(output.stdout.is_empty(), "{output:?}");
                assert!(held.is_empty(), "{held:?}");
                delay += step;
            }
        }
        step = step.mul_f64(0.9);
        assert!(waiting(&world).is_empty());
        assert!(world.is_free("x"));
    }
    println!("{interrupted} interrupted, {granted} granted");
    assert_nothing_is_left(&world);
}

#[test]
fn a_dead_holder_is_replaced_within_a_second() {
    in_time("passing on", Duration::from_secs(1), || {
        let world = World::new();
        let mut holder = Holder::start(&world, ["x"]);
        let next = Process::in_line(&world, "x", "next");
        let (token, took) = timed(|| {
            holder.signal_run(libc::SIGKILL);
            signal_group(holder.command, libc::SIGKILL);
            next.token()
        });
        holder.wait();
        assert!(token > 0);
        let ended = world.json(["audit", "--resource", "x"]);
        let entries = ended["entries"].as_array().unwrap();
        assert!(
            entries
                .iter()
                .any(|entry| entry["action"] == "session_ended"),
            "{entries:?}"
        );
        let again = world.call(["run", "--no-wait", "x"].into_iter().chain(TELL));
        assert_eq!(code(&again), 0);
        took
    });
}
