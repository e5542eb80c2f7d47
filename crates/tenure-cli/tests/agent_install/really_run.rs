//! The findings of `tenure doctor` about hooks: whether they really run.

use std::fs;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::project::{PROGRAMS, Project, with_tenure};
use crate::world::json as parse;

/// Returns whether the hooks of a program are well, and what doctor says of them.
#[track_caller]
fn told(project: &Project, directory: &str, program: &str) -> (bool, String) {
    told_by(project.tenure(directory), program)
}

#[track_caller]
fn told_by(mut doctor: Command, program: &str) -> (bool, String) {
    let output = doctor.args(["doctor", "--json"]).output().unwrap();
    let diagnosis = parse(&output.stdout);
    let checks = diagnosis["checks"].as_array().unwrap();
    let is_of_it = |check: &&Value| {
        check["name"] == "hooks" && check["detail"].as_str().unwrap().starts_with(program)
    };
    let check = checks.iter().find(is_of_it);
    let check = check.unwrap_or_else(|| panic!("nothing of {program}: {diagnosis}"));
    let remedy = check["remedy"].as_str().unwrap_or_default();
    let told = format!("{} / {remedy}", check["detail"].as_str().unwrap());
    (check["ok"].as_bool().unwrap(), told)
}

#[track_caller]
fn is_well(project: &Project, program: &str) {
    let (ok, told) = told(project, "repo", program);
    assert!(ok && told.contains("arrived here"), "{told}");
}

#[track_caller]
fn is_problem(project: &Project, program: &str, parts: &[&str]) {
    let (ok, told) = told(project, "repo", program);
    assert!(!ok, "{told}");
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn an_event_is_sent_through_the_hooks_of_every_program_and_leaves_nothing() {
    let project = Project::new();
    for (program, _, _) in PROGRAMS {
        project.answer(&["install", "--write", program]);
    }
    for (program, _, _) in PROGRAMS {
        is_well(&project, program);
    }
    assert_eq!(project.answer(&["ls", "--all"])["agents"], json!([]));
}

#[test]
fn hooks_that_are_missing_or_turned_off_are_a_problem() {
    let project = Project::new();
    let file = ".claude/settings.json";
    project.write("CLAUDE.md", "");
    let (ok, said) = told(&project, "repo", "claude");
    assert!(ok && said.contains("without hooks"), "{said}");
    project.answer(&["install", "--write", "claude"]);
    is_well(&project, "claude");
    let whole = project.read(file);
    project.write(file, &whole.replace("PreToolUse", "NoEvent"));
    is_problem(
        &project,
        "claude",
        &["lacks what install adds for PreToolUse", "--write claude"],
    );
    let mut narrow: Value = serde_json::from_str(&whole).unwrap();
    narrow["hooks"]["PreToolUse"][0]["matcher"] = "Bash".into();
    project.write(file, &narrow.to_string());
    is_problem(
        &project,
        "claude",
        &["hook of PreToolUse", "is for \"Bash\" alone"],
    );
    for other in [
        "repo/.claude/settings.local.json",
        "home/.claude/settings.json",
    ] {
        project.write(file, &whole);
        let other = project.world.path(other);
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, r#"{"disableAllHooks": true}"#).unwrap();
        is_problem(
            &project,
            "claude",
            &["disableAllHooks", other.to_str().unwrap()],
        );
        fs::remove_file(other).unwrap();
    }
    // The files of the program need an addition if guards refuse what they cannot decide.
    let settings = project
        .read("tenure.toml")
        .replace("[guard]\n", "[guard]\nwhen_unsure = \"deny\"\n");
    project.write("tenure.toml", &settings);
    is_problem(
        &project,
        "claude",
        &["lacks what install adds for PreToolUse"],
    );
}

#[test]
fn a_linked_worktree_without_the_settings_has_no_hooks() {
    let project = Project::new();
    project.link_worktree();
    project.answer(&["install", "--write", "claude"]);
    let (ok, said) = told(&project, "linked", "claude");
    assert!(
        !ok && said.contains("in the main worktree") && said.contains("commit .claude"),
        "{said}"
    );
}

/// A process with the name of a program, which is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tenure_is_looked_for_with_the_path_that_the_program_has() {
    let project = Project::new();
    project.answer(&["install", "--write", "gemini"]);
    let bare = |mut command: Command| {
        command.env("PATH", "/usr/bin:/bin");
        command
    };
    let (ok, said) = told_by(bare(project.tenure("repo")), "gemini");
    assert!(
        !ok && said.contains("not in the PATH of this command"),
        "{said}"
    );
    // The program runs in a process whose PATH differs from that of this command.
    let program = project.world.path("gemini");
    fs::copy("/bin/sleep", &program).unwrap();
    let start = |path: &std::ffi::OsStr| {
        let mut command = Command::new(&program);
        command.current_dir(project.path(""));
        let started = Running(command.arg("600").env("PATH", path).spawn().unwrap());
        let name = format!("/proc/{}/comm", started.0.id());
        crate::world::until("it runs", || {
            fs::read_to_string(&name).unwrap().trim() == "gemini"
        });
        started
    };
    let running = start("/usr/bin:/bin".as_ref());
    let pid = running.0.id();
    is_problem(
        &project,
        "gemini",
        &[&format!("not in the PATH of gemini, process {pid}")],
    );
    drop(running);
    let _running = start(&with_tenure());
    let (ok, said) = told_by(bare(project.tenure("repo")), "gemini");
    assert!(ok && said.contains("process"), "{said}");
}

