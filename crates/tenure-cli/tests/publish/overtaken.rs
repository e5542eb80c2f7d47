//! Publishers that are stopped before and after each of the ten steps; another takes over or waits.
//!
//! On PostgreSQL a lease runs out while its holder stands still. On SQLite it does not, so others
//! wait there.
//!
//! | stopped | test |
//! |---|---|
//! | before 1 | `one_that_is_stopped_before_it_has_the_lease_comes_after_the_other` |
//! | after 1, 2, 3, 4, and in 5 before the lock | `a_publisher_that_was_overtaken_before_the_rename_touches_nothing` |
//! | in 5 with the lock, after 5, 6, 7 | `one_that_is_stopped_between_its_check_and_the_sync_makes_others_wait` |
//! | before 8, without the lock | `one_that_is_stopped_before_its_commit_finds_it_made_by_the_other` |
//! | after 8 and 9 | `one_that_is_stopped_before_its_release_leaves_what_the_other_made` |
//! | after 10 | `one_that_is_stopped_after_its_release_leaves_what_the_other_made` |

use std::thread;

use crate::site::Site;
use crate::stopped::{Point, Stopped, Trace};
use crate::world::{code, text, until};

/// Stops a publisher at each step, in a world of its own, all at once: nearly all the time goes
/// into waiting for leases to run out.
fn at_each(steps: &[Point], check: impl Fn(&Site, Stopped, &Point) + Sync) {
    thread::scope(|scope| {
        for step in steps {
            let check = &check;
            scope.spawn(move || {
                let site = Site::postgres();
                let stopped = stopped_at(&site, step);
                check(&site, stopped, step);
            });
        }
    });
}

/// Starts a publisher of "slow" over "old", and stops it at a step.
fn stopped_at(site: &Site, step: &Point) -> Stopped {
    site.published("old", &site.target());
    let source = site.source("slow");
    Stopped::at(site, step, &["publish", &source, &site.target()])
}

/// Lets a publisher go on, and returns its exit code. Asserts that all three publishes are
/// committed then, and that this content is in place.
#[track_caller]
fn ends(site: &Site, stopped: Stopped, content: &str) -> i32 {
    let target = site.target();
    let output = stopped.go_on();
    assert_eq!(
        site.content(&target).as_deref(),
        Some(content),
        "{output:?}"
    );
    assert_eq!(site.states(&target), ["committed"; 3], "{output:?}");
    site.verified(&target);
    code(&output)
}

#[test]
fn one_that_is_stopped_before_it_has_the_lease_comes_after_the_other() {
    let site = Site::postgres();
    let step = Trace::of(&site).first("openat", ".pgpass");
    let stopped = stopped_at(&site, &step);
    site.published("newer", &site.target());
    assert_eq!(ends(&site, stopped, "slow"), 0);
}

#[test]
fn a_publisher_that_was_overtaken_before_the_rename_touches_nothing() {
    let trace = Trace::of(&Site::postgres());
    let steps = [
        // The stop is after 1, and with the directory made.
        trace.first("mkdir", "/srv/tmp\""),
        trace.first("mkdir", "/srv/tmp/0"),
        // The stop is in the middle of 2, and after it: the last file is written.
        trace.first("open", "/a.txt\", O_WRONLY"),
        trace.last_before_rename("fchmod"),
        // The stop is in the middle of 3, after it, and after 4: the last directory is synced.
        trace.first("fsync", ""),
        trace.first("chmod", "/in\""),
        trace.last_before_rename("fsync"),
        // The stop is in the middle of 5, before the lock.
        trace.first("open", ".lock\""),
    ];
    at_each(&steps, |site, stopped, step| {
        let target = site.target();
        site.published("newer", &target);
        let output = stopped.go_on();
        assert_eq!(code(&output), 77, "{step:?}: {output:?}");
        assert_eq!(site.content(&target).as_deref(), Some("newer"), "{step:?}");
        let states = site.states(&target);
        assert_eq!(states, ["committed", "aborted", "committed"], "{step:?}");
        site.verified(&target);
        let left = site.left_in_tmp();
        assert_eq!(left, [""; 0], "{step:?}: each removes what it made itself");
    });
}

#[test]
fn one_that_is_stopped_between_its_check_and_the_sync_makes_others_wait() {
    let trace = Trace::of(&Site::postgres());
    let steps = [
        // The stop is in the middle of 5, with the lock and before the check.
        trace.first("flock", "LOCK_EX"),
        // The stop is after 5, 6 and 7.
        trace.last_before_rename("statx"),
        trace.first("renameat2", "RENAME_EXCHANGE"),
        trace.first_after_rename("fsync"),
    ];
    at_each(&steps, |site, stopped, step| {
        let target = site.target();
        let before = site.content(&target);
        let other = site.source("other");
        // The other publisher gets the lease when that of the stopped one is over, but not the lock
        // beside the target.
        let waits = site
            .world
            .call(["publish", &other, &target, "--wait", "6s"]);
        assert_eq!(code(&waits), 75, "{step:?}: {waits:?}");
        assert_eq!(site.content(&target), before, "{step:?}");
        let output = stopped.go_on();
        assert_eq!(code(&output), 77, "{step:?}: {output:?}");
        // After the check a publisher puts its directory in place: no other could meanwhile.
        let is_checked = step.call != "flock";
        let (content, outcome) = match is_checked {
            true => ("slow", "committed"),
            false => ("old", "aborted"),
        };
        assert_eq!(site.content(&target).as_deref(), Some(content), "{step:?}");
        assert_eq!(
            text(&output.stderr).contains("is in place, and its manifest"),
            is_checked,
            "{step:?}: {output:?}"
        );
        // The inodes tell what the stopped publisher has done.
        let recovered = site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{recovered:?}");
        assert_eq!(site.states(&target), ["committed", outcome], "{step:?}");
        site.verified(&target);
        site.published("next", &target);
    });
}

