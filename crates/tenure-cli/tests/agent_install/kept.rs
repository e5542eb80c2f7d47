//! Files that exist already, are broken, are links, or belong to others.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use serde_json::Value;

use crate::project::{PROGRAMS, Project};
use crate::world::{code, text};

#[test]
fn every_byte_of_other_hooks_is_kept_and_uninstall_restores_the_file() {
    for (program, file, event) in PROGRAMS {
        for old in [
            format!(
                "{{\n\t\"z\": [1,2 ,3],\n\t\"hooks\": {{\n\t\t\"{event}\": [\n\t\t\t{{\"command\": \"./mine \\\"x\\\"\"}}\n\t\t],\n\t\t\"Own\":[ ]\n\t}},\n\t\"a\": {{ }}\n}}"
            ),
            format!("{{\"hooks\":{{\"{event}\":[{{\"command\":\"é\"}}]}},\"version\":1}}\n"),
            "{}\n".to_owned(),
        ] {
            let project = Project::new();
            project.write(file, &old);
            project.write(
                "tenure.toml",
                "# mine\nwait = \"5s\"\n\n[retry]\nattempts = 2",
            );
            let toml = project.read("tenure.toml");
            project.answer(&["install", "--write", program]);
            let new = project.read(file);
            // The old content is there in its order, with additions in between.
            let mut rest = new.chars();
            assert!(old.chars().all(|c| rest.any(|other| other == c)), "{new}");
            let value: Value = serde_json::from_str(&new).unwrap();
            let hooks = value["hooks"][event].as_array().unwrap();
            assert_eq!(hooks.len(), if old.len() < 5 { 1 } else { 2 }, "{new}");
            let was: Value = serde_json::from_str(&old).unwrap();
            assert!(old.len() < 5 || was["hooks"][event][0] == hooks[0]);
            assert!(project.read("tenure.toml").contains(&toml));

            project.answer(&["uninstall", program]);
            assert_eq!(project.read(file), old);
            assert_eq!(project.read("tenure.toml"), toml);
        }
    }
}

#[test]
fn broken_json_is_refused_and_nothing_at_all_is_changed() {
    for (program, file, _) in PROGRAMS {
        for broken in ["{\"hooks\": ", "", "{\"a\":1,\"a\":2}", "{\"hooks\": 7}"] {
            let project = Project::new();
            project.write(file, broken);
            for arguments in [&["install", "--write", program][..], &["install", program]] {
                let output = project.agent(arguments);
                assert_eq!(code(&output), 65, "{broken}: {output:?}");
                assert!(text(&output.stderr).contains(file), "{output:?}");
            }
            assert_eq!(project.read(file), broken);
            assert!(!project.path("tenure.toml").exists());
        }
    }
}

#[test]
fn with_one_broken_file_no_other_is_changed() {
    let project = Project::new();
    project.write(".claude/settings.json", "{}");
    project.write(".gemini/settings.json", "{ // a comment\n}");
    assert_eq!(code(&project.agent(&["install", "--write"])), 65);
    assert_eq!(project.read(".claude/settings.json"), "{}");
    project.write(".gemini/settings.json", "{}");
    project.write("tenure.toml", "nonsense = 1\n");
    assert_eq!(code(&project.agent(&["install", "--write"])), 78);
    assert_eq!(project.read(".claude/settings.json"), "{}");
}

#[test]
fn a_link_is_refused_and_what_it_leads_to_is_untouched() {
    let project = Project::new();
    project.write("elsewhere/settings.json", "{}");
    symlink("elsewhere", project.path(".claude")).unwrap();
    fs::create_dir(project.path(".codex")).unwrap();
    symlink(
        "../elsewhere/settings.json",
        project.path(".codex/hooks.json"),
    )
    .unwrap();
    for program in ["claude", "codex"] {
        let output = project.agent(&["install", "--write", program]);
        assert_eq!(code(&output), 77, "{output:?}");
        assert!(text(&output.stderr).contains("is a link"), "{output:?}");
    }
    assert_eq!(project.read("elsewhere/settings.json"), "{}");
}

#[test]
fn a_file_of_another_user_is_refused() {
    let project = Project::new();
    project.write(".cursor/hooks.json", "{}");
    chown(project.path(".cursor/hooks.json"), Some(65534), None).unwrap();
    let output = project.agent(&["install", "--write", "cursor"]);
    assert_eq!(code(&output), 77, "{output:?}");
    assert_eq!(project.read(".cursor/hooks.json"), "{}");
}

