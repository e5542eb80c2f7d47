//! Stores that cannot be written: read-only, or on a full disk.

use std::process::Command;

use serde_json::json;

use crate::place::{ONE, Place};
use crate::world::{code, text};

/// The hook, after a script in a mount namespace of its own.
fn inside(place: &Place, script: &str) -> Command {
    let mut command = Command::new("unshare");
    place.world.prepare(&mut command);
    let script = format!("{script} && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_tenure"));
    command
}

#[test]
fn a_store_that_is_read_only_is_told_and_the_event_waits() {
    let place = Place::new();
    place.hook(ONE, "SessionStart", json!({}));
    place.with_default_wait();
    let body = place
        .body(ONE, "UserPromptSubmit", json!({"prompt": "go"}))
        .to_string();
    let script = "mount --bind store store && mount -o remount,bind,ro store";
    let hook = place.begin(&body, &mut inside(&place, script));
    let output = hook.wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
    assert!(
        text(&output.stderr).contains("the event waits"),
        "{output:?}"
    );
    place.settings("");
    assert_eq!(place.agent(ONE)["commands"], 0);
    assert_eq!(place.watch()["spooled"], 1);
    assert_eq!(place.agent(ONE)["commands"], 1);
}

#[test]
fn on_a_full_disk_a_hook_says_so_and_changes_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    let body = place
        .body(ONE, "UserPromptSubmit", json!({"prompt": "go"}))
        .to_string();
    let script = "mount -t tmpfs -o size=1m none disk && mkdir disk/store disk/home && \
        { dd if=/dev/zero of=disk/full bs=4k 2>/dev/null || true; }";
    let mut command = inside(&place, script);
    let (store, home) = (place.path("disk/store/tenure.db"), place.path("disk/home"));
    command.env("TENURE_STORE", format!("sqlite:{}", store.display()));
    command.env("HOME", home);
    let output = place.begin(&body, &mut command).wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, ""));
    let told = text(&output.stderr);
    assert!(
        told.contains("agent hook: ") && told.to_lowercase().contains("no space"),
        "{told}"
    );
}
