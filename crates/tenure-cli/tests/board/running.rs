//! `board run`: done, failed, killed, lost.

use std::fs;

use crate::place::Place;
use crate::site::Process;
use crate::world::{code, is_alive, json, signal, text, until, until_exists};

#[test]
fn a_command_that_ends_well_is_given_the_issue_and_makes_it_done() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let script = "cat > issue; echo $TENURE_ISSUE $TENURE_TOKEN $TENURE_OWNER > environment";
    place.done(&["run", "--owner", "agent:1", "--", "sh", "-c", script]);
    let issue = json(&fs::read(place.world.path("issue")).unwrap());
    assert_eq!(
        (&issue["id"], &issue["claim"]["owner"]),
        (&"a".into(), &"agent:1".into())
    );
    let environment = fs::read_to_string(place.world.path("environment")).unwrap();
    assert_eq!(
        environment.trim(),
        format!("a {} agent:1", issue["claim"]["token"])
    );
    assert_eq!(place.issue("a")["state"], "done");
    assert_eq!(place.issue("b")["claim"], serde_json::Value::Null);
}

#[test]
fn a_command_that_fails_or_cannot_start_leaves_the_issue_to_others() {
    let place = Place::new();
    place.add(&["a"]);
    assert_eq!(code(&place.call(&["run", "--", "sh", "-c", "exit 3"])), 3);
    assert_eq!(code(&place.call(&["run", "--", "/nowhere/agent"])), 127);
    let issue = place.issue("a");
    assert_eq!(
        (&issue["state"], &issue["claim"]),
        (&"open".into(), &serde_json::Value::Null)
    );
    let notes: Vec<&str> = issue["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        notes,
        [
            "the command ended with 3",
            "the command could not be started"
        ]
    );
}

/// Starts a `board run` whose command writes its process id and sleeps.
fn asleep(place: &Place, arguments: &[&str]) -> (Process, u32) {
    let script = "echo $$ > pid.new && mv pid.new pid && exec sleep 600";
    let arguments = [&["run"], arguments, &["--", "sh", "-c", script]].concat();
    let run = Process::start(&mut place.command(&arguments));
    until_exists(&place.world.path("pid"));
    let pid = fs::read_to_string(place.world.path("pid")).unwrap();
    (run, pid.trim().parse().unwrap())
}

#[test]
fn when_run_is_killed_so_is_its_command_and_the_claim_ends_by_itself() {
    let place = Place::new();
    place.add(&["a"]);
    let (mut run, command) = asleep(&place, &["--ttl", "2s", "--owner", "agent:1"]);
    run.kill();
    until("the command is gone", || !is_alive(command));
    until("another gets the issue", || {
        code(&place.call(&["next", "--claim", "--owner", "agent:2"])) == 0
    });
    assert_eq!(place.issue("a")["claim"]["owner"], "agent:2");
}

#[test]
fn when_its_command_is_killed_the_issue_is_released_with_a_note() {
    let place = Place::new();
    place.add(&["a"]);
    let (run, command) = asleep(&place, &[]);
    signal(command, libc::SIGKILL);
    assert_eq!(code(&run.end()), 137);
    let issue = place.issue("a");
    assert_eq!(
        issue["notes"][0]["text"],
        "the command was ended by signal 9"
    );
    assert_eq!(issue["claim"], serde_json::Value::Null);
}

#[test]
fn a_signal_to_run_reaches_the_command_and_the_issue_is_released() {
    let place = Place::new();
    place.add(&["a"]);
    let (run, command) = asleep(&place, &[]);
    signal(run.id(), libc::SIGTERM);
    assert_eq!(code(&run.end()), 143);
    assert!(!is_alive(command));
    assert_eq!(place.issue("a")["claim"], serde_json::Value::Null);
}

