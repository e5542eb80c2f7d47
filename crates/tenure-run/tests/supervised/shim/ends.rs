//! How commands end, what they print, and commands that cannot be run.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tenure_run::shim::{End, NotStarted};

use super::worker::{Scene, children, descriptors, until};

#[test]
fn an_exit_status_and_a_signal_reach_the_worker_and_the_file() {
    let mut scene = Scene::new();
    let exited = scene.run(&scene.attempt("echo to out; echo to err >&2; exit 7"));
    assert_eq!(exited.end, End::Exited(7));
    assert_eq!((exited.stopped, exited.still_runs), (None, false));
    assert_eq!(exited.output.bytes, 14);
    assert_eq!(scene.output(), "to out\nto err\n");
    assert_eq!(scene.status(), Some(exited));
    let signalled = scene.run(&scene.attempt("kill -USR1 $$"));
    assert_eq!(signalled.end, End::Signalled(10));
    assert_eq!(scene.output(), "");
    assert_eq!(scene.status(), Some(signalled));
}

#[test]
fn a_status_of_another_attempt_is_none() {
    let mut scene = Scene::new();
    let path = scene.path("status");
    assert_eq!(
        tenure_run::shim::read_status(&path, "job-7/1").unwrap(),
        None
    );
    let _ = scene.run(&scene.attempt("true"));
    assert_eq!(
        tenure_run::shim::read_status(&path, "job-7/2").unwrap(),
        None
    );
}

#[test]
fn a_command_has_the_workers_environment_with_its_changes_and_nothing_else_of_it() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt(
        "grep SigBlk /proc/self/status; readlink /proc/self/fd/0; ls -l /proc/$$/fd | grep -c socket; \
         set -- /proc/$$/fd/*; echo $#; pwd; echo $ADDED $TENURE_TEST_IS_WORKER",
    );
    let variables = &mut attempt.environment;
    variables.insert("ADDED".into(), Some("a word".into()));
    variables.insert("TENURE_TEST_IS_WORKER".into(), None);
    assert_eq!(scene.run(&attempt).end, End::Exited(0));
    let folder = scene.folder.path().display();
    // Descriptors: the input, both outputs, one of the session, and the directory of these.
    let expected = format!("SigBlk:\t0000000000000000\n/dev/null\n0\n5\n{folder}\na word\n");
    assert_eq!(scene.output(), expected);
}

#[test]
fn a_gigabyte_of_output_leaves_ten_megabytes_and_the_end_of_it() {
    let mut scene = Scene::new();
    let script = "yes 'a line of what a job prints' | head -c 1000000000; echo; echo the end";
    let status = scene.run(&scene.attempt(script));
    assert_eq!(status.end, End::Exited(0));
    let (new, old) = (scene.path("out"), scene.path("out.old"));
    let size = |path| fs::metadata(path).unwrap().size();
    let on_disk = |path| fs::metadata(path).unwrap().blocks() * 512;
    assert!(on_disk(&new) + on_disk(&old) <= 10_000_000);
    let kept = size(&new) + size(&old);
    assert!((4_900_000..=10_000_000).contains(&kept), "{kept}");
    assert_eq!(fs::read_dir(scene.folder.path()).unwrap().count(), 4);
    let output = &status.output;
    // What `yes` says of its broken pipe counts, too.
    assert!((1_000_000_009..1_000_000_100).contains(&output.bytes));
    assert_eq!((output.lost, &output.error), (0, &None));
    let text = fs::read_to_string(old).unwrap();
    let notice = format!(
        "[tenure: {} bytes before this line were not kept]",
        output.dropped
    );
    assert_eq!(text.lines().next().unwrap().trim_end(), notice);
    let first = text.find('\n').unwrap() as u64 + 1;
    assert_eq!(output.bytes - output.dropped, kept - first);
    assert!(scene.output().ends_with("\nthe end\n"));
}

