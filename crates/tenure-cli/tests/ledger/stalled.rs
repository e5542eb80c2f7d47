//! An appender that stands still while its lock is taken away.

use std::fs;

use crate::place::{Place, X};
use crate::site::Process;
use crate::strace::{Point, points, strace};
use crate::world::{code, signal, text, until};

const OURS: &str = "{\"type\":\"ours\"}";

/// Starts a `tenure ledger append` that stands still after a call.
fn stopped_after(place: &Place, is_meant: impl Fn(&Point) -> bool) -> Process {
    let arguments = ["ledger", "append", "q", OURS];
    assert_eq!(code(&place.call(&["init", "q"])), 0);
    let points = points(&place.world, &arguments, "/ledger");
    let point = points
        .into_iter()
        .find(is_meant)
        .expect("there is such a call");
    // Its event in this ledger comes after the calls that were traced in the other one.
    let arguments = ["ledger", "append", "p", OURS];
    let filter = format!("trace={}", point.call);
    let inject = format!("inject={}:signal=STOP:when={}", point.call, point.number);
    let mut command = strace(&place.world, &["-e", &filter, "-e", &inject], &arguments);
    let tracer = Process::start(&mut command);
    let trace = place.world.path("trace");
    until("it stands still", || {
        let trace = fs::read(&trace).unwrap_or_default();
        text(&trace).contains("stopped by SIGSTOP")
    });
    tracer
}

fn go_on(tracer: Process) -> std::process::Output {
    let id = tracer.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    signal(children.unwrap().trim().parse().unwrap(), libc::SIGCONT);
    tracer.end()
}

/// Takes the lock as a stranger who thinks it stale, appends, and goes.
fn stranger_appends(place: &Place, sequence: u64) {
    fs::remove_file(place.path("ledger.lock")).unwrap();
    fs::create_dir(place.path("ledger.lock")).unwrap();
    place.put(sequence, "{\"type\":\"theirs\"}");
    fs::remove_dir(place.path("ledger.lock")).unwrap();
}

#[test]
fn an_appender_whose_lock_was_taken_before_its_event_is_in_place_writes_nothing() {
    let place = Place::new();
    let stalled = stopped_after(&place, |point| {
        point.call.starts_with("link") && point.line.contains("ledger.lock")
    });
    // No process of ours takes its lock, however long it stands still.
    place.refused(75, &["append", "p", "--wait", "50ms", X]);
    stranger_appends(&place, 1);
    let output = go_on(stalled);
    assert_eq!(code(&output), 79, "{output:?}");
    assert!(output.stdout.is_empty());
    assert_eq!(place.kinds(), ["theirs"]);
    assert_eq!(place.done(&["append", "p", X]), "2");
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.ends_with(".tmp"))
            .count(),
        1
    );
}

#[test]
fn an_appender_whose_lock_was_taken_after_its_event_is_in_place_does_not_acknowledge_it() {
    for replaced in [false, true] {
        let place = Place::new();
        let stalled = stopped_after(&place, |point| {
            point.call.starts_with("link") && point.line.contains("event-000001.json")
        });
        fs::remove_file(place.path("ledger.lock")).unwrap();
        if replaced {
            // A stranger that counted before our event came puts its own event over ours.
            let own = place.path("own");
            fs::write(&own, "{\"type\":\"theirs\"}\n").unwrap();
            fs::rename(own, place.path("event-000001.json")).unwrap();
            fs::hard_link(place.path(".ledger.lock.tmp"), place.path("ledger.lock")).unwrap();
        }
        let output = go_on(stalled);
        assert_eq!(code(&output), 79, "{output:?}");
        assert!(output.stdout.is_empty());
        let said = text(&output.stderr);
        assert!(said.contains("tenure ledger log"), "{said}");
        assert_eq!(place.done(&["append", "p", X]), "2");
    }
}