#[test]
fn hooks_that_codex_does_not_trust_are_a_problem() {
    let project = Project::new();
    project.answer(&["install", "--write", "codex"]);
    is_well(&project, "codex");
    let config = project.world.path("home/.codex/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    is_problem(&project, "codex", &["does not trust this directory"]);
    let here = project.path("").canonicalize().unwrap();
    let hooks = here.join(".codex/hooks.json");
    let trusted = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", here);
    fs::write(&config, &trusted).unwrap();
    is_problem(
        &project,
        "codex",
        &["never trusted: SessionStart", "/hooks"],
    );
    let installed = parse(project.read(".codex/hooks.json").as_bytes());
    let mut whole = trusted.clone();
    for (event, label) in [
        ("SessionStart", "session_start"),
        ("SessionEnd", "session_end"),
        ("UserPromptSubmit", "user_prompt_submit"),
        ("Stop", "stop"),
        ("PreToolUse", "pre_tool_use"),
        ("PostToolUse", "post_tool_use"),
        ("PermissionRequest", "permission_request"),
    ] {
        let hook = &installed["hooks"][event][0]["hooks"][0];
        // Codex allows at most three seconds for the end of a session.
        let timeout = if event == "SessionEnd" {
            3
        } else {
            hook["timeout"].as_u64().unwrap()
        };
        let identity = format!(
            r#"{{"event_name":"{label}","hooks":[{{"async":false,"command":{},"timeout":{timeout},"type":"command"}}]}}"#,
            hook["command"]
        );
        let mut digest = Command::new("sh");
        digest.args([
            "-c",
            "printf %s \"$1\" | sha256sum | cut -c 1-64",
            "sh",
            &identity,
        ]);
        let digest = String::from_utf8(digest.output().unwrap().stdout).unwrap();
        let key = format!("{}:{label}:0:0", hooks.display());
        whole.push_str(&format!(
            "[hooks.state.{key:?}]\ntrusted_hash = \"sha256:{}\"\n",
            digest.trim()
        ));
    }
    fs::write(&config, &whole).unwrap();
    is_well(&project, "codex");
    fs::write(&config, format!("{whole}enabled = false\n")).unwrap();
    is_problem(&project, "codex", &["turned off: PermissionRequest"]);
    fs::write(&config, format!("{whole}[features]\nhooks = false\n")).unwrap();
    is_problem(&project, "codex", &["features.hooks = false"]);
    fs::write(&config, &whole).unwrap();
    let text = project
        .read(".codex/hooks.json")
        .replace("\"timeout\": 10", "\"timeout\": 11");
    project.write(".codex/hooks.json", &text);
    is_problem(
        &project,
        "codex",
        &["not as they were trusted: SessionStart"],
    );
}

#[test]
fn a_hook_whose_event_goes_to_another_store_is_a_problem() {
    let project = Project::new();
    project.answer(&["install", "--write", "claude"]);
    project.write("part/tenure.toml", "store = \"sqlite:other.db\"\n");
    let (ok, said) = told(&project, "repo/part", "claude");
    assert!(
        !ok && said.contains("its event is not in this store"),
        "{said}"
    );
}

#[test]
fn a_command_that_install_would_not_add_is_not_run() {
    let project = Project::new();
    project.answer(&["install", "--write", "claude"]);
    let file = ".claude/settings.json";
    let marker = project.world.path("marker");
    let command = "tenure agent hook --program claude";
    let other = format!("{command}; touch {}", marker.display());
    let text = project.read(file).replace(command, &other);
    project.write(file, &text);
    let (ok, said) = told(&project, "repo", "claude");
    assert!(ok && said.contains("no event was sent"), "{said}");
    assert!(!marker.exists());
}
