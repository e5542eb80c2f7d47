//! Worktrees, `tenure.toml`, and directories without git.

use std::fs;

use crate::project::Project;
use crate::world::{code, json, text};

/// Returns the store that is used in a directory.
fn store_in(project: &Project, directory: &str) -> String {
    let output = project
        .tenure(directory)
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    let diagnosis = json(&output.stdout);
    // Only the check of hooks may fail: it tells of a linked worktree that lacks the hooks.
    let checks = diagnosis["checks"].as_array().unwrap();
    let mut others = checks.iter().filter(|check| check["name"] != "hooks");
    assert!(others.all(|check| check["ok"] == true), "{diagnosis}");
    diagnosis["store"].as_str().unwrap().to_owned()
}

#[test]
fn after_install_all_worktrees_use_one_store_outside_of_git() {
    let project = Project::new();
    project.link_worktree();
    // A command in the linked worktree changes the main one, too.
    let mut command = project.tenure("linked");
    command.args(["agent", "install", "--write", "codex"]);
    assert_eq!(code(&command.output().unwrap()), 0);
    assert!(project.path(".codex/hooks.json").exists());
    assert!(!project.world.path("linked/.codex").exists());
    let store = store_in(&project, "repo");
    let expected = project.state_directory().join("repositories/repo-");
    let expected = format!("sqlite:{}", expected.display());
    assert!(store.starts_with(&expected), "{store}");
    assert_eq!(store_in(&project, "linked"), store);
    // A lock taken in one worktree is seen in the other, and a command under run finds that store.
    let inner = "cd ../linked && env -u TENURE_LEASES \"$TENURE\" run --no-wait x -- true";
    let again =
        "cd ../linked && env -u TENURE_STORE -u TENURE_LEASES \"$TENURE\" run --no-wait x -- true";
    for script in [inner, again] {
        let mut command = project.tenure("repo");
        command.args(["run", "x", "--", "sh", "-c", script]);
        assert_eq!(code(&command.output().unwrap()), 75, "{script}");
    }
}

#[test]
fn the_board_is_the_same_inside_and_outside_of_run() {
    let project = Project::new();
    project.answer(&["install", "--write", "codex"]);
    let mut add = project.tenure("repo");
    add.args(["board", "add", "title", "--id", "one"]);
    assert_eq!(code(&add.output().unwrap()), 0);
    let mut under = project.tenure("repo");
    under.args(["run", "x", "--", "sh", "-c", "\"$TENURE\" board show one"]);
    let output = under.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!project.path(".git/tenure").exists());
}

#[test]
fn worktrees_with_different_settings_are_a_problem_for_doctor() {
    let project = Project::new();
    project.link_worktree();
    project.answer(&["install", "--write", "codex"]);
    fs::write(
        project.world.path("linked/tenure.toml"),
        "store = 'file:locks'\n",
    )
    .unwrap();
    let mut command = project.tenure("linked");
    let output = command.arg("doctor").output().unwrap();
    assert_eq!(code(&output), 1, "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("PROBLEM  worktrees: the main worktree"),
        "{said}"
    );
}

#[test]
fn outside_of_a_repository_the_current_directory_is_changed() {
    let project = Project::new();
    fs::create_dir(project.world.path("plain")).unwrap();
    let mut command = project.tenure("plain");
    command.args(["agent", "install", "--write", "claude"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(project.world.path("plain/.claude/settings.json").exists());
    let expected = project.state_directory().join("tenure.db");
    assert_eq!(
        store_in(&project, "plain"),
        format!("sqlite:{}", expected.display())
    );
}

#[test]
fn locks_and_boards_in_the_old_store_are_told_of() {
    let project = Project::new();
    for arguments in [&["lock", "x"][..], &["board", "add", "title"]] {
        let output = project.tenure("repo").args(arguments).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
    }
    let output = project.agent(&["install", "claude"]);
    let said = text(&output.stderr);
    assert!(said.contains("tenure ls --store sqlite:"), "{said}");
    assert!(said.contains(".git/tenure/board is not moved"), "{said}");
}

#[test]
fn a_worktree_whose_settings_were_committed_before_install_uses_the_same_store() {
    let project = Project::new();
    project.write("tenure.toml", "[slot]\nbuild = 2\n");
    project.git(&["-C", "repo", "add", "tenure.toml"]);
    project.git(&["-C", "repo", "commit", "--quiet", "-m", "first"]);
    project.git(&["-C", "repo", "worktree", "add", "--quiet", "../linked"]);
    project.answer(&["install", "--write", "claude"]);
    let store = store_in(&project, "repo");
    assert!(store.contains("/repositories/repo-"), "{store}");
    assert_eq!(store_in(&project, "linked"), store);
}
