//! A step fails after the event is in place: the result is unknown, and told with its number.

use std::fs::File;

use serde_json::Value;

use crate::place::{Place, X};
use crate::site::Process;
use crate::strace::{points, strace};
use crate::world::{code, json, text};

/// Runs `tenure ledger ARGUMENTS --json`; its n-th sync and all after it fail.
fn with_failing_syncs(place: &Place, from: usize, arguments: &[&str]) -> (i32, Value) {
    let inject = format!("inject=fsync:error=EIO:when={from}+");
    let arguments = [&["ledger"], arguments, &["--json"]].concat();
    let options = ["-e", "trace=fsync", "-e", inject.as_str()];
    let output = Process::start(&mut strace(&place.world, &options, &arguments)).end();
    (code(&output), json(&output.stdout)["error"].take())
}

#[test]
fn an_event_whose_sync_failed_is_told_as_unknown_with_its_number_and_nobody_appends_before_it_is_synced()
 {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let traced = points(&place.world, &["ledger", "append", "p", X], "/ledger");
    let syncs = traced.iter().filter(|point| point.call == "fsync").count();
    assert_eq!(syncs, 2, "of the event, and of the directory: {traced:?}");
    let (exit, error) = with_failing_syncs(&place, 2, &["append", "p", X]);
    assert_eq!((exit, &error["kind"]), (69, &"unknown".into()), "{error}");
    assert_eq!(error["sequence"], 3);
    let remedy = error["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("tenure ledger show") && remedy.ends_with("p 3"),
        "{remedy}"
    );
    // The next command syncs the event first, and appends nothing if that fails.
    for from in [2, 3] {
        let (exit, error) = with_failing_syncs(&place, from, &["append", "p", X]);
        assert_eq!(
            (exit, &error["kind"]),
            (69, &"unreachable".into()),
            "{error}"
        );
        assert_eq!(place.events(), 3);
    }
    assert_eq!(place.done(&["append", "p", X]), "4");
}

#[test]
fn a_claim_whose_sync_failed_tells_its_token() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let claim = ["claim", "p", "1.2", "--owner", "ana"];
    let (exit, error) = with_failing_syncs(&place, 2, &claim);
    assert_eq!((exit, &error["kind"]), (69, &"unknown".into()), "{error}");
    assert_eq!(error["sequence"], 2);
    place.done(&["claim", "p", "1.2#2", "--owner", "ana"]);
}

#[test]
fn an_answer_that_cannot_be_printed_is_told_with_its_number_on_standard_error() {
    let place = Place::new();
    for (sequence, arguments) in [
        (1, &["append", "p", X][..]),
        (2, &["claim", "p", "1.2", "--owner", "ana"]),
        (3, &["append", "p", X, "--json"]),
        (4, &["claim", "p", "1.3", "--owner", "ana", "--json"]),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(arguments).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), 69, "{said}");
        assert!(said.contains(&format!("p {sequence}")), "{said}");
        if arguments.contains(&"--json") {
            let error = &json(&output.stderr)["error"];
            assert_eq!(
                (&error["kind"], &error["sequence"]),
                (&"unknown".into(), &sequence.into())
            );
        }
    }
    assert_eq!(place.events(), 4);
}
