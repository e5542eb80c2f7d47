//! `tenure agent hook`: one event of a coding agent's hook.
//!
//! A hook never stands in the way of its agent: it exits 0 whatever happens, and says what went wrong on standard error. An event that cannot
//! be processed now goes to the spool. What a guard decides is in the answer on standard output, in the form of the agent's program.
//!
//! The store, and with it the guards, are those of the project: by the variable of the program, else by the directory of this process.
//! An agent may work in another directory than its project, which is what its event says; that one counts only where there is no project.
//!
//! One deadline counts for everything that waits, from the opening of the store to the renewal of claims. A guard has half as long again, and
//! the input is waited for as long before.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tenure::config::{Commands, EditsUntil, GuardConfig};
use tenure::{Class, Error, Keeper, Owner, Result, Session, SessionOptions, duration};
use tenure_postgres::advisory::AdvisoryLocks;
use tenure_work::agents::answer::{HookAnswer, denial};
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::event::{EVENT_BYTES_MAX, EventKind, HookEvent, Program};
use tenure_work::agents::guard::{self, CommandRule, Snapshot, instead};
use tenure_work::agents::identity;
use tenure_work::agents::processor::{HOOK_WAIT, Incoming, Processed, Processor};
use tenure_work::agents::spool::Spool;
use tenure_work::agents::state::Agent;
use tenure_work::publish::new_id;
use tokio::time::{Instant, timeout_at};

use super::in_time::{Progress, in_time};
use super::locks::{AgentLocks, open_with_locks};
use super::{edits, input, sandbox, undecided};
use crate::cli::{AgentHook, Global};
use crate::context::Context;
use crate::output::word;
use crate::people::this_host;
use crate::report::Failure;
use crate::runtime;
use tenure_service::store_identity::is_server;

/// How long threads of a store are waited for, once the event is processed or put off.
const END_WAIT: Duration = Duration::from_millis(100);
/// How much longer than all its waits a hook may take, before it counts as standing still.
const AT_EASE: Duration = Duration::from_secs(1);

/// Processes one event, and answers it. It never fails.
pub fn hook(global: &Global, options: &AgentHook) -> ExitCode {
    let (global, options) = (global.clone(), options.clone());
    in_time(move |progress| work(&global, &options, progress))
}

fn work(global: &Global, options: &AgentHook, progress: &Progress) {
    if let Err(failure) = answer_event(global, options, progress) {
        let problem = match failure {
            Failure::Error(Error::BadInput(problem)) => format!("{problem}; nothing was changed"),
            Failure::Error(error) => format!("{error}; {}", error.remedy()),
            _ => "the answer could not be printed".into(),
        };
        word(&format!("agent hook: {problem}"));
    }
}

/// Variables that name the directory of the project for a hook.
const PROJECT: [&str; 2] = ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"];

fn answer_event(global: &Global, options: &AgentHook, progress: &Progress) -> Result<(), Failure> {
    let own = Context::at(global, named_project());
    let wait = own.as_ref().map_or(HOOK_WAIT, wait_of);
    progress.allow(wait * 3 + AT_EASE);
    let event = match own.as_ref() {
        Ok(own) => read_event(&own.located.config.guard, options, wait, progress),
        Err(_) => read_event(&GuardConfig::default(), options, wait, progress),
    }?;
    let context = project(own, global, &event)?;
    let guards = &context.located.config.guard;
    let mut answer = HookAnswer {
        denied: heavy_command(&context, &event)
            .or_else(|| undecided::refusal_of_part(guards, &event)),
        context: None,
    };
    let is_unsure = answer.denied.is_none() && undecided::is_asked(guards, &event);
    let late = is_unsure.then(|| undecided::refusal(guards, "it was not done in time"));
    progress.otherwise(match (&answer.denied, late.flatten()) {
        (None, late) => late.map(|late| denial(event.program, event.kind, &late)),
        (Some(_), _) => answer.json(&event),
    });
    let processed = runtime::start().and_then(|runtime| {
        let processed = runtime.block_on(process(&context, &event, &mut answer));
        // A thread that a store still keeps waiting must not keep the agent waiting.
        runtime.shutdown_timeout(END_WAIT);
        processed
    });
    if let Err(error) = processed.as_ref().map_err(ToString::to_string)
        && is_unsure
    {
        answer.denied = undecided::refusal(guards, &error);
    }
    progress.answer(answer.json(&event).as_ref())?;
    Ok(processed?)
}

