//! `tenure doctor`: which store is used and why, and proof that it locks.

mod checks;
mod exclusion;
mod hooks;
mod leftovers;
mod sandbox;
mod storage;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use tenure::{Error, Examined};
use tenure_core::store::Found;

use crate::cli::{Doctor, Global};
use crate::context::Context;
use crate::exit;
use crate::output;
use crate::people::visible;
use crate::report::{Failure, remedy_of};
use crate::trust;

/// Reports a check that failed before it could find anything.
fn failed(name: &'static str, error: &Error) -> Examined {
    Found::bad(error.to_string(), remedy(error)).of(name)
}

/// Returns what to do about an error met here. The usual advice sends to this very command, or names
/// options it does not have.
fn remedy(error: &Error) -> String {
    match error {
        Error::TooManyRetries { last, .. } => remedy(last),
        Error::Corrupt { path, .. } => {
            format!("when nothing is held, move {} away", path.display())
        }
        Error::Busy { .. } | Error::Timeout { .. } => "try again a little later".into(),
        Error::Unreachable { .. } => {
            "see that the server runs, has room for one more connection, and can be reached from here".into()
        }
        Error::Io { .. } | Error::Configuration { .. } => match remedy_of(error) {
            usual if usual.contains("tenure doctor") => {
                "look at the disk, and at the log of the system (dmesg)".into()
            }
            usual => usual,
        },
        _ => error.remedy(),
    }
}

/// The outcome of all checks.
#[derive(Debug, Serialize)]
struct Diagnosis {
    store: Option<String>,
    why: Option<String>,
    checks: Vec<Examined>,
    problems: usize,
}

/// Looks at everything, and exits with 1 if something is wrong.
pub fn doctor(global: &Global, options: &Doctor) -> Result<ExitCode, Failure> {
    if options.trust {
        return trusted(global);
    }
    let diagnosis = diagnose(global);
    match global.json {
        true => output::json(&diagnosis)?,
        false => output::text(&in_words(&diagnosis))?,
    }
    Ok(ExitCode::from(match diagnosis.problems {
        0 => exit::DONE,
        _ => exit::OTHER,
    }))
}

/// Trusts the commands of the nearest `tenure.toml`, and shows them.
fn trusted(global: &Global) -> Result<ExitCode, Failure> {
    let (path, commands) = trust::trust(&Context::without_store()?)?;
    let document = json!({ "trusted": path, "commands": commands });
    output::answer(global.json, &document, || {
        let mut text = format!("{} is trusted as it is now\n", path.display());
        for command in &commands {
            let _ = writeln!(text, "it runs: {}", visible(&command.join(" ")));
        }
        output::text(&text)
    })
}

fn diagnose(global: &Global) -> Diagnosis {
    let (store, why, checks) = match Context::new(global) {
        Err(error) => (None, None, vec![failed("configuration", &error)]),
        Ok(context) => {
            let located = &context.located;
            let (store, mut why) = (context.shown(), located.why.to_string());
            if located.is_user {
                why.push_str(", as user:");
            }
            (Some(store), Some(why), checks::all(&context))
        }
    };
    let problems = checks.iter().filter(|check| !check.good).count();
    Diagnosis {
        store,
        why,
        checks,
        problems,
    }
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
            line(format!("         {}", visible(remedy)));
        }
    }
    line(match diagnosis.problems {
        0 => "all is well".into(),
        1 => "1 problem".into(),
        problems => format!("{problems} problems"),
    });
    text
}
