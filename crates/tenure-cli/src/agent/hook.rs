//! `tenure agent hook`: one event of a coding agent's hook.
//!
//! A hook never stands in the way of its agent: it exits 0 whatever happens, and says what went wrong on standard error. An event that cannot
//! be processed now goes to the spool. What a guard decides is in the answer on standard output, in the form of the agent's program.
//!
//! The store, and with it the guards, are those of the project: by the variable of the program, else by the directory of this process.
//! An agent may work in another directory than its project, which is what its event says; that one counts only where there is no project.
//!
//! One deadline counts for everything that waits, from the opening of the store to the renewal of claims. A guard has half as long again.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tenure::config::{Commands, EditsUntil};
use tenure::request::command_line;
use tenure::{
    Class, Error, Keeper, Lease, LeaseState, Owner, Result, Session, SessionOptions, duration,
};
use tenure_work::agents::answer::HookAnswer;
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::event::{EVENT_BYTES_MAX, EventKind, HookEvent, Program};
use tenure_work::agents::guard::{self, CommandRule, EditDecision, edited_files, instead};
use tenure_work::agents::identity;
use tenure_work::agents::process::{HOOK_WAIT, Incoming, Processed, Processor};
use tenure_work::agents::spool::Spool;
use tenure_work::agents::state::{Agent, Watched};
use tenure_work::publish::new_id;
use tokio::time::{Instant, timeout_at};

use super::locks::AgentLocks;
use crate::cli::{AgentHook, Global};
use crate::context::Context;
use crate::identity::is_server;
use crate::output::{self, word};
use crate::people::{age, ends, this_host};
use crate::report::Failure;
use crate::runtime;

/// How long threads of a store are waited for, once the event is processed or put off.
const END_WAIT: Duration = Duration::from_millis(100);

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

/// Variables that name the directory of the project for a hook.
const PROJECT: [&str; 2] = ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"];

fn carry_out(global: &Global, options: &AgentHook) -> Result<(), Failure> {
    let mut body = Vec::new();
    let most = EVENT_BYTES_MAX as u64 + 1;
    let read = io::stdin().lock().take(most).read_to_end(&mut body);
    read.map_err(|source| Error::io("read", "standard input", source))?;
    let program = options.program.map(Program::from);
    let mut event = HookEvent::parse(&body, program, options.event.as_deref())?;
    if program.is_none() {
        let by_session = identity::program_of(&event.session, |name| env::var(name).ok());
        event.program = by_session.unwrap_or(event.program);
    }
    let context = project(global, &event)?;
    let mut answer = HookAnswer {
        denied: heavy_command(&context, &event),
        context: None,
    };
    let runtime = runtime::start()?;
    let processed = runtime.block_on(process(&context, &event, &mut answer));
    // A thread that a store still keeps waiting must not keep the agent waiting.
    runtime.shutdown_timeout(END_WAIT);
    if let Some(answer) = answer.json(&event) {
        output::json(&answer)?;
    }
    Ok(processed?)
}

/// Returns the store and settings of the project that an agent works on.
fn project(global: &Global, event: &HookEvent) -> Result<Context> {
    let named = PROJECT.iter().find_map(env::var_os).map(PathBuf::from);
    let own = Context::at(global, named.filter(|named| named.is_dir()));
    let cwd = event.cwd().filter(|cwd| cwd.is_dir());
    match (own, cwd) {
        (Ok(own), _) if own.has_project() => Ok(own),
        (_, Some(cwd)) => Context::at(global, Some(cwd)),
        (own, None) => own,
    }
}

