//! Workers, spawners and shims that are killed.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_os::clock;
use tenure_run::shim::{End, Lifetime, Stopped};

use super::worker::{Scene, children, descriptors, kill, lives, name, signal, until, until_gone};

const WAITS: &str = "echo $$ > leader; echo $PPID > shim; until [ -e enough ]; do sleep 0.01; done";
/// Leaves a child outside of its group, which waits as it does.
const LEAVES: &str = "setsid sh -c 'echo $$ > other; while :; do sleep 0.1; done' & \
     echo $PPID > shim; echo $$ > leader; while :; do sleep 0.1; done";

fn enough(scene: &Scene) {
    fs::write(scene.path("enough"), "").unwrap();
}

#[test]
fn a_job_outlives_its_worker_and_its_status_is_there_before_its_lock_is_free() {
    let mut scene = Scene::new();
    scene.begin(&scene.attempt(&format!("{WAITS}; head -c 3000000 /dev/zero; exit 5")));
    let leader = scene.number_in("leader");
    scene.kill_worker();
    assert!(lives(leader) && scene.is_locked());
    assert_eq!(scene.status(), None);
    enough(&scene);
    // Resolves in the same moment in which the kernel frees it.
    File::open(scene.path("lock")).unwrap().lock().unwrap();
    let status = scene.status().expect("the status is there");
    assert_eq!((status.end, status.stopped), (End::Exited(5), None));
    assert_eq!(status.output.bytes, 3_000_000);
    until_gone(scene.spawner);
}

#[test]
fn whoever_gets_the_lock_finds_the_status() {
    let mut scene = Scene::new();
    for round in 0..100 {
        for file in ["leader", "enough", "status"] {
            let _ = fs::remove_file(scene.path(file));
        }
        let script = "echo $$ > leader; until [ -e enough ]; do sleep 0.001; done";
        scene.begin(&scene.attempt(script));
        scene.number_in("leader");
        enough(&scene);
        let lock = File::open(scene.path("lock")).unwrap();
        lock.lock().unwrap();
        let status = scene.status();
        assert!(status.is_some(), "not in round {round}");
    }
}

#[test]
fn the_lock_is_held_until_all_that_a_command_left_is_dead() {
    let mut scene = Scene::new();
    let script = "setsid sh -c 'echo $$ > other; exec 1>&- 2>&-; while :; do sleep 0.1; done' & \
         until [ -s other ]; do sleep 0.01; done";
    scene.begin(&scene.attempt(&format!("{script}; {WAITS}")));
    let other = scene.number_in("other");
    scene.number_in("leader");
    scene.kill_worker();
    enough(&scene);
    File::open(scene.path("lock")).unwrap().lock().unwrap();
    assert!(!lives(other));
    assert_eq!(scene.status().unwrap().end, End::Exited(0));
}

#[test]
fn a_job_that_ends_with_its_worker_does_so_with_all_that_it_started() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt(LEAVES);
    attempt.lifetime = Lifetime::EndsWithWorker;
    attempt.deadline_ms = Some(clock::boot_now() + 60_000);
    scene.begin(&attempt);
    let processes = ["leader", "other", "shim"].map(|name| scene.number_in(name));
    let begun = Instant::now();
    scene.kill_worker();
    processes.into_iter().for_each(until_gone);
    assert!(begun.elapsed() < Duration::from_secs(4));
    let status = scene.status().unwrap();
    assert_eq!(
        (status.end, status.stopped),
        (End::Signalled(15), Some(Stopped::WorkerDied))
    );
}

#[test]
fn a_worker_that_is_stopped_does_not_keep_its_job_beyond_the_deadline() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt(&format!("trap '' TERM; {LEAVES}"));
    attempt.lifetime = Lifetime::EndsWithWorker;
    attempt.deadline_ms = Some(clock::boot_now() + 2000);
    scene.begin(&attempt);
    let processes = ["leader", "other", "shim"].map(|name| scene.number_in(name));
    signal(scene.worker(), Signal::STOP);
    processes.into_iter().for_each(until_gone);
    assert!(clock::boot_now() >= attempt.deadline_ms.unwrap());
    assert_eq!(scene.status().unwrap().stopped, Some(Stopped::Deadline));
    signal(scene.worker(), Signal::CONT);
}

