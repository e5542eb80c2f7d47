//! Requests that wait for each other.

use std::process::{Child, Stdio};

use crate::terminal::Terminal;
use crate::world::{World, code, text, until_exists};

/// Starts a request that waits, and returns when it is the only one in line.
fn waits(world: &World, resource: &str, owner: &str) -> Child {
    let mut command = world.tenure();
    command.args(["lock", resource, "--owner", owner, "--wait", "5m"]);
    let waiter = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let waiter = waiter.unwrap();
    world.until_waiting(1, waiter.id());
    waiter
}

#[test]
fn an_agent_that_closes_a_circle_is_told_what_to_release() {
    let world = World::new();
    world.lock(["x", "--owner", "agent:a"]);
    let to_release = world.lock(["y", "--owner", "agent:b"]);
    let mut waiter = waits(&world, "y", "agent:a");
    let asked = ["lock", "x", "--owner", "agent:b", "--wait", "1m"];
    let refused = world.call(asked);
    assert_eq!(code(&refused), 76, "{refused:?}");
    let said = text(&refused.stderr);
    for part in [
        "nobody in this circle can go on: ",
        "agent:b waits for name:x (write), which agent:a holds as lease ",
        "agent:a waits for name:y (write), which agent:b holds as lease ",
        &format!("release {to_release}, then ask again"),
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert_eq!(code(&world.call(["release", &to_release])), 0);
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn a_circle_through_an_outer_run_is_refused() {
    let world = World::new();
    world.lock(["y", "--owner", "agent:b"]);
    // The outer run holds one of the locks, and the inner run waits for the other.
    let script =
        "touch held; until [ -e go ]; do sleep 0.01; done; \"$TENURE\" run --wait 1m y -- true";
    let mut command = world.tenure();
    command.args(["run", "--owner", "agent:a", "x", "--", "sh", "-c", script]);
    let outer = command.stderr(Stdio::piped()).spawn().unwrap();
    until_exists(&world.path("held"));
    let mut waiter = waits(&world, "x", "agent:b");
    std::fs::write(world.path("go"), "").unwrap();
    let refused = outer.wait_with_output().unwrap();
    assert_eq!(code(&refused), 76, "{refused:?}");
    let said = text(&refused.stderr);
    let part = "agent:b waits for name:x (write), which agent:a holds as lease ";
    assert!(said.contains(part), "{said}");
    assert!(waiter.wait().unwrap().success());
}

#[test]
fn people_in_a_circle_see_it_whole_on_a_narrow_terminal() {
    let world = World::new();
    let (x, y) = (
        world.lock(["x", "--owner", "ana"]),
        world.lock(["y", "--owner", "bo"]),
    );
    let mut waiter = waits(&world, "y", "ana");
    let mut waiting = Terminal::open(&world);
    waiting.press("\"$TENURE\" lock x --owner bo --wait 5m\n");
    // The line shows both links, in either order.
    let links = [
        format!("ana waits for name:y (write), which bo holds as lease {y}"),
        format!("bo waits for name:x (write), which ana holds as lease {x}"),
    ];
    let mut looking = Terminal::open(&world);
    let is_whole = |line: &str| links.iter().all(|link| line.contains(link));
    let circle_of = |terminal: &mut Terminal| {
        terminal.expect("in a circle: ");
        terminal.expect("\r\n");
        let shown = terminal.screen();
        let line = shown.lines().find(|line| line.contains("in a circle: "));
        line.unwrap().to_owned()
    };
    let told = circle_of(&mut waiting);
    assert!(is_whole(&told), "{told}");
    waiting.expect("tenure: waiting for name:x (write), ");
    for command in ["ls", "status"] {
        looking.press(&format!("\"$TENURE\" {command}; echo at the 'end'\n"));
        let told = circle_of(&mut looking);
        assert!(
            told.starts_with("  in a circle: ") && is_whole(&told),
            "{told}"
        );
        looking.expect("at the end");
        assert!(
            looking.screen().contains('…'),
            "the waiter's own line is cut"
        );
        looking.press("clear\n");
    }
    assert_eq!(code(&world.call(["release", &y])), 0);
    assert!(waiter.wait().unwrap().success());
    assert_eq!(code(&world.call(["release", &x])), 0);
    waiting.expect("$ ");
}
