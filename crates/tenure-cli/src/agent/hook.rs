//! `tenure agent hook`: one event of a coding agent's hook.
//!
//! A hook never stands in the way of its agent: it exits 0 whatever happens, and says what went wrong on standard error. An event that cannot
//! be processed now goes to the spool. What a guard decides is in the answer on standard output, in the form of the agent's program.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tenure::config::EditsUntil;
use tenure::{Class, Error, Keeper, Lease, Owner, Result, Session, SessionOptions, duration};
use tenure_work::agents::answer::HookAnswer;
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::event::{EVENT_BYTES_MAX, EventKind, HookEvent, Program};
use tenure_work::agents::guard::{self, CommandRule, EditDecision, edited_files, instead};
use tenure_work::agents::process::{HOOK_WAIT, Processed, Processor};
use tenure_work::agents::spool::Spool;
use tenure_work::agents::state::{Agent, Watched};

use super::locks::AgentLocks;
use crate::cli::{AgentHook, Global};
use crate::context::Context;
use crate::output::{self, word};
use crate::people::{age, ends, this_host};
use crate::report::Failure;
use crate::runtime;

/// Processes one event, and answers it. It never fails.
pub fn hook(global: &Global, options: &AgentHook) -> ExitCode {
    if let Err(failure) = carry_out(global, options) {
        let problem = match failure {
            Failure::Error(Error::BadInput(problem)) => format!("{problem}; nothing was changed"),
            Failure::Error(error) => format!("{error}; {}", error.remedy()),
            _ => "the answer could not be printed".into(),
        };
        word(&format!("agent hook: {problem}"));
    }
    ExitCode::SUCCESS
}

fn carry_out(global: &Global, options: &AgentHook) -> Result<(), Failure> {
    let mut body = Vec::new();
    let most = EVENT_BYTES_MAX as u64 + 1;
    let read = io::stdin().lock().take(most).read_to_end(&mut body);
    read.map_err(|source| Error::io("read", "standard input", source))?;
    let program = options.program.map(Program::from);
    let event = HookEvent::parse(&body, program, options.event.as_deref())?;
    let context = Context::at(global, event.cwd().filter(|cwd| cwd.is_dir()))?;
    let answer = runtime::start()?.block_on(answer(&context, &event))?;
    match answer.json(&event) {
        Some(answer) => output::json(&answer),
        None => Ok(()),
    }
}

/// Processes an event. What cannot be done is told on standard error.
async fn answer(context: &Context, event: &HookEvent) -> Result<HookAnswer> {
    let mut answer = HookAnswer {
        denied: heavy_command(context, event)?,
        context: None,
    };
    let state = context.state_directory()?;
    let spool = Spool::new(&state, &crate::identity::identity(&context.located.url));
    let put_off = |error: Error| {
        // A store that can never do this would fill the spool for nothing.
        let kept = match error.class() {
            Class::Configuration | Class::BadInput => Err(error),
            _ => spool.add(event).map(|()| error),
        };
        match kept {
            Ok(error) => word(&format!(
                "agent hook: {error}; the event waits for the next hook, or for tenure agent watch"
            )),
            Err(error) => word(&format!("agent hook: {error}; {}", error.remedy())),
        }
    };
    let wait = context.located.config.agents.hook_wait.unwrap_or(HOOK_WAIT);
    let settings = context.settings(wait).with_open(wait).with_wait(wait);
    let keeper = match context.open(settings).await {
        Ok(keeper) => keeper,
        Err(error) => {
            put_off(error);
            return Ok(answer);
        }
    };
    let session = SessionOptions::new(event.owner()).with_command("tenure agent hook");
    let session = keeper.session(session).await?;
    let guards = &context.located.config.guard;
    let watched = match guards.edits && event.kind == EventKind::BeforeTool {
        true => watched(&keeper, event).await,
        false => None,
    };
    let processed = async {
        let locks = AgentLocks::open(context, &session, wait).await?;
        let processor = Processor {
            keeper: &keeper,
            locks: &locks,
            spool: spool.clone(),
            claim_notes: ClaimNotes::new(&state),
            host: this_host(),
            wait,
        };
        let tmux = tmux();
        let also = move |agent: &mut Agent| {
            agent.tmux = tmux.clone().or(agent.tmux.take());
            if let Some(watched) = &watched {
                agent.watched.clone_from(watched);
            }
        };
        processor.process(event, &also).await
    };
    let processed = processed.await;
    // The lock of the agent comes before the locks of files, and is released by now.
    if guards.edits && answer.denied.is_none() {
        let agent = processed.as_ref().ok().map(|processed| &processed.agent);
        let task = agent.and_then(|agent| agent.task.as_deref());
        answer.denied = match guard_edits(&keeper, &session, event, task).await {
            Ok(denied) => denied,
            Err(error) => {
                word(&format!("agent hook: the edit is not guarded: {error}"));
                None
            }
        };
    }
    match processed {
        Ok(processed) => finish(&keeper, context, event, processed, &mut answer).await,
        Err(error) => put_off(error),
    }
    Ok(answer)
}