#[test]
fn a_shim_that_is_killed_is_seen_when_nothing_of_its_job_runs() {
    let mut scene = Scene::new();
    for round in 0..20 {
        for file in ["leader", "other", "shim"] {
            let _ = fs::remove_file(scene.path(file));
        }
        scene.begin(&scene.attempt(LEAVES));
        let [leader, other, shim] = ["leader", "other", "shim"].map(|name| scene.number_in(name));
        kill(shim);
        assert_eq!(scene.ended(), None);
        assert_eq!([leader, other].map(lives), [false; 2], "in round {round}");
        assert_eq!(scene.status(), None);
    }
}

#[test]
fn a_lock_is_held_while_anything_of_a_job_lives_that_nobody_supervises() {
    let mut scene = Scene::new();
    scene.begin(&scene.attempt(LEAVES));
    let [leader, other, shim] = ["leader", "other", "shim"].map(|name| scene.number_in(name));
    // As if all were killed by name: nobody is left to kill the other.
    kill(scene.spawner);
    until_gone(scene.spawner);
    kill(shim);
    scene.kill_worker();
    until_gone(leader);
    assert!(lives(other) && scene.is_locked());
    assert_eq!(scene.status(), None);
    kill(other);
    File::open(scene.path("lock")).unwrap().lock().unwrap();
}

#[test]
fn a_shim_whose_spawner_is_killed_goes_on_and_the_next_attempt_is_refused() {
    let mut scene = Scene::new();
    scene.begin(&scene.attempt(&format!("{WAITS}; exit 6")));
    scene.number_in("leader");
    kill(scene.spawner);
    until_gone(scene.spawner);
    fs::rename(scene.path("lock"), scene.path("first-lock")).unwrap();
    File::create(scene.path("lock")).unwrap();
    scene.begin(&scene.attempt("touch began"));
    let error = scene.answer();
    assert!(
        error.contains("the spawner of this worker has ended"),
        "{error}"
    );
    assert!(!scene.path("began").exists());
    enough(&scene);
    assert_eq!(scene.ended().unwrap().end, End::Exited(6));
}

#[test]
fn signals_to_a_service_leave_spawner_and_shim_alone() {
    let mut scene = Scene::new();
    scene.begin(&scene.attempt(&format!("{WAITS}; exit 8")));
    let shim = scene.number_in("shim");
    assert_eq!(name(shim), "tenure-shim");
    for by in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal(shim, by);
        signal(scene.spawner, by);
    }
    enough(&scene);
    assert_eq!(scene.ended().unwrap().end, End::Exited(8));
    assert_eq!(scene.run(&scene.attempt("exit 1")).end, End::Exited(1));
}

#[test]
fn an_attempt_that_was_told_in_part_is_not_begun() {
    let mut scene = Scene::new();
    // More than a socket holds, and the shim reads nothing before the worker is dead.
    let mut attempt = scene.attempt("touch began");
    attempt.command.extend(vec!["x".repeat(100_000); 9]);
    signal(scene.spawner, Signal::STOP);
    let before = descriptors(scene.worker());
    scene.begin(&attempt);
    until("the worker has the lock and one end of a control", || {
        (descriptors(scene.worker()) == before + 2).then_some(())
    });
    scene.kill_worker();
    signal(scene.spawner, Signal::CONT);
    until_gone(scene.spawner);
    assert!(children(scene.spawner).is_empty());
    File::open(scene.path("lock")).unwrap().lock().unwrap();
    assert!(!scene.path("began").exists() && !scene.path("status").exists());
}