/// Reads the event. One that cannot be read is answered as `[guard]` says.
fn read_event(
    guards: &GuardConfig,
    options: &AgentHook,
    wait: Duration,
    progress: &Progress,
) -> Result<HookEvent, Failure> {
    let (program, name) = (options.program.map(Program::from), options.event.as_deref());
    let unread = |body: &[u8], problem| undecided::to_unread(guards, body, program, name, problem);
    progress.otherwise(unread(b"", "the event was not read in time"));
    let body = input::read(EVENT_BYTES_MAX + 1, wait)?;
    let mut event = match HookEvent::parse(&body, program, name) {
        Ok(event) => event,
        Err(error) => {
            progress.answer(unread(&body, &error.to_string()).as_ref())?;
            return Err(error.into());
        }
    };
    if let Some(problem) = &event.problem {
        word(&format!(
            "agent hook: the event cannot be read whole: {problem}; guards decide by what was read"
        ));
    }
    if program.is_none() {
        let by_session = identity::program_of(&event.session, |name| env::var(name).ok());
        event.program = by_session.unwrap_or(event.program);
    }
    Ok(event)
}

/// Returns the directory of the project that the program names.
fn named_project() -> Option<PathBuf> {
    let named = PROJECT.iter().find_map(env::var_os).map(PathBuf::from);
    named.filter(|named| named.is_dir())
}

/// Returns how long a hook waits in a project.
fn wait_of(context: &Context) -> Duration {
    context.located.config.agents.hook_wait.unwrap_or(HOOK_WAIT)
}

