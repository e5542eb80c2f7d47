//! The coding agents that hooks can be installed for, with the file and shape of their hooks and
//! the setting of their sandbox.
//!
//! | program | file | a hook | timeout in |
//! |---|---|---|---|
//! | Claude Code | `.claude/settings.json` | in a group | seconds |
//! | Codex CLI | `.codex/hooks.json` | in a group | seconds |
//! | Gemini CLI | `.gemini/settings.json` | in a group | milliseconds |
//! | Copilot CLI | `.github/hooks/tenure.json` | by itself, `bash` and `timeoutSec` | seconds |
//! | Cursor | `.cursor/hooks.json` | by itself | seconds |

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tenure::config::WhenUnsure;
use tenure_api::agents::Program;

/// The time that a hook gets, in seconds. It answers within one or two; the rest is for a busy
/// machine.
const TIMEOUT_S: u32 = 10;

/// The key of a hook that says what becomes of a tool whose hook does not answer, in Claude Code
/// 2.1.295 and later.
pub const ON_FAILURE: &str = "onFailure";

/// The beginning of every command, by which our hooks are known.
pub const COMMAND: &str = "tenure agent hook --program";

/// The settings of a program, as far as hooks are concerned.
pub trait ProgramSettings: Copy {
    /// Returns the file with the program's hooks, below the main worktree.
    fn file(self) -> &'static str;

    /// Returns true if something below the main worktree shows that the program is used there.
    fn is_used_in(self, worktree: &Path) -> bool;

    /// Returns the events that get a hook, by the names that the program has for them.
    fn events(self) -> &'static [&'static str];

    /// Returns the command of a hook.
    fn command(self) -> String;

    /// Returns the entry that is added for an event.
    fn entry(self, event: &str, when_unsure: WhenUnsure) -> Value;

    /// Returns the word for a tool whose hook does not answer, if the program needs one: without it
    /// the tool goes on.
    fn on_failure(self, event: &str, when_unsure: WhenUnsure) -> Option<&'static str>;

    /// Returns true if the program ignores a file without a version.
    fn has_version(self) -> bool;

    /// Returns the text that tells a person how to let the sandbox write to a directory.
    fn allowing(self, directory: &str) -> String;
}

impl ProgramSettings for Program {
    fn file(self) -> &'static str {
        match self {
            Self::Claude => ".claude/settings.json",
            Self::Codex => ".codex/hooks.json",
            Self::Copilot => ".github/hooks/tenure.json",
            Self::Cursor => ".cursor/hooks.json",
            Self::Gemini => ".gemini/settings.json",
        }
    }

    fn is_used_in(self, worktree: &Path) -> bool {
        let signs: &[&str] = match self {
            Self::Claude => &[".claude", "CLAUDE.md"],
            Self::Codex => &[".codex"],
            Self::Copilot => &[".github/hooks", ".github/copilot-instructions.md"],
            Self::Cursor => &[".cursor"],
            Self::Gemini => &[".gemini", "GEMINI.md"],
        };
        signs.iter().any(|sign| is_sign(&worktree.join(sign)))
    }

    fn events(self) -> &'static [&'static str] {
        match self {
            Self::Claude | Self::Copilot => &[
                "SessionStart",
                "SessionEnd",
                "UserPromptSubmit",
                "Stop",
                "Notification",
                "PreToolUse",
                "PostToolUse",
                "PermissionRequest",
            ],
            Self::Codex => &[
                "SessionStart",
                "SessionEnd",
                "UserPromptSubmit",
                "Stop",
                "PreToolUse",
                "PostToolUse",
                "PermissionRequest",
            ],
            Self::Cursor => &[
                "sessionStart",
                "sessionEnd",
                "beforeSubmitPrompt",
                "stop",
                "preToolUse",
                "postToolUse",
            ],
            Self::Gemini => &[
                "SessionStart",
                "SessionEnd",
                "BeforeAgent",
                "AfterAgent",
                "Notification",
                "BeforeTool",
                "AfterTool",
            ],
        }
    }

    fn command(self) -> String {
        let command = format!("{COMMAND} {self}");
        match self {
            // Copilot refuses the tool call at every exit code but 0, also if `tenure` is not
            // installed.
            Self::Copilot => format!("{command} || true"),
            _ => command,
        }
    }

    fn entry(self, event: &str, when_unsure: WhenUnsure) -> Value {
        let command = self.command();
        match self {
            Self::Claude | Self::Codex => {
                let mut hook = json!({"type": "command", "command": command, "timeout": TIMEOUT_S});
                if let Some(on_failure) = self.on_failure(event, when_unsure) {
                    hook[ON_FAILURE] = on_failure.into();
                }
                json!({"hooks": [hook]})
            }
            Self::Gemini => {
                let timeout_ms = TIMEOUT_S * 1000;
                json!({"hooks": [{"name": "tenure", "type": "command", "command": command, "timeout": timeout_ms}]})
            }
            Self::Copilot => json!({"type": "command", "bash": command, "timeoutSec": TIMEOUT_S}),
            Self::Cursor => json!({"command": command, "timeout": TIMEOUT_S}),
        }
    }

    fn on_failure(self, event: &str, when_unsure: WhenUnsure) -> Option<&'static str> {
        let is_asked = self == Self::Claude && event == "PreToolUse";
        (is_asked && when_unsure == WhenUnsure::Deny).then_some("block")
    }

    fn has_version(self) -> bool {
        matches!(self, Self::Copilot | Self::Cursor)
    }

    fn allowing(self, directory: &str) -> String {
        let quoted = Value::from(directory);
        match self {
            Self::Claude => format!(
                "in .claude/settings.json: {{\"sandbox\": {{\"filesystem\": {{\"allowWrite\": [{quoted}]}}}}}}"
            ),
            Self::Codex => format!(
                "in ~/.codex/config.toml: [sandbox_workspace_write] writable_roots = [{quoted}]; then trust the hooks with /hooks"
            ),
            Self::Copilot => format!("start it with: copilot --add-dir {directory}"),
            Self::Cursor => {
                format!("in .cursor/sandbox.json: {{\"additionalReadwritePaths\": [{quoted}]}}")
            }
            Self::Gemini => {
                format!("for its container: export SANDBOX_MOUNTS={directory}:{directory}:rw")
            }
        }
    }
}

/// Returns true if a path exists, and is more than a directory with the lock files that `uninstall`
/// leaves.
fn is_sign(path: &Path) -> bool {
    let is_lock = |name: &str| name.starts_with('.') && name.ends_with(".lock");
    let names = fs::read_dir(path).map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names.map(|name| name.to_string_lossy().into_owned())
    });
    match names.map(Iterator::collect::<Vec<_>>) {
        Ok(names) => names.is_empty() || !names.iter().all(|name| is_lock(name)),
        Err(_) => path.exists(),
    }
}
