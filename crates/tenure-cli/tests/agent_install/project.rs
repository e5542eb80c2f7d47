//! A git repository and its files.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::world::{World, code, json};

/// Every program, the file with its hooks, and its name for the event before a tool is used.
pub const PROGRAMS: [(&str, &str, &str); 5] = [
    ("claude", ".claude/settings.json", "PreToolUse"),
    ("codex", ".codex/hooks.json", "PreToolUse"),
    ("copilot", ".github/hooks/tenure.json", "PreToolUse"),
    ("cursor", ".cursor/hooks.json", "preToolUse"),
    ("gemini", ".gemini/settings.json", "BeforeTool"),
];

pub struct Project {
    pub world: World,
}

impl Project {
    pub fn new() -> Self {
        let world = World::new();
        let project = Self { world };
        project.git(&["init", "--quiet", "repo"]);
        project
    }

    pub fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        self.world.prepare(&mut command);
        command.args(["-c", "user.name=ana", "-c", "user.email=ana@desk"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Makes a second worktree, `linked`, beside the first.
    pub fn link_worktree(&self) {
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "first"];
        self.git(&[&["-C", "repo"], &commit[..]].concat());
        self.git(&["-C", "repo", "worktree", "add", "--quiet", "../linked"]);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path("repo").join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns `tenure` in a directory below, with itself in its PATH and no store given.
    pub fn tenure(&self, directory: &str) -> Command {
        let mut command = self.world.tenure();
        command
            .env_remove("TENURE_STORE")
            .env("PATH", with_tenure());
        command
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR");
        command.current_dir(self.world.path(directory));
        command
    }

    /// Runs `tenure agent ARGUMENTS` in the repository.
    pub fn agent(&self, arguments: &[&str]) -> Output {
        let mut command = self.tenure("repo");
        command.arg("agent").args(arguments).output().unwrap()
    }

    /// Runs `tenure agent ARGUMENTS --json`, which must succeed.
    #[track_caller]
    pub fn answer(&self, arguments: &[&str]) -> Value {
        let output = self.agent(&[arguments, &["--json"]].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        json(&output.stdout)
    }

    pub fn state_directory(&self) -> PathBuf {
        self.world.path("home/.local/state/tenure")
    }
}

/// Returns a PATH in which `tenure` is found.
pub fn with_tenure() -> OsString {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_tenure"));
    let mut paths = vec![binary.parent().unwrap().to_owned()];
    paths.extend(env::split_paths(&env::var_os("PATH").unwrap()));
    env::join_paths(paths).unwrap()
}