/// Returns the store and settings of the project that an agent works on. `own` is that of this process.
fn project(own: Result<Context>, global: &Global, event: &HookEvent) -> Result<Context> {
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
    let (keeper, locks) = match hook.open().await {
        Ok(opened) => opened,
        Err(error) => {
            hook.put_off(&error);
            answer.denied = answer.denied.take().or_else(|| hook.undecided(&error));
            return Ok(());
        }
    };
    let own = hook.session(&keeper, &event.owner()).await?;
    let processing = hook.process(&keeper, &own, locks);
    let processed = timeout_at(hook.deadline, processing).await;
    let processed = processed.unwrap_or_else(|_| Err(hook.late()));
    let guards = &context.located.config.guard;
    // The lock of the agent comes before those of files, and is given back by now.
    if guards.edits && answer.denied.is_none() {
        let agent = processed.as_ref().ok().map(|processed| &processed.agent);
        match event.kind {
            EventKind::BeforeTool | EventKind::PermissionRequest => {
                answer.denied = hook.guard(&keeper, &own, agent).await;
            }
            EventKind::AfterTool => answer.context = hook.edited(&keeper, &own, agent).await,
            _ => {}
        }
    }
    match processed {
        Ok(processed) => finish(context, event, processed, answer),
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
        let wait = wait_of(context);
        Ok(Self {
            context,
            event,
            spool: Spool::new(
                &state,
                &tenure_service::store_identity::identity(&context.located.url),
            ),
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

    /// Returns the deadline of a guard: at least half of the whole wait is left for it.
    fn extended(&self) -> Instant {
        self.deadline.max(Instant::now() + self.wait / 2)
    }

    async fn open(&self) -> Result<(Keeper, Option<AdvisoryLocks>)> {
        // A hook asks as the agent that its event is of, whatever is found around its process.
        let automated = self.context.automated().under_agent(None);
        let settings = self.context.settings(self.wait).with_automated(automated);
        let settings = settings.with_open(self.wait * 3 / 4).with_wait(self.wait);
        let opened = timeout_at(
            self.deadline,
            open_with_locks(self.context, settings, self.wait * 3 / 4),
        )
        .await;
        opened.unwrap_or_else(|_| Err(self.late()))
    }

    async fn session(&self, keeper: &Keeper, owner: &Owner) -> Result<Session> {
        let options = SessionOptions::new(owner.clone()).with_command("tenure agent hook");
        keeper.session(options).await
    }

    /// Processes the event under the lock of its agent.
    async fn process(
        &self,
        keeper: &Keeper,
        own: &Session,
        locks: Option<AdvisoryLocks>,
    ) -> Result<Processed> {
        let config = &self.context.located.config;
        if config.guard.edits && self.event.kind == EventKind::BeforeTool {
            self.watch_files(keeper).await;
        }
        let locks = AgentLocks::of(own, locks);
        let processor = Processor {
            keeper,
            locks: &locks,
            spool: self.spool.clone(),
            claim_notes: ClaimNotes::new(&self.state),
            host: this_host(),
            releases_files_at_stop: config.guard.edits_until == EditsUntil::Turn,
            hides_commands: config.commands == Some(Commands::Name),
        };
        let tmux = tmux();
        let also = move |agent: &mut Agent| {
            agent.tmux = tmux.clone().or(agent.tmux.take());
        };
        let incoming = Incoming {
            event: self.event,
            id: &self.id,
            deadline: self.deadline.into_std(),
        };
        processor.process(&incoming, &also).await
    }

    /// Remembers the files that are edited, as they are before a command of the shell.
    async fn watch_files(&self, keeper: &Keeper) {
        if self.event.shell_command().is_none() {
            return;
        }
        let snapshot = Snapshot::new(&self.state, self.event);
        let seen = guard::look(keeper).await;
        if let Err(error) = seen.and_then(|seen| snapshot.write(&seen)) {
            word(&format!(
                "agent hook: files that the command changes are not noticed: {error}"
            ));
        }
    }

    /// Takes the files of an edit. Returns the reason why it must not be made. Where that cannot be told `[guard]` says what follows.
    async fn guard(&self, keeper: &Keeper, own: &Session, agent: Option<&Agent>) -> Option<String> {
        let task = agent.and_then(|agent| agent.task.as_deref());
        let guarding = async {
            let session = self.session_of(keeper, own, agent).await?;
            let guards = &self.context.located.config.guard;
            edits::denied(keeper, &session, guards, self.event, task).await
        };
        let guarded = edits::in_time(self.extended(), guarding, || self.late()).await;
        guarded.unwrap_or_else(|error| {
            let refusal = self.undecided(&error);
            if refusal.is_none() {
                word(&format!("agent hook: the edit is not guarded: {error}"));
            }
            refusal
        })
    }

    /// Returns the reason why a tool is refused that cannot be guarded, if it is.
    fn undecided(&self, error: &Error) -> Option<String> {
        let guards = &self.context.located.config.guard;
        let is_asked = undecided::is_asked(guards, self.event);
        undecided::refusal(guards, &in_words(self.context, error)).filter(|_| is_asked)
    }

    /// Returns what to tell the agent about the files that its tool has edited.
    async fn edited(
        &self,
        keeper: &Keeper,
        own: &Session,
        agent: Option<&Agent>,
    ) -> Option<String> {
        let guards = &self.context.located.config.guard;
        let looking = async {
            let session = self.session_of(keeper, own, agent).await?;
            edits::told(keeper, &session, guards, self.event).await
        };
        let told = timeout_at(self.extended(), looking).await;
        let told = told.unwrap_or_else(|_| Err(self.late()));
        told.unwrap_or_else(|error| {
            word(&format!(
                "agent hook: whether the edit was guarded to its end is not known: {error}"
            ));
            None
        })
    }

    /// Returns the session of the agent: events whose program was guessed may be one agent's, whose record knows its owner.
    async fn session_of(
        &self,
        keeper: &Keeper,
        own: &Session,
        agent: Option<&Agent>,
    ) -> Result<Session> {
        match agent.filter(|agent| agent.owner != *own.owner()) {
            Some(agent) => self.session(keeper, &agent.owner).await,
            None => Ok(own.clone()),
        }
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
                    "{error}; the event is lost: {unkept}; {}",
                    sandbox::how_to_allow(Some(self.event.program), &self.state)
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
fn finish(context: &Context, event: &HookEvent, processed: Processed, answer: &mut HookAnswer) {
    for warning in &processed.warnings {
        word(&format!("agent hook: {warning}"));
    }
    if event.kind == EventKind::SessionStart {
        pass_on_owner(&processed.agent.owner);
    }
    if processed.needs_introduction {
        answer.context = Some(introduction(&processed.agent, context));
    }
    if event.kind == EventKind::AfterTool && event.shell_command().is_some() {
        let state = context.state_directory();
        let seen = state.map(|state| Snapshot::new(&state, event).take());
        let told = guard::told(&seen.unwrap_or_default(), &processed.agent.owner);
        let told = answer.context.take().into_iter().chain(told);
        answer.context = told.reduce(|edited, changed| edited + "\n" + &changed);
    }
}

/// Returns the reason why a command must not be run as it is.
fn heavy_command(context: &Context, event: &HookEvent) -> Option<String> {
    let commands = &context.located.config.guard.commands;
    if commands.is_empty() || event.kind != EventKind::BeforeTool {
        return None;
    }
    let line = event.shell_command()?;
    let rule = |(command, slot): (&String, &String)| CommandRule::new(command, slot);
    let rules: Vec<CommandRule> = commands.iter().map(rule).collect();
    let (instead, rule) = match instead(&line, &rules) {
        Ok(instead) => instead?,
        Err(problem) => {
            word(&format!(
                "agent hook: the command is not guarded, as it cannot be read: {problem}"
            ));
            return None;
        }
    };
    if let Some(directory) = sandbox::slots_out_of_reach() {
        return Some(format!(
            "{} goes through slot {} here, and slots are counted in {}, which cannot be written here: {}. Then try again.",
            rule.shown(),
            rule.slot,
            directory.display(),
            sandbox::how_to_allow(Some(event.program), &directory),
        ));
    }
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
        rule.shown(),
        rule.slot,
    ))
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
        let command = CommandRule::new(command, slot).shown();
        text.push_str(&format!(
            " Run {command} as: tenure run --slot {slot} -- {command} …"
        ));
    }
    text
}
