//! SIGKILL at every system call that changes something, and recovery after each.
//!
//! A publish is traced once. Then it is made anew for each of its calls, to a target of its own,
//! and killed instead of making it. The target must be the old directory or the new one; recovery
//! must say which; and the next publish must find nothing in its way. Every seventh call is tried,
//! or every one with `TENURE_TEST_EVERY_CALL` set.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::thread;

use crate::site::Site;
use crate::stopped::{Point, Trace, points, strace};
use crate::world::{code, until};

#[test]
fn a_publish_killed_at_any_system_call_leaves_the_old_directory_or_the_new_one() {
    let site = Site::sqlite();
    let target = |name: &str| {
        fs::create_dir(site.path(name)).unwrap();
        let target = site.path(name).join("tiles").display().to_string();
        site.published("old", &target);
        target
    };
    let source = site.source("new");
    let traced = target("traced");
    let points = points(&site, &["publish", &source, &traced]);
    // Before the store is opened a publish can leave nothing behind.
    let begun = points
        .iter()
        .position(|point| point.line.contains("tenure.db"))
        .unwrap();
    let points = &points[begun..];
    assert!(points.len() > 60, "the trace shows no work");
    let every = match std::env::var_os("TENURE_TEST_EVERY_CALL") {
        Some(_) => 1,
        None => 7,
    };
    let (mut old, mut new, mut unkilled) = (0, 0, 0);
    for (number, point) in points
        .iter()
        .enumerate()
        .filter(|(number, _)| number % every == 0)
    {
        let target = target(&format!("killed-{number}"));
        let filter = format!("trace={}", point.call);
        let inject = format!("inject={}:signal=KILL:when={}", point.call, point.number);
        let options = ["-e", filter.as_str(), "-e", inject.as_str()];
        let output = strace(&site, &options, &["publish", &source, &target])
            .output()
            .unwrap();
        // The number of wake-ups of a runtime thread differs from run to run, so a call near the
        // end may not come at all.
        if output.status.signal() != Some(libc::SIGKILL) {
            assert_eq!(code(&output), 0, "{point:?}: {output:?}");
            unkilled += 1;
        }
        let content = site.content(&target).unwrap();
        let acknowledged = !output.stdout.is_empty();
        assert!(!acknowledged || content == "new", "{point:?}");
        let recovered = site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{point:?}: {recovered:?}");
        assert_eq!(site.content(&target).as_ref(), Some(&content), "{point:?}");
        let states = site.states(&target);
        let expected: &[&str] = match (content.as_str(), states.len()) {
            ("old", 1) => &["committed"],
            ("old", _) => &["committed", "aborted"],
            _ => &["committed", "committed"],
        };
        assert_eq!(states, expected, "{point:?}");
        site.verified(&target);
        site.published("next", &target);
        assert_eq!(site.content(&target).as_deref(), Some("next"), "{point:?}");
        match content.as_str() {
            "old" => old += 1,
            _ => new += 1,
        }
    }
    assert!(unkilled < 5, "{unkilled} were not killed");
    assert!(
        old > 3 && new > 3,
        "{old} killed before, {new} after the new one was in place"
    );
}

#[test]
fn a_publish_killed_at_a_step_leaves_the_old_directory_or_the_new_one_on_postgres() {
    let trace = Trace::of(&Site::postgres());
    let steps = [
        (trace.first("mkdir", "/srv/tmp/0"), "old"),
        (trace.first("fsync", ""), "old"),
        (trace.first("flock", "LOCK_EX"), "old"),
        (trace.first("renameat2", "RENAME_EXCHANGE"), "old"),
        (trace.first_after_rename("fsync"), "new"),
        (trace.first("flock", "LOCK_UN"), "new"),
        (trace.first("unlinkat", ""), "new"),
    ];
    // All of them wait at once for their leases to run out.
    thread::scope(|scope| {
        for (step, content) in &steps {
            scope.spawn(|| killed_on_postgres(step, content));
        }
    });
}

fn killed_on_postgres(step: &Point, content: &str) {
    let site = Site::postgres();
    let target = site.target();
    site.published("old", &target);
    let source = site.source("new");
    let filter = format!("trace={}", step.call);
    let inject = format!("inject={}:signal=KILL:when={}", step.call, step.number);
    let options = ["-e", filter.as_str(), "-e", inject.as_str()];
    let mut killed = strace(&site, &options, &["publish", &source, &target]);
    let output = killed.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    assert_eq!(site.content(&target).as_deref(), Some(content), "{step:?}");
    let expected = match content {
        "old" => ["committed", "aborted"],
        _ => ["committed", "committed"],
    };
    // A manifest is kept for as long as the lease of the dead publisher lasts.
    until("it is recovered", || {
        let recovered = site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{step:?}: {recovered:?}");
        site.states(&target) == expected
    });
    assert_eq!(site.content(&target).as_deref(), Some(content), "{step:?}");
    site.verified(&target);
    site.published("next", &target);
    assert_eq!(site.content(&target).as_deref(), Some("next"), "{step:?}");
}