#[test]
fn output_that_cannot_be_written_is_lost_and_the_job_is_not() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("head -c 300000 /dev/zero; exit 4");
    // A disk that is full.
    attempt.output = "/dev/full".into();
    let status = scene.run(&attempt);
    assert_eq!(status.end, End::Exited(4));
    assert_eq!(
        (status.output.bytes, status.output.lost),
        (300_000, 300_000)
    );
    assert!(status.output.error.unwrap().contains("No space left"));
    attempt.output = "/proc/nowhere/out".into();
    let status = scene.run(&attempt);
    assert_eq!(status.end, End::Exited(4));
    assert!(status.output.error.unwrap().contains("No such file"));
}

#[test]
fn a_command_that_cannot_be_run_is_told_with_its_reason() {
    let mut scene = Scene::new();
    fs::write(scene.path("text"), "no program").unwrap();
    let mut attempt = scene.attempt("");
    let mut not_started = |program: &str, directory: &str| {
        attempt.command = vec![program.into()];
        if !directory.is_empty() {
            attempt.directory = directory.into();
        }
        let status = scene.run(&attempt);
        assert_eq!(scene.status().unwrap().end, status.end);
        let End::NotStarted(why, reason) = status.end else {
            panic!("{status:?}");
        };
        (why, reason)
    };
    let (why, reason) = not_started("no-such-program", "");
    assert_eq!(why, NotStarted::NotFound);
    assert!(
        reason.starts_with("cannot run no-such-program: No such file"),
        "{reason}"
    );
    let (why, reason) = not_started("./text", "");
    assert_eq!(why, NotStarted::NotExecutable);
    assert!(
        reason.starts_with("cannot run ./text: Permission denied"),
        "{reason}"
    );
    let (why, reason) = not_started("true", "/proc/nowhere");
    assert_eq!(why, NotStarted::Directory);
    assert!(
        reason.starts_with("cannot enter /proc/nowhere: No such file"),
        "{reason}"
    );
}

#[test]
fn an_attempt_whose_status_has_no_place_is_not_begun() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("touch began");
    attempt.status = "/dev/full".into();
    let status = scene.run(&attempt);
    let End::NotStarted(NotStarted::Shim, reason) = status.end else {
        panic!("{status:?}");
    };
    assert!(reason.contains("No space left"), "{reason}");
    assert!(!scene.path("began").exists());
}

#[test]
fn an_attempt_that_is_too_large_is_refused_before_anything_is_begun() {
    let mut scene = Scene::new();
    let mut attempt = scene.attempt("true");
    attempt.command.push("x".repeat(1 << 20));
    scene.begin(&attempt);
    let error = scene.answer();
    assert!(
        error.starts_with("error ") && error.contains("more than 1048576"),
        "{error}"
    );
    // A large one is larger than what a socket holds.
    attempt.command.truncate(3);
    attempt.command.extend(vec!["x".repeat(100_000); 10]);
    assert_eq!(scene.run(&attempt).end, End::Exited(0));
}

#[test]
fn a_hundred_attempts_leave_no_process_and_no_descriptor() {
    let mut scene = Scene::new();
    let attempt = scene.attempt("true");
    let _ = scene.run(&attempt);
    let is_idle = |scene: &Scene| children(scene.spawner).is_empty();
    until("the first shim is gone", || is_idle(&scene).then_some(()));
    let (worker, spawner) = (scene.worker(), scene.spawner);
    // The worker has one descriptor for the last shim.
    let open = || (descriptors(worker), descriptors(spawner));
    let before = until("it is quiet", || Some(open()).filter(|now| *now == open()));
    for _ in 0..100 {
        assert_eq!(scene.run(&attempt).end, End::Exited(0));
    }
    until("no shim is left", || is_idle(&scene).then_some(()));
    assert_eq!(children(worker), [spawner]);
    until("no descriptor is left", || (open() == before).then_some(()));
}
