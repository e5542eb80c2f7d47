//! `tenure advisory`.

use std::fs;
use std::time::Duration;

use tenure_postgres::advisory::name_to_i32;

use crate::holder::{HOLD, Holder};
use crate::process::{Process, timed};
use crate::scene::{Scene, TTL, stays};
use crate::world::{World, code, is_alive, json, text, until};

fn hold(world: &World, arguments: &[&str], script: &str) -> Holder {
    let mut command = world.tenure();
    command.args(["advisory", "run"]).args(arguments);
    command.args(["--", "sh", "-c", script]);
    command.stderr(fs::File::create(world.path("said")).unwrap());
    Holder::from_command(command)
}

#[test]
fn a_command_runs_under_a_lock_that_other_programs_see() {
    let scene = Scene::new();
    let mut holder = hold(&scene.world, &["agent", "42"], HOLD);
    let free = || scene.database.psql("select pg_try_advisory_lock(1, 42)") == "t";
    assert!(!free());
    holder.let_go();
    assert_eq!(holder.code(), 0);
    assert!(free(), "given back when run ends");
}

#[test]
fn the_command_is_told_and_its_exit_code_is_passed_on() {
    let scene = Scene::new();
    let world = &scene.world;
    let script = "echo $TENURE_RESOURCE; echo $TENURE_TOKEN; exit 7";
    let run = || world.call(["advisory", "run", "channel", "-5", "--", "sh", "-c", script]);
    let tokens = [run(), run()].map(|output| {
        assert_eq!(code(&output), 7, "{output:?}");
        let told = text(&output.stdout);
        let (resource, token) = told.split_once('\n').unwrap();
        assert_eq!(resource, "advisory:2/-5");
        token.trim().parse::<u64>().unwrap()
    });
    assert!(tokens[1] > tokens[0], "{tokens:?}");
}

