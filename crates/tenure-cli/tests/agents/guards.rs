//! Heavy commands, and files that two agents edit.

use serde_json::{Value, json};

use crate::place::{GUARDS, ONE, ONE_OWNER, OTHER, Place, reason};
use crate::world::{code, text};

fn bash(command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}})
}

#[test]
fn guards_are_off_until_they_are_turned_on() {
    let place = Place::new();
    assert_eq!(
        reason(&place.hook(ONE, "PreToolUse", bash("cargo test"))),
        ""
    );
    assert_eq!(place.edit(ONE, "a.rs"), "");
    assert_eq!(place.edit(OTHER, "a.rs"), "");
}

#[test]
fn a_heavy_command_is_denied_with_the_exact_command_to_run_instead() {
    let place = Place::with(GUARDS);
    let denied = reason(&place.hook(ONE, "PreToolUse", bash("cd x && cargo test --all")));
    assert!(
        denied.ends_with("\ncd x && tenure run --slot build:2 -- cargo test --all"),
        "{denied}"
    );
    for line in [
        "tenure run --slot build:2 -- cargo test --all",
        "cargo build",
        "echo cargo test",
    ] {
        assert_eq!(
            reason(&place.hook(ONE, "PreToolUse", bash(line))),
            "",
            "{line}"
        );
    }
}

#[test]
fn a_heavy_command_is_seen_however_it_is_written_and_a_line_that_cannot_be_read_is_told() {
    let place = Place::with(
        "[guard.commands]\n\"cargo test|t\" = \"slot build:2\"\n\"npm test\" = \"slot js:1\"\n",
    );
    let of = |line: &str| reason(&place.hook(ONE, "PreToolUse", bash(line)));
    for line in [
        "@cargo t",
        "A=\"$(pwd)/x\" @cargo test",
        "@/usr/bin/env timeout $T cargo test",
        "@bash --norc <<'EOF'\ncargo test\nEOF",
        "> out.log @${CARGO_HOME}/bin/cargo test",
        "@tenure run --slot other:50 -- cargo test",
    ] {
        let instead = line.replace('@', "tenure run --slot build:2 -- ");
        let denied = of(&line.replace('@', ""));
        assert!(denied.starts_with("cargo test goes through"), "{denied}");
        assert!(
            denied.ends_with(&format!("\n{instead}")),
            "{line}: {denied}"
        );
    }
    assert_eq!(
        of("command -v cargo; cmds=(cargo test); echo ${cargo} test"),
        ""
    );
    // Two slots, each around the commands that need it, can be held at once.
    let both = of("bash -c 'npm test; cargo test'");
    let runs = "tenure run --slot build:2 -- tenure run --slot js:1 -- bash -c";
    assert!(both.contains(runs), "{both}");
    let inner = [env!("CARGO_BIN_EXE_tenure"), "run", "--slot", "js:1", "--"];
    let outer = ["--slot", "build:2", "--"].into_iter();
    let output = place.world.run(outer.chain(inner).chain(["true"]));
    assert_eq!(code(&output), 0, "{output:?}");
    let body = place.body(ONE, "PreToolUse", bash("cargo test 'x"));
    let output = place.send(&body.to_string());
    assert_eq!(place.answer(&output), Value::Null);
    let told = text(&output.stderr);
    assert!(
        told.contains("not guarded") && told.contains("at byte 12"),
        "{told}"
    );
}

#[test]
fn the_places_of_a_slot_are_set_once_and_agents_do_not_choose_them() {
    let place = Place::with(GUARDS);
    let run = |slot: &str, owner: &str| {
        let output = place
            .world
            .run(["--slot", slot, "--owner", owner, "--", "true"]);
        (code(&output), text(&output.stderr))
    };
    assert_eq!(run("build", ONE_OWNER).0, 0);
    assert_eq!(run("build:2", ONE_OWNER).0, 0);
    let (denied, told) = run("build:9", ONE_OWNER);
    assert_eq!(denied, 77);
    assert!(
        told.contains("tenure.toml sets 2") && told.contains("--slot build --"),
        "{told}"
    );
    assert_eq!(run("build:9", "ana@desk").0, 0);
    let (unknown, told) = run("other", ONE_OWNER);
    assert_eq!(unknown, 65);
    assert!(
        told.contains("other:N") && told.contains("[slot]"),
        "{told}"
    );
}

