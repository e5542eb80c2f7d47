//! Clocks that are wrong, and a machine that slept.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::holder::Holder;
use crate::process::{TELL, field, held, take, token};
use crate::world::{World, code, json, text};

/// Runs `tenure ARGUMENTS` with a wrong wall clock.
///
/// A `faketime` that was killed leaves a semaphore named after its process id. A later one with
/// this id ends before it starts anything, and is then started again.
fn at<'a>(world: &World, offset: &str, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new("faketime");
    world.prepare(&mut command);
    command.args(["-f", offset, env!("CARGO_BIN_EXE_tenure")]);
    command.args(arguments);
    for _ in 0..9 {
        let output = command.output().unwrap();
        if !output.stderr.starts_with(b"faketime: sem_open") {
            return output;
        }
    }
    command.output().unwrap()
}

/// Runs `tenure ARGUMENTS` as after an hour of sleep.
fn after_sleep<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new("unshare");
    world.prepare(&mut command);
    command.args(["--time", "--boottime", "3600", "--fork"]);
    command.arg(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).output().unwrap()
}

const WRONG: [&str; 2] = ["+1h", "-1h"];

#[test]
fn an_unexpired_lease_is_not_taken_over_by_a_clock_an_hour_off() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "10m"]);
    for offset in WRONG {
        assert_eq!(code(&at(&world, offset, ["lock", "x", "--no-wait"])), 75);
        assert_eq!(code(&at(&world, offset, ["recover"])), 0);
        let listed = json(&at(&world, offset, ["ls", "--json"]).stdout);
        assert_eq!(listed["held"][0]["lease"], lease.as_str());
        assert_eq!(listed["held"][0]["state"], "held", "{offset}");
    }
    // The other way round, the clock is off when the lock is taken, and right when it is wanted.
    for (name, offset) in ["y", "z"].into_iter().zip(WRONG) {
        let taken = at(&world, offset, ["lock", name, "--ttl", "10m"]);
        assert_eq!(code(&taken), 0, "{taken:?}");
        assert_eq!(code(&world.call(["lock", name, "--no-wait"])), 75);
    }
    assert_eq!(code(&world.call(["recover"])), 0);
    assert_eq!(held(&world).len(), 3);
}

#[test]
fn an_expired_lease_is_taken_over_whatever_the_clock_on_the_wall_says() {
    let world = World::new();
    for (taken_at, asked_at) in [("+1h", "+0"), ("+0", "-1h"), ("-1h", "+1h"), ("+1h", "-1h")] {
        let began = Instant::now();
        let taken = at(&world, taken_at, ["lock", "x", "--ttl", "1s"]);
        assert_eq!(code(&taken), 0, "{taken:?}");
        let wait = ["lock", "x", "--wait", "20s", "--ttl", "1h", "--json"];
        // By the wall clock the lease would be over at once, or in an hour.
        let next = at(&world, asked_at, wait);
        assert_eq!(code(&next), 0, "{taken_at}, {asked_at}: {next:?}");
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1), "{took:?}");
        let lease = field(&json(&next.stdout)["leases"][0], "lease");
        assert_eq!(code(&world.call(["release", &lease])), 0);
    }
}

#[test]
fn the_time_that_is_shown_moves_with_the_clock_on_the_wall() {
    let world = World::new();
    let expires = |offset: &str, name: &str| {
        let taken = at(&world, offset, ["lock", name, "--ttl", "10m", "--json"]);
        assert_eq!(code(&taken), 0, "{taken:?}");
        field(&json(&taken.stdout)["leases"][0], "expires_at")
    };
    let (early, now, late) = (expires("-1h", "a"), expires("+0", "b"), expires("+1h", "c"));
    assert!(early < now && now < late, "{early}, {now}, {late}");
    let lease = field(&held(&world)[1], "lease");
    let renewed = at(&world, "+1h", ["renew", &lease, "--ttl", "10m"]);
    assert_eq!(code(&renewed), 0, "{renewed:?}");
    let shown = field(&held(&world)[1], "expires_at");
    assert!(shown > now, "{shown} after {now}");
    assert_eq!(code(&at(&world, "+1h", ["lock", "b", "--no-wait"])), 75);
}

#[test]
fn after_a_step_of_the_clock_the_time_that_is_left_is_shown_as_it_is() {
    let world = World::new();
    world.lock(["x", "--ttl", "10m"]);
    for offset in WRONG {
        let refused = at(&world, offset, ["lock", "x", "--no-wait"]);
        assert_eq!(code(&refused), 75, "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("at most 9m "), "{offset}: {said}");
        let listed = text(&at(&world, offset, ["ls"]).stdout);
        assert!(listed.contains("in 9m "), "{offset}: {listed}");
    }
    let kept = |offset| {
        field(
            &json(&at(&world, offset, ["ls", "--json"]).stdout)["held"][0],
            "expires_at",
        )
    };
    assert_eq!(kept("+0"), kept("+0"), "without a step it stays the same");
}

#[test]
fn tokens_do_not_go_back_with_the_clock_on_the_wall() {
    let world = World::new();
    let run = || ["run", "--no-wait", "x"].into_iter().chain(TELL);
    let mut last = take(&world, "x");
    for offset in ["+1h", "-1h", "+0", "+1h", "-1h"] {
        let next = token(&at(&world, offset, run()));
        assert!(next > last, "{offset}: {next} after {last}");
        last = next;
    }
}

#[test]
fn after_a_sleep_leases_are_over_and_sessions_are_not() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["session"]);
    let over = world.lock(["over", "--ttl", "10m"]);
    let kept = world.lock(["kept", "--ttl", "2h"]);
    let again = world.lock(["again", "--ttl", "10m"]);
    let renewed = after_sleep(&world, ["renew", &again, "--ttl", "2h"]);
    assert_eq!(code(&renewed), 0, "nobody took over: {renewed:?}");
    let listed = json(&after_sleep(&world, ["ls", "--json"]).stdout);
    let state = |lease: &str| {
        let held = listed["held"].as_array().unwrap();
        held.iter().find(|held| held["lease"] == lease).unwrap()["state"].clone()
    };
    assert_eq!(
        (state(&over), state(&kept)),
        ("expired".into(), "held".into())
    );
    let recovered = json(&after_sleep(&world, ["recover", "--json"]).stdout);
    let recovered = recovered["leases"].as_array().unwrap();
    assert_eq!(recovered.len(), 1, "{recovered:?}");
    assert_eq!(
        (&recovered[0]["lease"], &recovered[0]["recovered"]),
        (&over.as_str().into(), &true.into())
    );
    for name in ["session", "kept", "again"] {
        assert_eq!(
            code(&after_sleep(&world, ["lock", name, "--no-wait"])),
            75,
            "{name}"
        );
    }
    assert_eq!(
        code(&after_sleep(
            &world,
            ["run", "--no-wait", "over", "--", "true"]
        )),
        0
    );
    assert_eq!(code(&world.call(["release", &over])), 77);
    holder.let_go();
    assert_eq!(holder.code(), 0);
    for lease in [kept, again] {
        assert_eq!(code(&world.call(["release", &lease])), 0);
    }
    assert!(held(&world).is_empty());
}
