//! `tenure doctor`: the store that is used, the reason, and proof that it locks.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use tenure_api::doctor::{self, Diagnosis, Trust};
use tenure_service::doctor::of_failure;

use crate::cli::Global;
use crate::exit;
use crate::output;
use crate::people::visible;
use crate::report::{self, Failure};
use crate::surface::{self, Surface};

#[derive(Debug, Args)]
pub struct Doctor {
    /// Let the commands count that the nearest tenure.toml names, as it is now
    #[arg(long)]
    pub trust: bool,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure doctor
  tenure doctor --json
  tenure doctor --store file:/srv/locks
  tenure doctor --trust       let the commands in tenure.toml count

Says which store is used and why, and where settings come from. Looks at the
place of the store and, for sqlite, at the database: every page, its anchor, its
log and its sessions. For postgres: the server, its clock, poolers, rights, the
schema, and how many connections are left. Then takes a real lock in a child
process, shows that this process cannot take it, kills the child (on postgres,
lets it release), and shows that it can then. In a git repository it tries the
store with .git mounted read-only, as sandboxes of coding agents do. For each
coding agent with hooks here it says whether they run, and sends one event
through them.

A tenure.toml can name commands ([agents] summary). They count after --trust,
which is for people, and until the file changes.

Exit codes: 0 all is well; 1 there are problems, each with what to do; with
--trust: 66 there is no tenure.toml, 77 for automated owners.";

/// Checks everything, and exits with 1 if something is wrong.
pub fn doctor(global: &Global, options: &Doctor) -> Result<ExitCode, Failure> {
    if options.trust {
        return trust(global);
    }
    let mut diagnosis = match diagnose(global) {
        Err(Failure::Error(error)) => of_failure(&error, surface::environment().ok().as_ref()),
        diagnosis => diagnosis?,
    };
    for check in &mut diagnosis.checks {
        check.remedy.iter_mut().for_each(report::render);
    }
    match global.json {
        true => output::json(&diagnosis)?,
        false => output::text(&in_words(&diagnosis))?,
    }
    Ok(ExitCode::from(match diagnosis.problems {
        0 => exit::DONE,
        _ => exit::OTHER,
    }))
}

fn diagnose(global: &Global) -> Result<Diagnosis, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    surface.call(doctor::Doctor {}, &caller)
}

/// Trusts the commands of the nearest `tenure.toml`, and shows them.
fn trust(global: &Global) -> Result<ExitCode, Failure> {
    let surface = Surface::without_store(global)?;
    let caller = surface.caller(None)?;
    let trusted = surface.call(Trust {}, &caller)?;
    surface.answer(&trusted, || {
        let mut text = format!("{} is trusted as it is now\n", trusted.trusted.display());
        for command in &trusted.commands {
            let _ = writeln!(text, "it runs: {}", visible(&command.join(" ")));
        }
        output::text(&text)
    })
}

fn in_words(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    if let (Some(store), Some(why)) = (&diagnosis.store, &diagnosis.why) {
        line(format!("store {} ({})", visible(store), visible(why)));
    }
    for check in &diagnosis.checks {
        let word = if check.good { "ok     " } else { "PROBLEM" };
        line(format!("{word}  {}: {}", check.name, visible(&check.text)));
        if let Some(remedy) = &check.remedy {
            line(format!("         {}", visible(&remedy.to_string())));
        }
    }
    line(match diagnosis.problems {
        0 => "all is well".into(),
        1 => "1 problem".into(),
        problems => format!("{problems} problems"),
    });
    text
}