#[test]
fn a_file_that_another_agent_edits_is_denied_with_who_since_when_and_what_to_do() {
    let place = Place::with(GUARDS);
    place.hook(
        ONE,
        "UserPromptSubmit",
        json!({"prompt": "rename the parser"}),
    );
    assert_eq!(place.edit(ONE, "a.rs"), "");
    assert_eq!(place.edit(ONE, "a.rs"), "", "it is its own");
    let denied = place.edit(OTHER, "a.rs");
    for part in [
        "a.rs",
        ONE_OWNER,
        "rename the parser",
        "since 20",
        "tenure ls file:",
        "tenure break ",
    ] {
        assert!(denied.contains(part), "{part}: {denied}");
    }
    assert_eq!(place.edit(OTHER, "b.rs"), "", "another file");
    let held = place.world.json(["ls", "file:"]);
    let held = held["held"].as_array().unwrap();
    assert_eq!(held.len(), 2);
    // The link leads to the file that is held.
    std::os::unix::fs::symlink("a.rs", place.path("link.rs")).unwrap();
    std::fs::write(place.path("a.rs"), "").unwrap();
    assert!(place.edit(OTHER, "link.rs").contains("a.rs"));
    // The end of the session frees the file.
    place.hook(ONE, "SessionEnd", json!({}));
    assert_eq!(place.edit(OTHER, "a.rs"), "");
}

#[test]
fn a_file_is_given_back_at_the_end_of_the_turn_where_that_is_set() {
    let place = Place::with("[guard]\nedits = true\nedits_until = \"turn\"\n");
    assert_eq!(place.edit(ONE, "a.rs"), "");
    assert_ne!(place.edit(OTHER, "a.rs"), "");
    place.hook(ONE, "Stop", json!({}));
    assert_eq!(place.edit(OTHER, "a.rs"), "");
}

#[test]
fn the_file_of_an_agent_that_was_killed_is_free_when_its_time_is_over_or_a_person_breaks_it() {
    let place = Place::with(GUARDS);
    // No event of the agent follows; its lease keeps its ten minutes.
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let held = place.world.json(["ls", "file:"]);
    let lease = held["held"][0].clone();
    assert_eq!(lease["binding"], "lease");
    assert!(lease["expires_at"].is_string());
    assert_ne!(place.edit(OTHER, "a.rs"), "");
    let id = lease["lease"].as_str().unwrap();
    let broken = place
        .world
        .call(["break", id, "--reason", "it was killed", "--yes"]);
    assert_eq!(code(&broken), 0, "{broken:?}");
    crate::world::until("it is free", || place.edit(OTHER, "a.rs").is_empty());
}