/// Processes an event. What cannot be done is told on standard error.
async fn process(context: &Context, event: &HookEvent, answer: &mut HookAnswer) -> Result<()> {
    let hook = Hook::new(context, event)?;
    let keeper = match hook.open().await {
        Ok(keeper) => keeper,
        Err(error) => {
            hook.put_off(&error);
            return Ok(());
        }
    };
    let own = hook.session(&keeper, &event.owner()).await?;
    let processing = hook.process(&keeper, &own);
    let processed = timeout_at(hook.deadline, processing).await;
    let processed = processed.unwrap_or_else(|_| Err(hook.late()));
    let guards = &context.located.config.guard;
    // The lock of the agent comes before those of files, and is given back by now.
    if guards.edits && answer.denied.is_none() && event.kind == EventKind::BeforeTool {
        let agent = processed.as_ref().ok().map(|processed| &processed.agent);
        answer.denied = hook.guard(&keeper, &own, agent).await;
    }
    match processed {
        Ok(processed) => {
            let finishing = finish(&keeper, context, event, processed, answer);
            if timeout_at(hook.extended(), finishing).await.is_err() {
                word(&format!("agent hook: {}", hook.late()));
            }
        }
        Err(error) => hook.put_off(&error),
    }
    Ok(())
}

/// One event on its way through the store.
struct Hook<'a> {
    context: &'a Context,
    event: &'a HookEvent,
    /// The directory of the spool and of the notes on claims.
    state: PathBuf,
    spool: Spool,
    /// The id of the event, by which it is known in the spool.
    id: String,
    wait: Duration,
    deadline: Instant,
}

impl<'a> Hook<'a> {
    fn new(context: &'a Context, event: &'a HookEvent) -> Result<Self> {
        let state = context.state_directory()?;
        let wait = context.located.config.agents.hook_wait.unwrap_or(HOOK_WAIT);
        Ok(Self {
            context,
            event,
            spool: Spool::new(&state, &crate::identity::identity(&context.located.url)),
            state,
            id: new_id(),
            wait,
            deadline: Instant::now() + wait,
        })
    }

    /// Returns the error of a store that does not answer in time.
    fn late(&self) -> Error {
        Error::Unreachable {
            store: self.context.shown(),
            problem: format!("it did not answer within {}", duration::show(self.wait)),
        }
    }

    /// Returns the deadline of a guard and of what follows from an event: at least half of the whole wait is left for it.
    fn extended(&self) -> Instant {
        self.deadline.max(Instant::now() + self.wait / 2)
    }

    async fn open(&self) -> Result<Keeper> {
        let settings = self.context.settings(self.wait);
        let settings = settings.with_open(self.wait * 3 / 4).with_wait(self.wait);
        let opened = timeout_at(self.deadline, self.context.open(settings)).await;
        opened.unwrap_or_else(|_| Err(self.late()))
    }

    async fn session(&self, keeper: &Keeper, owner: &Owner) -> Result<Session> {
        let options = SessionOptions::new(owner.clone()).with_command("tenure agent hook");
        keeper.session(options).await
    }

    /// Processes the event under the lock of its agent.
    async fn process(&self, keeper: &Keeper, own: &Session) -> Result<Processed> {
        let config = &self.context.located.config;
        let is_watched = config.guard.edits && self.event.kind == EventKind::BeforeTool;
        let watched = if is_watched {
            watched(keeper, self.event).await
        } else {
            None
        };
        let locks = AgentLocks::open(self.context, own, self.wait * 3 / 4).await?;
        let processor = Processor {
            keeper,
            locks: &locks,
            spool: self.spool.clone(),
            claim_notes: ClaimNotes::new(&self.state),
            host: this_host(),
            hides_commands: config.commands == Some(Commands::Name),
        };
        let tmux = tmux();
        let also = move |agent: &mut Agent| {
            agent.tmux = tmux.clone().or(agent.tmux.take());
            if let Some(watched) = &watched {
                let others = watched.iter().filter(|it| it.owner != agent.owner);
                agent.watched = others.cloned().collect();
            }
        };
        let incoming = Incoming {
            event: self.event,
            id: &self.id,
            deadline: self.deadline.into_std(),
        };
        processor.process(&incoming, &also).await
    }