#[test]
fn the_claim_is_renewed_while_the_command_runs() {
    let place = Place::new();
    place.add(&["a"]);
    let (run, command) = asleep(&place, &["--ttl", "3s", "--owner", "agent:1"]);
    let until_when = || {
        place.issue("a")["claim"]["expires_at"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = until_when();
    until("it is renewed", || until_when() > first);
    let second = until_when();
    until("it is renewed again", || until_when() > second);
    place.refused(75, &["next", "--claim", "--owner", "agent:2"]);
    signal(command, libc::SIGTERM);
    assert_eq!(code(&run.end()), 143);
}

#[test]
fn a_run_that_stood_still_too_long_ends_its_command_and_leaves_the_issue_to_the_next_owner() {
    let place = Place::new();
    place.add(&["a"]);
    let (run, command) = asleep(&place, &["--ttl", "1s", "--owner", "agent:1"]);
    signal(run.id(), libc::SIGSTOP);
    until("another gets the issue", || {
        code(&place.call(&["claim", "a", "--owner", "agent:2"])) == 0
    });
    signal(run.id(), libc::SIGCONT);
    let output = run.end();
    assert_eq!(code(&output), 79, "{output:?}");
    assert!(!is_alive(command));
    let issue = place.issue("a");
    assert_eq!(
        (&issue["claim"]["owner"], &issue["state"]),
        (&"agent:2".into(), &"open".into())
    );
}

/// Writes its process id and that of a process that it leaves in the background.
const TWO: &str = "sleep 600 & echo $$ $! > pid.new && mv pid.new pid && exec sleep 600";

#[test]
fn the_command_of_a_run_that_is_stopped_is_dead_before_another_gets_the_issue() {
    let place = Place::new();
    place.add(&["a"]);
    let arguments = [
        "run", "--ttl", "3s", "--owner", "agent:1", "--", "sh", "-c", TWO,
    ];
    let run = Process::start(&mut place.command(&arguments));
    until_exists(&place.world.path("pid"));
    let pids = fs::read_to_string(place.world.path("pid")).unwrap();
    let pids: Vec<u32> = pids
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    signal(run.id(), libc::SIGSTOP);
    until("another gets the issue", || {
        code(&place.call(&["claim", "a", "--owner", "agent:2"])) == 0
    });
    for pid in pids {
        assert!(!is_alive(pid), "{pid} works on an issue that is another's");
    }
    signal(run.id(), libc::SIGCONT);
    let output = run.end();
    assert_eq!(code(&output), 79, "{output:?}");
    assert!(text(&output.stderr).contains("SIGKILL"), "{output:?}");
}

/// Returns the watchdog of a run: its child that is not the command.
fn watchdog(run: &Process, command: u32) -> Option<u32> {
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let children = fs::read_to_string(children).unwrap();
    let mut children = children.split_whitespace().map(|n| n.parse().unwrap());
    children.find(|child| *child != command)
}

#[test]
fn when_its_watchdog_is_killed_the_command_is_stopped_and_nothing_is_left_behind() {
    let place = Place::new();
    place.add(&["a"]);
    let (run, command) = asleep(&place, &["--owner", "agent:1"]);
    let watchdog = watchdog(&run, command).expect("a watchdog");
    // The watchdog has a session and a group of its own, which Ctrl-Z does not reach.
    let stat = fs::read_to_string(format!("/proc/{watchdog}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        fields[2..4],
        [watchdog.to_string(), watchdog.to_string()],
        "{stat}"
    );
    let open = fs::read_dir(format!("/proc/{watchdog}/fd")).unwrap();
    let open: Vec<_> = open
        .map(|fd| fs::read_link(fd.unwrap().path()).unwrap())
        .collect();
    assert!(
        open.iter().all(|file| {
            let file = file.to_str().unwrap();
            file.starts_with("socket:") || file == "anon_inode:[pidfd]"
        }),
        "{open:?}"
    );
    signal(watchdog, libc::SIGKILL);
    let output = run.end();
    assert_eq!(code(&output), 79, "{output:?}");
    assert!(text(&output.stderr).contains("SIGTERM"), "{output:?}");
    assert!(!is_alive(command));
    // The watchdog is reaped, too.
    assert_eq!(crate::world::state(watchdog), None);
}

#[test]
fn a_watchdog_ends_with_its_run_however_that_ends() {
    let place = Place::new();
    place.add(&["a", "b"]);
    for how in [libc::SIGTERM, libc::SIGKILL] {
        let (run, command) = asleep(&place, &["--ttl", "60s"]);
        let watchdog = watchdog(&run, command).expect("a watchdog");
        signal(run.id(), how);
        run.end();
        until("the watchdog is gone", || !is_alive(watchdog));
        fs::remove_file(place.world.path("pid")).unwrap();
    }
}

#[test]
fn nothing_left_is_66_and_nothing_ready_is_75_with_counts() {
    let place = Place::new();
    let said = place.refused(66, &["run", "--", "true"]);
    assert!(said.contains("0 open, 0 claimed, 0 blocked"), "{said}");
    place.add(&["a"]);
    place.done(&["add", "x", "--id", "b", "--depends", "a"]);
    place.done(&["claim", "a", "--owner", "agent:1"]);
    for arguments in [
        &["run", "--", "true"][..],
        &["next", "--claim"],
        &["next", "--wait", "100ms"],
    ] {
        let said = place.refused(75, arguments);
        assert!(said.contains("2 open, 1 claimed, 1 blocked"), "{said}");
    }
    place.refused(66, &["next", "--label", "web"]);
    let error = place.call(&["next", "--json"]);
    assert_eq!(json(&error.stdout)["error"]["kind"], "busy");
}

#[test]
fn one_who_waits_gets_the_issue_when_it_becomes_ready_and_a_signal_ends_the_wait() {
    let place = Place::new();
    place.add(&["a"]);
    place.done(&["claim", "a", "--owner", "agent:1"]);
    let next = Process::start(
        &mut place.command(&["next", "--claim", "--wait", "60s", "--owner", "agent:2"]),
    );
    next.until_said("waiting for an issue");
    place.done(&["release", "a", "--owner", "agent:1"]);
    let output = next.end();
    assert_eq!((code(&output), text(&output.stdout).trim()), (0, "a"));
    for arguments in [
        &["next", "--wait", "60s"][..],
        &["run", "--wait", "60s", "--", "true"],
    ] {
        let waiting = Process::start(&mut place.command(arguments));
        waiting.until_said("waiting for an issue");
        signal(waiting.id(), libc::SIGINT);
        assert_eq!(code(&waiting.end()), 130);
    }
}

#[test]
fn a_run_killed_at_any_moment_leaves_the_board_whole() {
    let place = Place::new();
    let mut states = std::collections::BTreeSet::new();
    for number in 0..40 {
        let name = format!("i{number}");
        place.add(&[&name]);
        let mut run = Process::start(&mut place.command(&["run", "--", "true"]));
        // The sleep waits for no condition: each run is killed at another moment of its work.
        std::thread::sleep(std::time::Duration::from_millis(number * 2));
        run.kill();
        run.end();
        crate::place::judge(&place.root());
        let issue = place.issue(&name);
        states.insert((issue["claim"].is_null(), issue["state"].to_string()));
        if issue["state"] == "open" {
            place.done(&[
                "delete",
                &name,
                "--owner",
                issue["claim"]["owner"].as_str().unwrap_or("ana"),
            ]);
        }
    }
    eprintln!("{states:?}");
}

#[test]
fn a_command_that_says_itself_that_its_issue_is_done_has_ended_well() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let done = "\"$TENURE\" board done $TENURE_ISSUE --token $TENURE_TOKEN --dir \"$BOARD\"";
    let run = |arguments: &[&str], script: &str| {
        let arguments = [&["run"], arguments, &["--", "sh", "-c", script]].concat();
        let mut command = place.command(&arguments);
        command.env("BOARD", place.root()).output().unwrap()
    };
    let output = run(&[], done);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(place.issue("a")["state"], "done");
    // The command goes on for longer than the claim would have lasted, and fails in the end.
    let long = format!("{done} && sleep 1.5; exit 3");
    let output = run(&["--ttl", "1s"], &long);
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(!text(&output.stderr).contains("done already"), "{output:?}");
    assert_eq!(place.issue("b")["state"], "done");
}

#[test]
fn an_issue_that_its_command_gives_back_or_deletes_is_not_done() {
    let place = Place::new();
    place.add(&["a", "b", "c"]);
    let run = |words: &str| {
        let script = format!("\"$TENURE\" board {words} --dir \"$BOARD\"");
        let mut command = place.command(&["run", "--", "sh", "-c", &script]);
        let output = command.env("BOARD", place.root()).output().unwrap();
        assert_eq!(code(&output), 0, "{words}: {output:?}");
    };
    run("release a --token $TENURE_TOKEN");
    assert_eq!(place.issue("a")["state"], "open");
    assert_eq!(place.issue("a")["claim"], serde_json::Value::Null);
    run("delete a");
    assert_eq!(code(&place.command(&["show", "a"]).output().unwrap()), 66);
    let reopened =
        "done b --token $TENURE_TOKEN --dir \"$BOARD\" && \"$TENURE\" board set b state=open";
    run(reopened);
    assert_eq!(place.issue("b")["state"], "open");
}

#[test]
fn the_variables_of_a_run_around_it_are_not_mixed_with_those_of_the_issue() {
    let place = Place::new();
    place.add(&["a"]);
    let mut command = place.world.tenure();
    let script = "echo $TENURE_RESOURCE,$TENURE_LEASE,$TENURE_ISSUE; test -n \"$TENURE_LEASES\"";
    command.args(["run", "outer", "--", env!("CARGO_BIN_EXE_tenure"), "board"]);
    command.args(place.on(&["run", "--", "sh", "-c", script]));
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stdout).trim(), "issue:a,,a");
}
