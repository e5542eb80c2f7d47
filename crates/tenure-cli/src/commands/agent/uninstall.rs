//! `tenure agent uninstall`: takes hooks out of the settings of coding agents.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use tenure_api::agents::{Apply, HookAction, Program};

use super::program;
use crate::cli::Global;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::{self, Surface};

#[derive(Debug, Args)]
pub struct Uninstall {
    /// Which program (default: all)
    #[arg(value_parser = program())]
    pub program: Option<Program>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure agent uninstall
  tenure agent uninstall codex

Takes out the hooks that install added, and nothing else; files and lists that
were made for them go, too. With the hooks of the last program it takes out of
tenure.toml what install put there. Lock files (.NAME.lock) stay.

With --json prints {\"changes\":[{\"file\",\"program\",\"removed\":[…],\"state\":
\"removed|absent\"}]}.

Exit codes: as install.";

/// Takes out the hooks that install added, for one program or for all.
pub fn uninstall(global: &Global, options: &Uninstall) -> Result<ExitCode, Failure> {
    let surface = Surface::without_settings(global)?;
    let request = Apply {
        action: HookAction::Uninstall,
        program: options.program,
    };
    let done = surface.call(request, &surface::anyone())?;
    surface.answer(&done, || {
        let mut text = String::new();
        for change in &done.changes {
            let _ = writeln!(text, "{}: {}", change.file, change.state);
            for part in change.removed.iter().flatten() {
                let _ = writeln!(text, "  - {part}");
            }
        }
        if done.changes.is_empty() {
            word("nothing of tenure agent install is here");
        }
        output::text(&text)
    })
}