#[test]
fn one_that_is_stopped_before_its_commit_finds_it_made_by_the_other() {
    let site = Site::postgres();
    let step = Trace::of(&site).first("flock", "LOCK_UN");
    let stopped = stopped_at(&site, &step);
    let target = site.target();
    site.published("newer", &target);
    // The newer publisher found "slow" in place, and committed its manifest.
    assert_eq!(site.states(&target), ["committed"; 3]);
    assert_eq!(ends(&site, stopped, "newer"), 77);
}

#[test]
fn one_that_is_stopped_before_its_release_leaves_what_the_other_made() {
    let site = Site::postgres();
    let step = Trace::of(&site).first("flock", "LOCK_UN");
    let stopped = stopped_at(&site, &step);
    // The commit only reads the table of leases; the release writes it, and is held up.
    let database = site.database.as_ref().unwrap();
    let mut barrier = database.session();
    barrier.run("BEGIN");
    barrier.run("LOCK TABLE tenure.dal_locks IN SHARE MODE");
    stopped.send(libc::SIGCONT);
    let states = "SELECT string_agg(state, ' ' ORDER BY id) FROM tenure.manifests \
                  WHERE target_path LIKE '%/tiles'";
    until("it has committed", || {
        database.psql(states) == "committed committed"
    });
    stopped.send(libc::SIGSTOP);
    barrier.run("COMMIT");
    site.published("newer", &site.target());
    assert_eq!(ends(&site, stopped, "newer"), 0);
}

#[test]
fn one_that_is_stopped_after_its_release_leaves_what_the_other_made() {
    let site = Site::postgres();
    let trace = Trace::of(&site);
    let stopped = stopped_at(&site, &trace.first("unlinkat", ""));
    site.published("newer", &site.target());
    assert_eq!(ends(&site, stopped, "newer"), 0);
    assert_eq!(site.left_in_tmp(), [""; 0]);
}

#[test]
fn a_publisher_under_another_resource_is_left_alone_while_it_is_at_work() {
    for site in Site::each() {
        let step = Trace::of(&site).first("mkdir", "/srv/tmp/0");
        let (target, source) = (site.target(), site.source("slow"));
        site.published("old", &target);
        let publish = ["publish", &source, &target, "--resource", "map:a/1"];
        let stopped = Stopped::at(&site, &step, &publish);
        let other = site.source("other");
        let busy = site
            .world
            .call(["publish", &other, &target, "--wait", "1s"]);
        assert_eq!(code(&busy), 75, "{busy:?}");
        assert!(text(&busy.stderr).contains("map:a/1"), "{busy:?}");
        let output = stopped.go_on();
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(site.content(&target).as_deref(), Some("slow"));
        assert_eq!(site.states(&target), ["committed", "committed"]);
        // The manifest of a dead publisher is ended under a lease of its own resource.
        drop(Stopped::at(&site, &step, &publish));
        site.world.call(["recover"]);
        drop(Stopped::at(&site, &step, &publish));
        until("its lease is over", || site.world.is_free("map:a/1"));
        site.published("next", &target);
        let audit = site.world.json(["audit", "--resource", "map:a/1"]);
        let entries = audit["entries"].as_array().unwrap();
        let abort = entries
            .iter()
            .rfind(|entry| entry["action"] == "abort")
            .unwrap();
        let lease_of_it = |entry: &&serde_json::Value| {
            entry["action"] == "acquire" && entry["lease"] == abort["lease"]
        };
        assert!(
            entries.iter().any(|entry| lease_of_it(&entry)),
            "{entries:?}"
        );
    }
}

#[test]
fn where_leases_do_not_run_out_a_stopped_publisher_keeps_others_out() {
    let site = Site::sqlite();
    let step = Trace::of(&site).first("mkdir", "/srv/tmp/0");
    let stopped = stopped_at(&site, &step);
    let target = site.target();
    let other = site.source("other");
    let waits = site
        .world
        .call(["publish", &other, &target, "--wait", "1s"]);
    assert_eq!(code(&waits), 75, "{waits:?}");
    let kept = site.world.call(["recover"]);
    assert!(
        text(&kept.stdout).contains("it may be under way"),
        "{kept:?}"
    );
    assert_eq!(code(&stopped.go_on()), 0);
    assert_eq!(site.content(&target).as_deref(), Some("slow"));
    assert_eq!(site.states(&target), ["committed", "committed"]);
}
