//! Install and uninstall for every program, from nothing to nothing.

use serde_json::Value;

use crate::project::{PROGRAMS, Project};
use crate::world::{code, text};

/// Returns the command of the hook for an event, and the hook, whatever the form of the file.
fn command_of(settings: &str, event: &str) -> (String, Value) {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let entry = settings["hooks"][event][0].clone();
    let hook = match &entry["hooks"] {
        Value::Array(group) => group[0].clone(),
        _ => entry,
    };
    let command = hook["command"].as_str().or(hook["bash"].as_str());
    (command.unwrap().to_owned(), hook)
}

#[test]
fn install_shows_the_change_and_makes_it_only_with_write() {
    for (program, file, event) in PROGRAMS {
        let project = Project::new();
        let shown = project.agent(&["install", program]);
        assert_eq!(code(&shown), 0, "{shown:?}");
        let said = text(&shown.stdout);
        assert!(said.contains(&format!(
            "+ hooks.{event}: tenure agent hook --program {program}"
        )));
        assert!(said.contains("+ store = \"user:\""), "{said}");
        let state = project.state_directory();
        assert!(said.contains(state.to_str().unwrap()), "{said}");
        assert!(!project.path(file).exists() && !project.path("tenure.toml").exists());
        assert!(!state.exists(), "nothing is made");

        let written = project.agent(&["install", "--write", program]);
        assert_eq!(code(&written), 0, "{written:?}");
        assert_eq!(text(&written.stdout), said, "the change is shown first");
        let (command, hook) = command_of(&project.read(file), event);
        assert!(command.starts_with(&format!("tenure agent hook --program {program}")));
        let timeout = match program {
            "gemini" => (&hook["timeout"], 10_000),
            "copilot" => (&hook["timeoutSec"], 10),
            _ => (&hook["timeout"], 10),
        };
        assert_eq!(timeout.0, timeout.1, "{hook}");
        assert!(
            project
                .read("tenure.toml")
                .contains("\nstore = \"user:\"\n")
        );
    }
}

#[test]
fn install_twice_is_install_once() {
    for (program, file, _) in PROGRAMS {
        let project = Project::new();
        project.answer(&["install", "--write", program]);
        let (settings, toml) = (project.read(file), project.read("tenure.toml"));
        let again = project.answer(&["install", "--write", program]);
        for change in again["changes"].as_array().unwrap() {
            assert_eq!(change["state"], "present", "{again}");
            assert_eq!(change["added"], serde_json::json!([]));
        }
        assert_eq!(project.read(file), settings);
        assert_eq!(project.read("tenure.toml"), toml);
    }
}

#[test]
fn uninstall_leaves_nothing_of_an_install_into_nothing() {
    for (program, file, _) in PROGRAMS {
        let project = Project::new();
        project.answer(&["install", "--write", program]);
        let removed = project.answer(&["uninstall", program]);
        assert_eq!(removed["changes"][0]["state"], "removed", "{removed}");
        assert_eq!(removed["changes"][1]["removed"][0], "store = \"user:\"");
        assert!(!project.path(file).exists() && !project.path("tenure.toml").exists());
        let again = project.answer(&["uninstall", program]);
        assert_eq!(again["changes"][0]["state"], "absent", "{again}");
    }
}

#[test]
fn the_settings_of_tenure_stay_until_the_last_program_goes() {
    let project = Project::new();
    for program in ["claude", "codex"] {
        project.answer(&["install", "--write", program]);
    }
    project.answer(&["uninstall", "codex"]);
    assert!(project.path("tenure.toml").exists());
    assert!(project.path(".claude/settings.json").exists());
    project.answer(&["uninstall"]);
    assert!(!project.path("tenure.toml").exists());
}

#[test]
fn the_answer_names_files_programs_and_the_directory_to_allow() {
    let project = Project::new();
    let shown = project.answer(&["install", "gemini"]);
    let change = &shown["changes"][0];
    assert_eq!(change["program"], "gemini");
    assert_eq!(change["state"], "would add");
    assert_eq!(change["added"].as_array().unwrap().len(), 7);
    let file = project.path(".gemini/settings.json");
    assert_eq!(change["file"], file.to_str().unwrap());
    assert_eq!(shown["changes"][1]["program"], Value::Null);
    let state = project.state_directory();
    assert_eq!(shown["allow"], serde_json::json!([state.to_str().unwrap()]));
    let done = project.answer(&["install", "--write", "gemini"]);
    assert_eq!(done["changes"][0]["state"], "added", "{done}");
}

#[test]
fn without_a_name_the_programs_that_are_used_are_found_or_all_are_named() {
    let project = Project::new();
    let none = project.agent(&["install", "--write"]);
    assert_eq!(code(&none), 66, "{none:?}");
    let said = text(&none.stderr);
    assert!(
        said.contains("claude|codex|copilot|cursor|gemini"),
        "{said}"
    );
    project.write(".cursor/rules/x.mdc", "");
    project.write("CLAUDE.md", "");
    let found = project.answer(&["install", "--write"]);
    let changes = found["changes"].as_array().unwrap();
    let programs: Vec<_> = changes.iter().map(|change| &change["program"]).collect();
    assert_eq!(
        programs,
        ["claude".into(), "cursor".into(), Value::Null].each_ref()
    );
}
