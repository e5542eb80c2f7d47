//! A lock on offer to a stopped waiter, which a person takes away.

use crate::process::{Process, field, held, until_in_line};
use crate::world::{World, code, json, signal, state, text, until};

/// Asserts that `run` names the person and the reason, and never starts its command.
#[track_caller]
pub fn ends_run_with_who_broke_it_and_why(world: &World) {
    for form in [&[][..], &["--json"]] {
        let lease = world.lock(["x", "--ttl", "1h"]);
        let run = ["run", "--wait", "60s", "--owner", "first", "x"];
        let run = run.into_iter().chain(form.iter().copied());
        let waiter = Process::tenure(world, run.chain(["--", "touch", "started"]));
        until_in_line(world, "first");
        signal(waiter.id(), libc::SIGSTOP);
        until("it is stopped", || state(waiter.id()) == Some('T'));
        assert_eq!(code(&world.call(["release", &lease])), 0);
        let offered = held(world).remove(0);
        assert_eq!(offered["state"], "offered", "{offered}");
        let mut command = world.tenure();
        command.env("TENURE_OWNER", "eve@desk");
        let id = field(&offered, "lease");
        command.args(["break", &id, "--reason", "wrong branch", "--yes"]);
        let broken = command.output().unwrap();
        assert_eq!(code(&broken), 0, "{broken:?}");
        signal(waiter.id(), libc::SIGCONT);
        let output = waiter.end();
        assert_eq!(code(&output), 79, "{output:?}");
        let said = match form {
            [] => text(&output.stderr),
            _ => {
                let error = &json(&output.stdout)["error"];
                assert_eq!(error["kind"], "lost", "{error}");
                assert_eq!(error["resource"], "name:x", "{error}");
                error.to_string()
            }
        };
        for part in ["name:x", "eve@desk", "wrong branch", "never started"] {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
        assert!(!world.path("started").exists());
    }
}
