//! `tenure agent hook`: one event of a coding agent's hook.
//!
//! A hook never stands in the way of its agent: it exits 0 whatever happens, and tells its problems
//! on standard error. The answer is on standard output, in the form of the agent's program.
//!
//! The project is the one that a variable of the program names, or else the directory of this
//! process. The settings of the project tell how long the input is waited for.

use crate::report::in_words;
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::{Owner, Result};
use tenure_api::agents::{self, Hooked, Program};
use tenure_service::agents::hook::HookCall;
use tenure_work::agents::event::EVENT_BYTES_MAX;
use tenure_work::agents::processor::HOOK_WAIT;

use super::in_time::{Progress, in_time};
use super::{input, program};
use crate::cli::Global;
use crate::output::word;
use crate::runtime;
use crate::surface::{self, Surface};

#[derive(Debug, Clone, Args)]
pub struct Hook {
    /// The program that calls (default: told by what it sends)
    #[arg(long, value_parser = program())]
    pub program: Option<Program>,
    /// The event, if the body does not name it
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  echo '{\"hook_event_name\":\"Stop\",\"session_id\":\"s1\"}' | tenure agent hook
  tenure agent hook --program gemini < event.json

For the settings of a coding agent, where `tenure agent install` puts it. Reads
one event from standard input and processes it in the store, one at a time for
each agent. Prints what the agent must know, in the form of its program: a
denial of a guard, or context. An event that cannot be processed within a
second waits in a file for the next hook, or for `tenure agent watch`.

Exit codes: 0, always: a hook must not stop its agent. What went wrong is told
on standard error.";

/// The wait for threads of a store, once the event is processed or put off.
const END_WAIT: Duration = Duration::from_millis(100);
/// The time that a hook may take beyond all its waits before it counts as standing still.
const AT_EASE: Duration = Duration::from_secs(1);
/// The variables that name the directory of the project for a hook.
const PROJECT: [&str; 2] = ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"];

/// Processes one event, and answers it. It never fails.
pub fn hook(global: &Global, options: Hook) -> ExitCode {
    let global = global.clone();
    in_time(move |progress| match answered(&global, options, progress) {
        Ok(hooked) => tell(&hooked, progress),
        Err(error) => say(&format!("{error}; {}", in_words(&error.remedy()))),
    })
}

fn say(problem: &str) {
    word(&format!("agent hook: {problem}"));
}

fn tell(hooked: &Hooked, progress: &Progress) {
    for text in &hooked.words {
        say(text);
    }
    if let Some(owner) = &hooked.owner {
        pass_on_owner(owner);
    }
    if progress.answer(hooked.answer.as_ref()).is_err() {
        say("the answer could not be printed");
    }
}

/// Reads an event and has it processed. Before each step that may stand still, `progress` gets the
/// answer for that case.
fn answered(global: &Global, options: Hook, progress: &Progress) -> Result<Hooked> {
    let surface;
    let own = match Surface::at(global, named_project()) {
        Ok(found) => {
            surface = found;
            Ok(&surface.service)
        }
        Err(error) => Err(error),
    };
    let wait = own.as_ref().map_or(HOOK_WAIT, |own| own.hook_wait());
    progress.allow(wait * 3 + AT_EASE);
    let mut request = agents::Hook {
        body: String::new(),
        program: options.program,
        event: options.event,
        directory: env::current_dir().ok(),
        tmux: tmux(),
    };
    let late = "the event was not read in time";
    let unread = own.as_ref().ok();
    progress.otherwise(unread.and_then(|own| own.answer_unread(&request, late)));
    let body = input::read(EVENT_BYTES_MAX + 1, wait)?;
    request.body = String::from_utf8(body)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let caller = surface::anyone().within(surface::outers().unwrap_or_default());
    let elsewhere = |directory| Ok(Surface::at(global, Some(directory))?.service);
    let call = match HookCall::begin(own, elsewhere, request, &caller) {
        Ok(call) => call,
        Err(hooked) => return Ok(*hooked),
    };
    progress.otherwise(call.otherwise());
    Ok(match runtime::start() {
        Ok(runtime) => {
            let hooked = runtime.block_on(call.process());
            // A thread that a store still keeps waiting must not make the agent wait.
            runtime.shutdown_timeout(END_WAIT);
            hooked
        }
        Err(error) => call.fail(&error),
    })
}

/// Returns the directory of the project that the program names.
fn named_project() -> Option<PathBuf> {
    let named = PROJECT.iter().find_map(env::var_os).map(PathBuf::from);
    named.filter(|named| named.is_dir())
}

/// Returns the pane of tmux that this process is in, and the socket of that tmux.
fn tmux() -> Option<(String, String)> {
    let (pane, tmux) = (env::var("TMUX_PANE").ok()?, env::var("TMUX").ok()?);
    let socket = tmux.split(',').next().filter(|socket| !socket.is_empty())?;
    Some((pane, socket.to_owned()))
}

/// Writes the owner to the file of the agent's program, if it has one, so that the agent's commands
/// use it, too.
fn pass_on_owner(owner: &Owner) {
    let Some(path) = env::var_os("CLAUDE_ENV_FILE") else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    let line = format!("export TENURE_OWNER='{owner}'\n");
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        say(&format!("the owner is not passed on: {error}"));
    }
}
