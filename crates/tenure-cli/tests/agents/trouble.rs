//! Stores that cannot be written: read-only, or on a full disk.

use std::process::Command;

use serde_json::json;

use crate::place::{GUARDS, ONE, OTHER, Place, reason};
use crate::world::{code, text};

/// Returns a hook that follows a script in a mount namespace of its own.
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

const READ_ONLY_HOME: &str = "mount --bind home home && mount -o remount,bind,ro home";

#[test]
fn where_slots_cannot_be_written_a_denial_names_the_directory_to_allow_and_how() {
    let place = Place::with(GUARDS);
    let state = place.path("home/.local/state/tenure");
    for (session, program, how) in [
        (ONE, "claude", "in .claude/settings.json: {\"sandbox\""),
        (
            OTHER,
            "codex",
            "in ~/.codex/config.toml: [sandbox_workspace_write]",
        ),
    ] {
        let input = json!({"tool_name": "Bash", "tool_input": {"command": "cargo test"}});
        let body = place.body(session, "PreToolUse", input).to_string();
        let mut command = inside(&place, READ_ONLY_HOME);
        let hook = place.begin_with(&body, &mut command, &["--program", program]);
        let denied = reason(&place.answer(&hook.wait_with_output().unwrap()));
        for part in [
            "cargo test goes through slot build:2",
            state.to_str().unwrap(),
            how,
        ] {
            assert!(denied.contains(part), "{part}: {denied}");
        }
        assert!(!denied.contains("tenure run"), "{denied}");
    }
    // On the rest of the machine the directory can be written.
    let input = json!({"tool_name": "Bash", "tool_input": {"command": "cargo test"}});
    let denied = reason(&place.hook(ONE, "PreToolUse", input));
    assert!(
        denied.contains("tenure run --slot build:2 -- cargo test"),
        "{denied}"
    );
}

#[test]
fn a_command_whose_state_directory_cannot_be_written_is_told_what_to_allow_and_how() {
    let place = Place::new();
    let state = place.path("home/.local/state/tenure").display().to_string();
    for arguments in [
        &["run", "--slot", "build:2", "--", "true"][..],
        &["--store", "user:", "lock", "x"],
    ] {
        for (variable, how) in [
            ("CLAUDECODE", "in .claude/settings.json: {\"sandbox\""),
            ("GEMINI_CLI", "export SANDBOX_MOUNTS="),
            ("TENURE_NOTHING", "as tenure agent install shows"),
        ] {
            let mut command = inside(&place, READ_ONLY_HOME);
            let output = command.args(arguments).env(variable, "1").output().unwrap();
            assert_eq!(code(&output), 69, "{output:?}");
            let told = text(&output.stderr);
            assert!(told.contains(how) && told.contains(&state), "{told}");
        }
    }
}