    /// Takes the files of an edit. Returns the reason why it must not be made. The edit goes on where that cannot be told.
    async fn guard(&self, keeper: &Keeper, own: &Session, agent: Option<&Agent>) -> Option<String> {
        let task = agent.and_then(|agent| agent.task.as_deref());
        let guarding = async {
            // Events whose program was guessed may be one agent's; its record knows its owner.
            let known = agent.map(|agent| &agent.owner);
            match known.filter(|known| *known != own.owner()) {
                Some(known) => {
                    let session = self.session(keeper, known).await?;
                    guard_edits(keeper, &session, self.event, task).await
                }
                None => guard_edits(keeper, own, self.event, task).await,
            }
        };
        let guarded = timeout_at(self.extended(), guarding).await;
        let guarded = guarded.unwrap_or_else(|_| Err(self.late()));
        guarded.unwrap_or_else(|error| {
            word(&format!("agent hook: the edit is not guarded: {error}"));
            None
        })
    }

    /// Leaves the event to the next hook, and says why.
    fn put_off(&self, error: &Error) {
        // A store that can never do this would fill the spool for nothing.
        let problem = match error.class() {
            Class::Configuration | Class::BadInput => format!("{error}; {}", error.remedy()),
            _ => match self.spool.add(&self.id, self.event) {
                Ok(()) => format!(
                    "{}; the event waits for the next hook, or for tenure agent watch",
                    in_words(self.context, error)
                ),
                Err(unkept) => format!(
                    "{error}; the event is lost: {unkept}; let the agent write {}: allow it in its sandbox, as tenure agent install shows",
                    self.state.display()
                ),
            },
        };
        word(&format!("agent hook: {problem}"));
    }
}

/// Returns an error in the words of a hook. A lock that nobody holds was not granted since the database is busy.
fn in_words(context: &Context, error: &Error) -> String {
    match error {
        Error::Timeout { holders, limit, .. }
            if holders.is_empty() && !is_server(&context.located.url) =>
        {
            let limit = duration::show(*limit);
            format!("the database {} was busy for {limit}", context.located.url)
        }
        error => error.to_string(),
    }
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
        answer.context = guard::told(&processed.watched);
    }
}

/// Returns the reason why a command must not be run as it is.
fn heavy_command(context: &Context, event: &HookEvent) -> Option<String> {
    let commands = &context.located.config.guard.commands;
    if commands.is_empty() || event.kind != EventKind::BeforeTool {
        return None;
    }
    let line = event.shell_command()?;
    let rule = |(command, slot): (&String, &String)| CommandRule {
        words: command.split_whitespace().map(str::to_owned).collect(),
        slot: slot.clone(),
    };
    let rules: Vec<CommandRule> = commands.iter().map(rule).collect();
    let (instead, rule) = instead(&line, &rules)?;
    let is_under_run = env::var_os("TENURE_LEASES").is_some_and(|leases| !leases.is_empty());
    let order = match is_under_run {
        true => {
            " You run under tenure run, which may hold locks: slots are taken before them, so if it is refused for the order, \
             ask a person to start you without tenure run, or under it with the slot."
        }
        false => "",
    };
    Some(format!(
        "{} goes through slot {} here, so that not all agents run it at once.{order} Run this instead:\n{instead}",
        rule.words.join(" "),
        rule.slot,
    ))
}

/// Takes the files of an edit. Returns the reason why it must not be made.
async fn guard_edits(
    keeper: &Keeper,
    session: &Session,
    event: &HookEvent,
    task: Option<&str>,
) -> Result<Option<String>> {
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
    let ends = match lease.state {
        LeaseState::Expired => "its time is over, and it is free in some seconds".to_owned(),
        _ => ends(lease),
    };
    format!(
        "{path} is being edited by {owner}{purpose}, since {since} ({age} ago); {ends}. Nothing was changed. \
         Work on something else and come back, or make your change in another file. \
         Look with: tenure ls {resource}. A person may end it with: tenure break {id} --reason TEXT",
        path = guard::shown(&path),
        owner = lease.owner,
        since = lease.acquired_at,
        age = duration::show(age(lease)),
        resource = command_line([lease.resource.to_string()]),
        id = lease.lease,
    )
}

/// Returns the files that are edited, as they are before a command of the shell.
async fn watched(keeper: &Keeper, event: &HookEvent) -> Option<Vec<Watched>> {
    event.shell_command()?;
    guard::look(keeper).await.ok()
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