#[test]
fn who_holds_it_is_named_to_one_who_waits_in_vain_or_not_at_all() {
    let scene = Scene::new();
    let mut psql = scene.database.session();
    psql.run("select pg_advisory_lock(1, 42)");
    let pid = psql.backend().to_string();
    for flags in [&["--no-wait"][..], &["--wait", "300ms"]] {
        let ask = |first: &[&str]| {
            let mut command = scene.world.tenure();
            command.args(first).args(["advisory", "run"]).args(flags);
            command
                .args(["agent", "42", "--", "true"])
                .output()
                .unwrap()
        };
        let output = ask(&[]);
        assert_eq!(code(&output), 75, "{output:?}");
        assert!(text(&output.stderr).contains(&pid), "{output:?}");
        let output = ask(&["--json"]);
        assert_eq!(code(&output), 75);
        let document = json(&output.stdout);
        assert_eq!(document["error"]["kind"], "busy");
        assert_eq!(document["error"]["holders"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn unless_it_is_told_otherwise_it_waits_for_fifteen_seconds() {
    let scene = Scene::new();
    let mut psql = scene.database.session();
    psql.run("select pg_advisory_lock(1, 42)");
    let ask = ["advisory", "run", "agent", "42", "--", "true"];
    let (output, took) = timed(|| scene.world.call(ask));
    assert_eq!(code(&output), 75, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("waiting up to 15s"), "{said}");
    assert!(said.contains("was not free within 15s"), "{said}");
    let limit = Duration::from_secs(15);
    assert!(took >= limit && took < limit * 2, "{took:?}");
}

#[test]
fn a_lock_is_waited_for_and_handed_over() {
    let scene = Scene::new();
    let mut holder = hold(&scene.world, &["agent", "42"], HOLD);
    let next = Process::tenure(
        &scene.world,
        ["advisory", "run", "agent", "42", "--", "true"],
    );
    let waits = || {
        let locks = scene.world.json(["advisory", "ls"]);
        let locks = locks["locks"].as_array().unwrap().clone();
        locks.iter().any(|lock| lock["granted"] == false)
    };
    until("it waits", waits);
    holder.let_go();
    assert_eq!(holder.code(), 0);
    assert_eq!(code(&next.end()), 0);
}

#[test]
fn everybody_who_holds_or_waits_is_listed() {
    let scene = Scene::new();
    let mut psql = scene.database.session();
    psql.run("select pg_advisory_lock_shared(-7, 1)");
    let _holder = hold(&scene.world, &["agent", "some-name"], HOLD);
    let document = scene.world.json(["advisory", "ls"]);
    assert_eq!(
        (&document["total"], &document["next"]),
        (&2.into(), &().into())
    );
    let locks = document["locks"].as_array().unwrap();
    let by = |namespace: i64| {
        locks
            .iter()
            .find(|lock| lock["namespace"] == namespace)
            .unwrap()
    };
    let (foreign, ours) = (by(-7), by(1));
    assert_eq!(
        (&foreign["id"], &foreign["mode"]),
        (&1.into(), &"read".into())
    );
    assert!(foreign["duration"].is_null(), "{foreign}");
    assert_eq!(ours["id"], name_to_i32("some-name"));
    assert!(ours["duration"].as_f64().unwrap() >= 0.0, "{ours}");
    for field in ["pid", "application_name", "state", "query_start", "granted"] {
        assert!(!ours[field].is_null(), "{field}: {ours}");
    }
    let name = ours["application_name"].as_str().unwrap();
    assert!(name.starts_with("tenure"), "{name}");
    let table = text(&scene.world.call(["advisory", "ls"]).stdout);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("agent (1)"), "{table}");
}

#[test]
fn the_command_is_killed_with_its_run() {
    let scene = Scene::new();
    let mut holder = hold(&scene.world, &["agent", "42"], HOLD);
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    until("the command is dead", || !is_alive(holder.command));
    until("the lock is free", || {
        scene.database.psql("select pg_try_advisory_lock(1, 42)") == "t"
    });
}

#[test]
fn a_killed_waiter_leaves_no_trace() {
    let scene = Scene::new();
    let mut psql = scene.database.session();
    psql.run("select pg_advisory_lock_shared(1, 42)");
    let waiter = Process::tenure(
        &scene.world,
        ["advisory", "run", "agent", "42", "--", "true"],
    );
    // A reader that comes now waits behind the waiting writer.
    let is_closed = || {
        let shared = "select pg_try_advisory_lock_shared(1, 42)";
        scene.database.psql(shared) == "f"
    };
    until("it waits", is_closed);
    drop(waiter);
    until("nobody waits", || !is_closed());
}

#[test]
fn a_command_whose_connection_was_ended_is_stopped() {
    let scene = Scene::new();
    let stubborn = "trap : TERM; echo $$; while :; do sleep 0.02; done";
    let mut holder = hold(&scene.world, &["agent", "42"], stubborn);
    let (code, took) = timed(|| {
        assert!(scene.terminate() >= 1);
        holder.code()
    });
    assert_eq!(code, 79);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(!is_alive(holder.command));
    let said = fs::read_to_string(scene.world.path("said")).unwrap();
    assert!(
        said.contains("SIGTERM") && said.contains("SIGKILL"),
        "{said}"
    );
}

#[test]
fn a_command_that_is_cut_off_is_stopped_within_three_seconds() {
    let scene = Scene::new();
    let (proxy, cut) = scene.behind_proxy();
    let mut holder = hold(&cut, &["agent", "42"], HOLD);
    stays("it is held", TTL, || is_alive(holder.command));
    proxy.pause();
    let ((), took) = timed(|| until("the command is dead", || !is_alive(holder.command)));
    assert!(took < Duration::from_secs(3), "{took:?}");
    let taken = scene.database.psql("select pg_try_advisory_lock(1, 42)");
    assert_eq!(taken, "f", "the server holds it for us until then");
    assert_eq!(holder.code(), 79);
}

#[test]
fn a_command_whose_run_is_stopped_and_then_loses_the_lock_is_dead_within_three_seconds() {
    let scene = Scene::new();
    let mut holder = hold(&scene.world, &["agent", "42"], HOLD);
    holder.signal_run(libc::SIGSTOP);
    let ((), took) = timed(|| {
        assert!(scene.terminate() >= 1);
        until("the command is dead", || !is_alive(holder.command));
    });
    assert!(took < Duration::from_secs(3), "{took:?}");
    let next = ["advisory", "run", "agent", "42", "--", "true"];
    assert_eq!(code(&scene.world.call(next)), 0);
    holder.signal_run(libc::SIGCONT);
    assert_eq!(holder.code(), 79);
}

#[test]
fn other_stores_have_no_advisory_locks() {
    for world in World::each() {
        let output = world.call(["advisory", "ls"]);
        assert_eq!(code(&output), 78, "{output:?}");
        assert!(text(&output.stderr).contains("PostgreSQL"), "{output:?}");
    }
}

#[test]
fn a_run_inside_of_a_run_under_the_same_lock_is_refused_at_once() {
    let scene = Scene::new();
    let world = &scene.world;
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let nested = |inner: &[&str]| {
        let outer = ["advisory", "run", "1", "5", "--", tenure, "advisory", "run"];
        timed(|| world.call([&outer[..], inner].concat()))
    };
    let (refused, took) = nested(&["1", "5", "--", "true"]);
    assert_eq!(code(&refused), 76, "{refused:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (busy, _) = nested(&["--no-wait", "1", "5", "--", "true"]);
    assert_eq!(code(&busy), 75, "{busy:?}");
    let (other, _) = nested(&["1", "6", "--", "true"]);
    assert_eq!(code(&other), 0, "{other:?}");
    // A process that outlived its run has only the variable left.
    let script = "echo $TENURE_ADVISORY";
    let told = world.call(["advisory", "run", "1", "5", "--", "sh", "-c", script]);
    let mut after = world.tenure();
    after.env("TENURE_ADVISORY", text(&told.stdout).trim());
    after.args(["advisory", "run", "1", "5", "--", "true"]);
    let after = after.output().unwrap();
    assert_eq!(code(&after), 0, "{after:?}");
}