#[test]
fn another_store_is_kept_and_told() {
    let project = Project::new();
    let toml = "store = \"sqlite:.locks/t.db\"\n";
    project.write("tenure.toml", toml);
    let output = project.agent(&["install", "--write", "codex"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(
        text(&output.stderr).contains("sqlite:.locks/t.db"),
        "{output:?}"
    );
    let new = project.read("tenure.toml");
    assert!(
        new.starts_with(toml) && new.contains("[guard]\nedits = true"),
        "{new}"
    );
    project.answer(&["uninstall"]);
    assert_eq!(project.read("tenure.toml"), toml);
}

#[test]
fn many_installs_at_once_add_each_hook_once() {
    let project = Project::new();
    let start = |_| {
        let mut command = project.tenure("repo");
        command.args(["agent", "install", "--write", "claude", "--json"]);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let mut all: Vec<_> = (0..6).map(start).collect();
    assert!(all.iter_mut().all(|child| child.wait().unwrap().success()));
    let read: Value = serde_json::from_str(&project.read(".claude/settings.json")).unwrap();
    let hooks = read["hooks"].as_object().unwrap();
    assert!(
        hooks
            .values()
            .all(|list| list.as_array().unwrap().len() == 1)
    );
    assert_eq!(project.read("tenure.toml").matches("store =").count(), 1);
}

#[test]
fn a_guard_of_the_file_is_completed_or_kept_and_told() {
    let project = Project::new();
    project.write("tenure.toml", "[guard.commands]\nmake = \"slot build:2\"\n");
    project.answer(&["install", "--write", "claude"]);
    assert!(
        project
            .read("tenure.toml")
            .contains("[guard]\nedits = true")
    );
    let project = Project::new();
    project.write("tenure.toml", "guard.edits = false\n");
    let output = project.agent(&["install", "--write", "claude"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let told = text(&output.stderr);
    assert!(
        told.contains("guard of its own") && !told.contains("duplicate"),
        "{told}"
    );
    assert!(project.path(".claude/settings.json").exists());
}

#[test]
fn where_guards_deny_what_they_cannot_decide_claude_code_is_told_to_block_too() {
    let project = Project::new();
    project.write("tenure.toml", "[guard]\nedits = true\n");
    project.answer(&["install", "--write", "claude"]);
    let allowing = project.read(".claude/settings.json");
    assert!(!allowing.contains("onFailure"));
    let settings = "[guard]\nedits = true\nwhen_unsure = \"deny\"\n";
    project.write("tenure.toml", settings);
    let shown = text(&project.agent(&["install", "claude"]).stdout);
    let line = "+ hooks.PreToolUse: tenure agent hook --program claude (onFailure: block)";
    assert!(shown.contains(line), "{shown}");
    project.answer(&["install", "--write"]);
    let read: Value = serde_json::from_str(&project.read(".claude/settings.json")).unwrap();
    for (event, entries) in read["hooks"].as_object().unwrap() {
        let expected = match event.as_str() {
            "PreToolUse" => Value::from("block"),
            _ => Value::Null,
        };
        assert_eq!(entries[0]["hooks"][0]["onFailure"], expected, "{event}");
    }
    project.write("tenure.toml", "[guard]\nedits = true\n");
    project.answer(&["install", "--write"]);
    assert_eq!(project.read(".claude/settings.json"), allowing);
    project.write("tenure.toml", settings);
    project.answer(&["install", "--write"]);
    project.answer(&["uninstall"]);
    assert!(!project.path(".claude/settings.json").exists());
}

#[test]
fn new_files_have_the_mode_that_the_umask_gives_them() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new();
    let mut command = std::process::Command::new("sh");
    project.world.prepare(&mut command);
    let script = "umask 022 && cd repo && exec \"$TENURE\" agent install --write claude";
    command.env_remove("TENURE_STORE").args(["-c", script]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    for file in [".claude/settings.json", "tenure.toml"] {
        let mode = fs::metadata(project.path(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644, "{file}");
    }
}

#[test]
fn what_a_killed_install_leaves_is_removed_by_the_next_install_and_by_uninstall() {
    let of_others = ".claude/.settings.json.0123456789abcde.tmp";
    let finishes = [
        &["install", "--write", "claude"][..],
        &["uninstall", "claude"],
    ];
    // Each kill comes at a file, at the call that puts it in place.
    for (rename, directory) in [("renameat2", ".claude"), ("rename", "")] {
        for finish in finishes {
            let project = Project::new();
            project.write(of_others, "");
            let inject = format!("inject={rename}:signal=KILL:when=1");
            let mut command = std::process::Command::new("strace");
            project.world.prepare(&mut command);
            command
                .env_remove("TENURE_STORE")
                .current_dir(project.path(""));
            command.args(["-qq", "-f", "-o", "/dev/null", "-e", &inject]);
            command.arg(env!("CARGO_BIN_EXE_tenure"));
            command.args(["agent", "install", "--write", "claude"]);
            assert!(!command.output().unwrap().status.success());
            let left = || {
                let entries = fs::read_dir(project.path(directory)).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name());
                let names = names.map(|name| name.into_string().unwrap());
                let ours = |name: &String| name.ends_with(".tmp") && !of_others.ends_with(name);
                names.filter(ours).count()
            };
            assert_eq!(left(), 1, "{finish:?}");
            project.answer(finish);
            assert_eq!(left(), 0, "{finish:?}");
            assert!(project.path(of_others).exists());
        }
    }
}

#[test]
fn after_uninstall_a_program_does_not_count_as_used() {
    let project = Project::new();
    project.answer(&["install", "--write", "claude"]);
    project.answer(&["uninstall", "claude"]);
    let output = project.agent(&["install"]);
    assert_eq!(code(&output), 66, "{output:?}");
}
