//! `tenure agent install`: hooks in the settings of coding agents, shown or added.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use tenure::config::WhenUnsure;
use tenure_api::agents::{Apply, FileChange, HookAction, HookChanges, Plan, Program};
use tenure_work::agents::install::{ON_FAILURE, ProgramSettings};

use super::program;
use crate::cli::Global;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::{self, Surface};

#[derive(Debug, Args)]
pub struct Install {
    /// Make the change, and do not only show it
    #[arg(long)]
    pub write: bool,
    /// Which program (default: those that are used here)
    #[arg(value_parser = program())]
    pub program: Option<Program>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure agent install
  tenure agent install --write claude
  tenure agent install --json | jq -r '.allow[]'

Shows the change, and makes it only with --write. Adds hooks that call `tenure
agent hook` to the settings of each program in the main worktree, or in the
current directory outside of a git repository, and keeps every byte of what is
there:
  claude   .claude/settings.json      codex    .codex/hooks.json
  gemini   .gemini/settings.json      copilot  .github/hooks/tenure.json
  cursor   .cursor/hooks.json
Sets store = \"user:\" in tenure.toml, unless it names a store: a store in the
user's state directory that belongs to the repository, which agents reach whose
sandbox makes .git read-only. Prints the one directory to allow in the settings
of each sandbox. The board moves with the store. Done twice it is done once.
Links, and files of other users, are refused.

With --json prints {\"changes\":[{\"file\",\"program\",\"added\":[…],\"state\":
\"added|present|would add\"}],\"allow\":[DIRECTORY]}.

Exit codes: 0 shown or done; 65 a file is not JSON, or of another shape: it is
untouched; 66 no program is used here, so name one; 77 a file is a link or of
another user; 78 tenure.toml cannot be read.";

/// Shows the hooks that would be added, and adds them if that is wanted.
pub fn install(global: &Global, options: &Install) -> Result<ExitCode, Failure> {
    let surface = Surface::without_settings(global)?;
    let caller = surface::anyone();
    let (action, program) = (HookAction::Install, options.program);
    let planned = surface.call(Plan { action, program }, &caller)?;
    if !surface.is_json() {
        output::text(&in_words(&planned))?;
    }
    let changes = match options.write {
        true => surface.call(Apply { action, program }, &caller)?,
        false => planned,
    };
    surface.answer(&changes, || {
        word(&match (options.write, program) {
            (true, _) => {
                "done; commit these files so that other worktrees and people have the hooks".into()
            }
            (false, program) => {
                let named = program.map(|program| format!(" {program}"));
                format!(
                    "nothing is changed; to do it: tenure agent install --write{}",
                    named.unwrap_or_default()
                )
            }
        });
        Ok(())
    })
}

fn in_words(planned: &HookChanges) -> String {
    let when_unsure = match planned.refuses_unanswered {
        true => WhenUnsure::Deny,
        false => WhenUnsure::Allow,
    };
    let mut text = String::new();
    for change in &planned.changes {
        let FileChange { file, state, .. } = change;
        let _ = writeln!(text, "{file}: {state}");
        for part in change.added.iter().flatten() {
            let _ = match change.program {
                Some(program) => {
                    let event = part.trim_start_matches("hooks.");
                    let on_failure = program.on_failure(event, when_unsure);
                    let on_failure = on_failure.map(|it| format!(" ({ON_FAILURE}: {it})"));
                    let on_failure = on_failure.unwrap_or_default();
                    writeln!(text, "  + {part}: {}{on_failure}", program.command())
                }
                None => writeln!(text, "  + {part}"),
            };
        }
    }
    let programs = || planned.changes.iter().filter_map(|change| change.program);
    for allow in planned.allow.iter().flatten() {
        let _ = writeln!(text, "allow agents to write {allow} in their sandbox:");
        for program in programs() {
            let _ = writeln!(text, "  {}: {}", program, program.allowing(allow));
        }
    }
    text
}