/// Does what follows from a processed event.
async fn finish(
    keeper: &Keeper,
    context: &Context,
    event: &HookEvent,
    processed: Processed,
    answer: &mut HookAnswer,
) {
    for warning in &processed.warnings {
        word(&format!("agent hook: {warning}"));
    }
    let guards = &context.located.config.guard;
    if event.kind == EventKind::Stop && guards.edits_until == EditsUntil::Turn {
        let released = guard::release(keeper, &processed.agent.owner).await;
        if let Err(error) = released {
            word(&format!("agent hook: {error}"));
        }
    }
    if event.kind == EventKind::SessionStart {
        pass_on_owner(&processed.agent.owner);
    }
    if processed.needs_introduction {
        answer.context = Some(introduction(&processed.agent, context));
    }
    if event.kind == EventKind::AfterTool && event.shell_command().is_some() {
        answer.context = guard::told(&processed.agent.watched);
    }
}

/// Returns the reason why a command must not be run as it is.
fn heavy_command(context: &Context, event: &HookEvent) -> Result<Option<String>> {
    let commands = &context.located.config.guard.commands;
    if commands.is_empty() || event.kind != EventKind::BeforeTool {
        return Ok(None);
    }
    let Some(line) = event.shell_command() else {
        return Ok(None);
    };
    let slots = &context.located.config.slot;
    let rule = |(command, slot): (&String, &String)| {
        let places = slots.get(slot).map(|places| format!("{slot}:{places}"));
        CommandRule {
            words: command.split_whitespace().map(str::to_owned).collect(),
            slot: places.unwrap_or_else(|| slot.clone()),
        }
    };
    let rules: Vec<CommandRule> = commands.iter().map(rule).collect();
    Ok(instead(&line, &rules).map(|(instead, rule)| {
        format!(
            "{} goes through slot {} here, so that not all agents run it at once. Run this instead:\n{instead}",
            rule.words.join(" "),
            rule.slot,
        )
    }))
}

/// Takes the files of an edit. Returns the reason why it must not be made.
async fn guard_edits(
    keeper: &Keeper,
    session: &Session,
    event: &HookEvent,
    task: Option<&str>,
) -> Result<Option<String>> {
    if event.kind != EventKind::BeforeTool {
        return Ok(None);
    }
    let files = edited_files(event);
    if files.is_empty() {
        return Ok(None);
    }
    let purpose = task.or_else(|| event.tool()).unwrap_or("edit");
    Ok(
        match guard::acquire(keeper, session, &files, purpose).await? {
            EditDecision::Granted => None,
            EditDecision::Denied(lease) => Some(held_by_another(&lease)),
        },
    )
}

/// Returns what an agent is told whose file another one edits.
fn held_by_another(lease: &Lease) -> String {
    let path = PathBuf::from(String::from_utf8_lossy(&lease.resource.raw_id()).into_owned());
    let purpose = match &lease.purpose {
        Some(purpose) => format!(" for \"{purpose}\""),
        None => String::new(),
    };
    format!(
        "{path} is being edited by {owner}{purpose}, since {since} ({age} ago); {ends}. Nothing was changed. \
         Work on something else and come back, or make your change in another file. \
         Look with: tenure ls {resource}. A person may end it with: tenure break {id} --reason TEXT",
        path = path.display(),
        owner = lease.owner,
        since = lease.acquired_at,
        age = duration::show(age(lease)),
        ends = ends(lease),
        resource = lease.resource,
        id = lease.lease,
    )
}

/// Returns the files of others as they are before a command of the shell.
async fn watched(keeper: &Keeper, event: &HookEvent) -> Option<Vec<Watched>> {
    event.shell_command()?;
    guard::look(keeper, &event.owner()).await.ok()
}

/// Returns the pane of tmux that this process is in, and the socket of that tmux.
fn tmux() -> Option<(String, String)> {
    let (pane, tmux) = (env::var("TMUX_PANE").ok()?, env::var("TMUX").ok()?);
    let socket = tmux.split(',').next().filter(|socket| !socket.is_empty())?;
    Some((pane, socket.to_owned()))
}

/// Lets the commands of the agent ask as the agent, where its program has a file for that.
fn pass_on_owner(owner: &Owner) {
    let Some(path) = env::var_os("CLAUDE_ENV_FILE") else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    let line = format!("export TENURE_OWNER='{owner}'\n");
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        word(&format!("agent hook: the owner is not passed on: {error}"));
    }
}

/// Returns what an agent is told once, at the start of its session.
fn introduction(agent: &Agent, context: &Context) -> String {
    let guards = &context.located.config.guard;
    let mut text = format!(
        "Several agents share this repository through tenure. You are {owner}; tenure status shows who does what. \
         For work from the shared list: tenure board next --claim, then tenure board done ID. \
         To keep others out while you work on something: tenure run NAME -- CMD.",
        owner = agent.owner
    );
    if guards.edits {
        text.push_str(" A file that another agent edits is refused to you until it is free.");
    }
    for (command, slot) in &guards.commands {
        text.push_str(&format!(
            " Run {command} as: tenure run --slot {slot} -- {command} …"
        ));
    }
    text
}
