//! The lock log.

use std::process::Output;

use crate::world::{World, code, text};

fn logged(world: &World, wanted: &str, arguments: &[&str]) -> Output {
    let mut command = world.tenure();
    command.env("TENURE_LOG", wanted).args(arguments);
    command.output().unwrap()
}

/// Returns the lines of the log.
fn events(output: &Output) -> Vec<String> {
    let said = text(&output.stderr);
    assert!(
        !said.contains('\u{1b}'),
        "no colours where there is no terminal: {said}"
    );
    said.lines().map(str::to_owned).collect()
}

#[test]
fn it_tells_when_a_document_is_locked_and_given_back() {
    let world = World::new();
    std::fs::write(world.path("a.json"), "{}").unwrap();
    for wanted in ["lock=debug", "lock", "debug"] {
        let output = logged(&world, wanted, &["doc", "update", "a.json", "--", "cat"]);
        assert_eq!(code(&output), 0, "{output:?}");
        let events = events(&output);
        let told = |word: &str| events.iter().position(|line| line.contains(word));
        let (acquired, released) = (told("acquired").unwrap(), told("released").unwrap());
        assert!(acquired < released, "{events:?}");
        for (event, time) in [(acquired, "waited="), (released, "held=")] {
            let line = &events[event];
            assert!(
                line.starts_with("20") && line.contains("Z DEBUG lock: "),
                "{line}"
            );
            assert!(
                line.contains(".a.json.lock") && line.contains(time),
                "{line}"
            );
            assert!(line.contains("mode=write"), "{line}");
        }
        assert_eq!(text(&output.stdout).lines().count(), 1, "{output:?}");
    }
}

#[test]
fn it_tells_when_a_lock_of_a_store_is_taken_and_given_back() {
    for world in World::each() {
        let output = logged(&world, "lock=debug", &["run", "x", "--", "true"]);
        assert_eq!(code(&output), 0, "{output:?}");
        let events = events(&output);
        let about = |word: &str| {
            let of = |line: &&String| line.contains("resource=name:x") && line.contains(word);
            events.iter().filter(of).count()
        };
        assert_eq!((about("acquired"), about("released")), (1, 1), "{events:?}");
        assert!(about("waited=") == 1 && about("held=") == 1, "{events:?}");
    }
}

#[test]
fn it_tells_who_waits_in_vain() {
    for world in World::each() {
        let holder = crate::holder::Holder::start(&world, ["x"]);
        let output = logged(
            &world,
            "lock=debug",
            &["run", "--wait", "2s", "x", "--", "true"],
        );
        assert_eq!(code(&output), 75, "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("waiting mode=write resource=name:x"),
            "{said}"
        );
        assert!(
            said.contains("gave up mode=write resource=name:x waited="),
            "{said}"
        );
        drop(holder);
    }
}

#[test]
fn a_lease_that_goes_on_is_not_said_to_be_released() {
    let world = World::new();
    let output = logged(&world, "lock", &["lock", "x"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("acquired") && !said.contains("released"),
        "{said}"
    );
}

#[test]
fn unasked_nothing_is_told() {
    let world = World::new();
    for wanted in ["", "lock=info", "off"] {
        let output = logged(&world, wanted, &["run", "x", "--", "true"]);
        assert_eq!(
            (code(&output), text(&output.stderr).as_str()),
            (0, ""),
            "{wanted:?}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_78_with_an_example() {
    let world = World::new();
    let output = logged(&world, "lock=loud", &["run", "x", "--", "touch", "ran"]);
    assert_eq!(code(&output), 78, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("lock=loud") && said.contains("lock=debug"),
        "{said}"
    );
    assert!(!world.path("ran").exists());
}
