//! Publishers that are stopped at a step while another takes over, or waits.
//!
//! On PostgreSQL a lease runs out while its holder stands still. On SQLite it does not: there the others wait.

use crate::site::Site;
use crate::stopped::{Point, Stopped, points};
use crate::world::{code, text};

/// The calls of the steps, found in a trace.
fn point(points: &[Point], call: &str, part: &str) -> Point {
    let is_it = |point: &&Point| point.call == call && point.line.contains(part);
    let found = points.iter().find(is_it);
    found
        .unwrap_or_else(|| panic!("no {call} of {part}: {points:#?}"))
        .clone()
}

fn traced(site: &Site) -> Vec<Point> {
    let target = site.path("srv/traced").display().to_string();
    site.published("old", &target);
    let source = site.source("traced");
    points(site, &["publish", &source, &target])
}

#[test]
fn a_publisher_that_was_overtaken_before_the_rename_touches_nothing() {
    let site = Site::postgres();
    let points = traced(&site);
    let steps = [
        point(&points, "mkdir", "/srv/tmp/0"),
        point(&points, "open", "/a.txt\", O_WRONLY"),
        point(&points, "fsync", ""),
    ];
    for (number, step) in steps.iter().enumerate() {
        let target = site.path(&format!("srv/t{number}")).display().to_string();
        site.published("old", &target);
        let source = site.source("slow");
        let stopped = Stopped::at(&site, step, &["publish", &source, &target]);
        site.published("newer", &target);
        let output = stopped.go_on();
        assert_eq!(code(&output), 77, "{step:?}: {output:?}");
        assert_eq!(site.content(&target).as_deref(), Some("newer"), "{step:?}");
        assert_eq!(
            site.states(&target),
            ["committed", "aborted", "committed"],
            "{step:?}"
        );
        site.verified(&target);
    }
    assert_eq!(
        site.left_in_tmp(),
        [""; 0],
        "each removes what it made itself"
    );
}

#[test]
fn one_that_is_stopped_between_its_check_and_the_sync_makes_others_wait() {
    let site = Site::postgres();
    let points = traced(&site);
    let renamed = point(&points, "renameat2", "");
    for (number, step) in [point(&points, "flock", "LOCK_EX"), renamed]
        .iter()
        .enumerate()
    {
        let target = site.path(&format!("srv/t{number}")).display().to_string();
        site.published("old", &target);
        let source = site.source("slow");
        let stopped = Stopped::at(&site, step, &["publish", &source, &target]);
        let before = site.content(&target);
        let other = site.source("other");
        // It gets the lease when that of the stopped one is over, and not the lock beside the target.
        let waits = site
            .world
            .call(["publish", &other, &target, "--wait", "6s"]);
        assert_eq!(code(&waits), 75, "{step:?}: {waits:?}");
        assert_eq!(site.content(&target), before, "{step:?}");
        let output = stopped.go_on();
        assert_eq!(code(&output), 77, "{step:?}: {output:?}");
        assert_eq!(site.content(&target), before, "{step:?}");
        let renamed = before.as_deref() == Some("slow");
        assert_eq!(
            text(&output.stderr).contains("is in place, and its manifest"),
            renamed,
            "{output:?}"
        );
        // What it left is told by the inodes.
        let recovered = site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{recovered:?}");
        let outcome = if renamed { "committed" } else { "aborted" };
        assert_eq!(site.states(&target)[1], outcome, "{step:?}");
        site.verified(&target);
        site.published("next", &target);
    }
}

#[test]
fn where_leases_do_not_run_out_a_stopped_publisher_keeps_others_out() {
    let site = Site::sqlite();
    let points = traced(&site);
    let target = site.target();
    site.published("old", &target);
    let source = site.source("slow");
    let step = point(&points, "mkdir", "/srv/tmp/0");
    let stopped = Stopped::at(&site, &step, &["publish", &source, &target]);
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