#[test]
fn of_a_patch_over_three_files_all_are_taken_or_none() {
    let place = Place::with(GUARDS);
    let patch = |names: [&str; 3]| {
        let files = names.map(|name| format!("*** Update File: {name}\n@@\n-x\n+y\n"));
        let patch = format!("*** Begin Patch\n{}*** End Patch\n", files.concat());
        json!({"turn_id": "t", "tool_name": "apply_patch", "tool_input": {"command": patch}})
    };
    assert_eq!(place.edit(ONE, "b.rs"), "");
    let denied = reason(&place.hook(OTHER, "PreToolUse", patch(["a.rs", "b.rs", "c.rs"])));
    assert!(denied.contains("b.rs"), "{denied}");
    let held = || {
        place.world.json(["ls", "file:"])["held"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(held(), 1, "neither a.rs nor c.rs was taken");
    assert_eq!(
        reason(&place.hook(OTHER, "PreToolUse", patch(["a.rs", "c.rs", "d.rs"]))),
        ""
    );
    assert_eq!(held(), 4);
}

#[test]
fn a_command_that_changed_the_file_of_another_is_told_so() {
    let place = Place::with(GUARDS);
    std::fs::write(place.path("a.rs"), "one").unwrap();
    assert_eq!(place.edit(ONE, "a.rs"), "");
    place.hook(OTHER, "PreToolUse", bash("sed -i s/one/two/ a.rs"));
    std::fs::write(place.path("a.rs"), "two!").unwrap();
    let told = place.hook(OTHER, "PostToolUse", bash("sed -i s/one/two/ a.rs"));
    let told = told["hookSpecificOutput"]["additionalContext"]
        .as_str()
        .unwrap();
    assert!(told.contains("a.rs") && told.contains(ONE_OWNER), "{told}");
    place.hook(OTHER, "PreToolUse", bash("ls"));
    assert_eq!(place.hook(OTHER, "PostToolUse", bash("ls")), Value::Null);
}

#[test]
fn of_two_commands_at_once_each_is_told_what_changed_while_it_ran() {
    let place = Place::with(GUARDS);
    std::fs::write(place.path("a.rs"), "one").unwrap();
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let call = |name: &str, id: &str| {
        let input = json!({"command": "make"});
        let call = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": id});
        place.hook(OTHER, name, call).to_string()
    };
    call("PreToolUse", "first");
    std::fs::write(place.path("a.rs"), "two!").unwrap();
    call("PreToolUse", "second");
    assert_eq!(call("PostToolUse", "second"), "null");
    let told = call("PostToolUse", "first");
    assert!(told.contains("a.rs") && told.contains(ONE_OWNER), "{told}");
}

#[test]
fn of_many_files_that_are_edited_each_is_compared() {
    let place = Place::with(GUARDS);
    for part in 0..2 {
        let names = (0..130).map(|number| format!("*** Add File: {part}-{number}.rs\n+x\n"));
        let patch = format!(
            "*** Begin Patch\n{}*** End Patch\n",
            names.collect::<String>()
        );
        let input = json!({"tool_name": "apply_patch", "tool_input": {"command": patch}});
        assert_eq!(reason(&place.hook(ONE, "PreToolUse", input)), "");
    }
    let began = std::time::Instant::now();
    place.hook(OTHER, "PreToolUse", bash("make"));
    for name in ["0-0.rs", "0-129.rs", "1-99.rs", "1-129.rs"] {
        std::fs::write(place.path(name), "x").unwrap();
    }
    let told = place.hook(OTHER, "PostToolUse", bash("make")).to_string();
    tenure_testkit::tell(format!(
        "260 files compared: {:?} for both hooks",
        began.elapsed()
    ));
    for name in ["/0-0.rs", "/0-129.rs", "/1-99.rs", "/1-129.rs"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    assert_eq!(told.matches("edited by").count(), 4, "{told}");
}

#[test]
fn whatever_tool_edits_a_file_it_is_guarded_and_a_look_is_not() {
    let place = Place::with(GUARDS);
    std::fs::create_dir(place.path("d")).unwrap();
    assert_eq!(place.edit(ONE, "d/a.rs"), "");
    let path = place.path("d/a.rs");
    let of = |tool: &str, input: Value| {
        let call = json!({"tool_name": tool, "tool_input": input});
        reason(&place.hook(OTHER, "PreToolUse", call))
    };
    let patch =
        "apply_patch <<'EOF'\n*** Begin Patch\n  *** Update File: a.rs\n*** End Patch\nEOF\n";
    for (tool, input) in [
        (
            "mcp__filesystem__edit_file",
            json!({"path": path, "edits": []}),
        ),
        (
            "mcp__filesystem__write_file",
            json!({"path": path, "content": "x"}),
        ),
        (
            "str_replace_based_edit_tool",
            json!({"command": "str_replace", "path": path}),
        ),
        ("Bash", json!({"command": format!("cd d && {patch}")})),
        ("Bash", json!({"command": format!("(cd d;\n {patch})")})),
    ] {
        let denied = of(tool, input);
        assert!(denied.contains("a.rs"), "{tool}: {denied}");
    }
    let look = json!({"command": "view", "path": path});
    assert_eq!(of("str_replace_based_edit_tool", look.clone()), "");
    assert_eq!(of("str_replace_editor", look), "");
    // If the event has no directory, that of the hook counts.
    let input = json!({"file_path": "d/a.rs", "content": "x"});
    let mut body = place.body(
        OTHER,
        "PreToolUse",
        json!({"tool_name": "Write", "tool_input": input}),
    );
    body.as_object_mut().unwrap().remove("cwd");
    let denied = reason(&place.answer(&place.send(&body.to_string())));
    assert!(denied.contains("a.rs"), "{denied}");
}

#[test]
fn a_tool_that_may_edit_is_asked_of_the_settings() {
    let place = Place::with(GUARDS);
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let input = json!({"path": place.path("a.rs"), "text": "x"});
    let call = json!({"tool_name": "mcp__notes__put", "tool_input": input});
    let put = || place.send(&place.body(OTHER, "PreToolUse", call.clone()).to_string());
    let output = put();
    let told = text(&output.stderr);
    let line = "[guard.tools] \"mcp__notes__put\" = \"edits path\"";
    assert!(told.contains(line), "{told}");
    assert_eq!(reason(&place.answer(&output)), "");
    for (does, is_denied) in [("edits path", true), ("reads", false)] {
        place.settings(&format!(
            "{GUARDS}[guard.tools]\nmcp__notes__put = \"{does}\"\n"
        ));
        let output = put();
        assert_eq!(text(&output.stderr), "");
        assert_eq!(
            !reason(&place.answer(&output)).is_empty(),
            is_denied,
            "{does}"
        );
    }
    place.settings("[guard.tools]\nx = \"writes\"\n");
    let refused = place.world.call(["ls"]);
    assert_eq!(code(&refused), 78, "{refused:?}");
}

#[test]
fn the_file_of_a_lease_whose_time_is_over_is_free() {
    let place = Place::with(GUARDS);
    let resource = format!("file:{}", place.path("a.rs").display());
    let dead = ["--ttl", "1s", "--owner", "agent:dead"];
    place
        .world
        .lock([resource.as_str()].into_iter().chain(dead));
    crate::world::until("its time is over", || {
        let held = place.world.json(["ls", &resource]);
        held["held"][0]["state"] == "expired"
    });
    crate::world::until("it is free", || place.edit(ONE, "a.rs").is_empty());
    let held = place.world.json(["ls", &resource]);
    assert_eq!(held["held"][0]["owner"], ONE_OWNER);
}

#[test]
fn whatever_the_prompt_is_the_edit_is_guarded() {
    let place = Place::with(GUARDS);
    for (number, prompt) in ["fix\tthis", &"修".repeat(190), "a\u{1b}[31mb"]
        .into_iter()
        .enumerate()
    {
        let file = format!("{number}.rs");
        place.hook(ONE, "UserPromptSubmit", json!({"prompt": prompt}));
        assert_eq!(place.edit(ONE, &file), "");
        assert_ne!(place.edit(OTHER, &file), "", "{prompt:?}");
    }
}

#[test]
fn the_command_to_run_instead_has_the_places_that_are_set_and_a_rule_without_places_is_refused() {
    let place = Place::with(
        "[guard.commands]\n\"make\" = \"slot mk:3\"\n\"npm test\" = \"slot js:2\"\n[slot]\nmk = 1\n",
    );
    let instead = |line: &str| reason(&place.hook(ONE, "PreToolUse", bash(line)));
    assert!(instead("make").ends_with("\ntenure run --slot mk:1 -- make"));
    assert!(instead("npm test").ends_with("\ntenure run --slot js:2 -- npm test"));
    place.settings("[guard.commands]\n\"npm test\" = \"slot nope\"\n");
    let refused = place.world.call(["ls"]);
    assert_eq!(code(&refused), 78, "{refused:?}");
    let told = text(&refused.stderr);
    assert!(
        told.contains("npm test") && told.contains("[slot] nope = 2"),
        "{told}"
    );
}

#[test]
fn an_agent_under_a_run_is_told_that_slots_come_before_its_locks() {
    let place = Place::with(GUARDS);
    let body = place
        .body(ONE, "PreToolUse", bash("cargo test"))
        .to_string();
    let mut command = place.world.tenure();
    command.args(["run", "a", "--", env!("CARGO_BIN_EXE_tenure")]);
    let output = place.begin(&body, &mut command).wait_with_output().unwrap();
    let denied = reason(&place.answer(&output));
    assert!(denied.contains("slots are taken before them"), "{denied}");
    assert!(
        denied.ends_with("\ntenure run --slot build:2 -- cargo test"),
        "{denied}"
    );
}

#[test]
fn a_file_name_is_told_so_that_it_can_be_typed_and_is_no_line_of_its_own() {
    let place = Place::with(GUARDS);
    assert_eq!(place.edit(ONE, "a b\nc.rs"), "");
    let denied = place.edit(OTHER, "a b\nc.rs");
    assert!(denied.contains("a b\\nc.rs is being edited"), "{denied}");
    assert_eq!(denied.lines().count(), 1, "{denied}");
    let start = denied.find("tenure ls ").unwrap();
    let line = &denied[start..start + denied[start..].find(". A person").unwrap()];
    let mut shell = std::process::Command::new("sh");
    place.world.prepare(&mut shell);
    let line = line.replacen("tenure", env!("CARGO_BIN_EXE_tenure"), 1);
    let output = shell.args(["-c", &line]).output().unwrap();
    assert!(
        text(&output.stdout).contains(ONE_OWNER),
        "{line}: {output:?}"
    );
}

#[test]
fn what_a_guard_denies_is_answered_where_the_event_cannot_be_kept() {
    let place = Place::with(GUARDS);
    let body = place
        .body(ONE, "PreToolUse", bash("cargo test"))
        .to_string();
    let mut homeless = place.world.tenure();
    homeless.env_remove("HOME");
    let output = place
        .begin(&body, &mut homeless)
        .wait_with_output()
        .unwrap();
    assert!(reason(&place.answer(&output)).ends_with("cargo test"));
    assert!(text(&output.stderr).contains("HOME"), "{output:?}");
}
