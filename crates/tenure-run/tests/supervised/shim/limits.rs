//! Limits, deadlines, and commands that do not want to end.

use std::time::{Duration, Instant};

use tenure_os::clock;
use tenure_run::shim::{End, Lifetime, NotStarted, Stopped};

use super::worker::{LONG, Scene, children, lives, until, until_gone};

/// Ignores SIGTERM, and so do its children: one in its group, one in a session of its own, one
/// that was left by its parent.
const STUBBORN: &str = "trap '' TERM; \
     sh -c 'echo $$ > in-group; while :; do sleep 1; done' & \
     setsid sh -c 'echo $$ > in-session; while :; do sleep 1; done' & \
     sh -c '(setsid sh -c \"echo \\$\\$ > left; while :; do sleep 1; done\" &)'; \
     echo $$ > leader; while :; do sleep 1; done";
const PROCESSES: [&str; 4] = ["in-group", "in-session", "left", "leader"];

#[test]
fn a_time_limit_ends_all_of_a_command_that_ignores_it() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt(STUBBORN);
    attempt.limits.time_ms = Some(500);
    let begun = Instant::now();
    scene.begin(&attempt);
    let processes = PROCESSES.map(|name| scene.number_in(name));
    let status = scene.ended().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(5500));
    assert_eq!(status.end, End::Signalled(9));
    assert_eq!(status.stopped, Some(Stopped::TimeLimit));
    assert!(!status.still_runs);
    assert_eq!(processes.map(lives), [false; 4]);
}

#[test]
fn a_command_that_obeys_ends_in_its_grace() {
    let mut scene = Scene::new();
    let attempt =
        scene.attempt("trap 'exit 9' TERM; echo $$ > leader; while :; do sleep 0.1; done");
    scene.begin(&attempt);
    scene.number_in("leader");
    scene.tell("end");
    let status = scene.ended().unwrap();
    assert_eq!(
        (status.end, status.stopped),
        (End::Exited(9), Some(Stopped::Asked))
    );
}

#[test]
fn a_command_that_is_stopped_ends_too() {
    let mut scene = Scene::new();
    scene.begin(&scene.attempt("echo $$ > leader; kill -STOP $$; sleep 60"));
    let leader = scene.number_in("leader");
    until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap();
        stat.contains(") T ").then_some(())
    });
    let begun = Instant::now();
    scene.tell("end");
    assert_eq!(scene.ended().unwrap().end, End::Signalled(15));
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[test]
fn what_a_command_leaves_is_killed_when_it_ends() {
    let mut scene = Scene::new();
    let script = STUBBORN.replace("while :; do sleep 1; done\n", "");
    let script = script.strip_suffix("while :; do sleep 1; done").unwrap();
    let wait = "until [ -s in-group ] && [ -s in-session ] && [ -s left ]; do sleep 0.01; done";
    let status = scene.run(&scene.attempt(&format!("{script} {wait}; exit 2")));
    assert_eq!((status.end, status.stopped), (End::Exited(2), None));
    assert_eq!(
        PROCESSES.map(|name| lives(scene.number_in(name))),
        [false; 4]
    );
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let mut scene = Scene::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do (setsid true &); done; \
                  echo $PPID > shim; until [ -e enough ]; do sleep 0.01; done";
    scene.begin(&scene.attempt(script));
    let shim = scene.number_in("shim");
    until("only the command is left", || {
        (children(shim).len() == 1).then_some(())
    });
    std::fs::write(scene.path("enough"), "").unwrap();
    assert_eq!(scene.ended().unwrap().end, End::Exited(0));
}

#[test]
fn memory_has_a_limit() {
    let mut scene = Scene::new();
    // The shell keeps all of it.
    let script = "x=$(head -c 200000000 /dev/zero | tr '\\0' x) && echo has ${#x}";
    let mut attempt = scene.attempt(script);
    let status = scene.run(&attempt);
    assert_eq!(
        (status.end, scene.output().as_str()),
        (End::Exited(0), "has 200000000\n")
    );
    assert!(status.used.memory_max_bytes > 200_000_000);
    attempt.limits.memory_bytes = Some(100_000_000);
    let status = scene.run(&attempt);
    assert!(!scene.output().contains("has"));
    assert_ne!(status.end, End::Exited(0));
    assert!(status.used.memory_max_bytes < 150_000_000);
}

#[test]
fn cpu_time_has_a_limit() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("while :; do :; done");
    attempt.limits.cpu_seconds = Some(1);
    let status = scene.run(&attempt);
    assert_eq!(
        (status.end, status.stopped),
        (End::Signalled(24), Some(Stopped::CpuLimit))
    );
    let used = status.used;
    // The kernel counts in ticks for the limit, and exactly for this.
    assert!(used.user_ms + used.system_ms >= 500, "{used:?}");
    // Its shell tells of a part that is ended.
    attempt.command[2] = "sh -c 'while :; do :; done'; exit $?".into();
    let status = scene.run(&attempt);
    assert_eq!(
        (status.end, status.stopped),
        (End::Exited(152), Some(Stopped::CpuLimit))
    );
}

#[test]
fn a_deadline_that_is_over_kills_the_command_and_all_it_started() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt(STUBBORN);
    attempt.lifetime = Lifetime::EndsWithWorker;
    attempt.deadline_ms = Some(clock::boot_now() + 1500);
    let begun = Instant::now();
    let status = scene.run(&attempt);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(clock::boot_now() >= attempt.deadline_ms.unwrap());
    assert_eq!(
        (status.end, status.stopped),
        (End::Signalled(9), Some(Stopped::Deadline))
    );
    assert_eq!(
        PROCESSES.map(|name| lives(scene.number_in(name))),
        [false; 4]
    );
}

#[test]
fn a_deadline_that_is_moved_kills_nothing() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("echo $$ > leader; until [ -e enough ]; do sleep 0.01; done");
    let first = clock::boot_now() + 1500;
    attempt.deadline_ms = Some(first);
    scene.begin(&attempt);
    scene.tell(format!("deadline {}", first + 100_000));
    let leader = scene.number_in("leader");
    until("the first deadline is long over", || {
        assert!(lives(leader));
        (clock::boot_now() > first + 500).then_some(())
    });
    std::fs::write(scene.path("enough"), "").unwrap();
    assert_eq!(scene.ended().unwrap().end, End::Exited(0));
}

#[test]
fn a_command_whose_deadline_is_over_already_is_not_started() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("touch began");
    attempt.deadline_ms = Some(clock::boot_now());
    let status = scene.run(&attempt);
    assert!(
        matches!(status.end, End::NotStarted(NotStarted::TooLate, _)),
        "{status:?}"
    );
    assert!(!scene.path("began").exists());
}

#[test]
fn a_command_that_forks_without_end_is_ended_with_its_group() {
    let mut scene = Scene::new();
    let mut attempt =
        scene.attempt("echo $$ > leader; f() { for i in 1 2 3; do sleep 60 & done; f2 & wait; }; \
                       f2() { for i in 1 2 3 4 5 6 7 8; do (sleep 0.01; sleep 60) & done; wait; }; f");
    attempt.limits.time_ms = Some(700);
    let begun = Instant::now();
    let status = scene.run(&attempt);
    assert_eq!(status.stopped, Some(Stopped::TimeLimit));
    assert!(!status.still_runs && begun.elapsed() < LONG / 4);
    until_gone(scene.number_in("leader"));
}
