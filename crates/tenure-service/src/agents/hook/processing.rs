//! The way of an event through the store.

use std::path::PathBuf;
use std::time::Duration;

use tenure::{Class, Error, Keeper, Owner, Remedy, Result, Session, SessionOptions, duration};
use tenure_postgres::advisory::AdvisoryLocks;
use tenure_work::agents::answer::HookAnswer;
use tenure_work::agents::event::{EventKind, HookEvent};
use tenure_work::agents::guard::{self, CommandRule, Snapshot};
use tenure_work::agents::processor::{Incoming, Processed};
use tenure_work::agents::spool::Spool;
use tenure_work::agents::state::Agent;
use tenure_work::publish::new_id;
use tokio::time::{Instant, timeout_at};

use super::{HookCall, edits, undecided};
use crate::Service;
use crate::agents::locks::AgentLocks;
use crate::agents::sandbox;

/// One event on its way through the store.
pub struct Processing<'a> {
    call: &'a HookCall<'a>,
    service: &'a Service,
    event: &'a HookEvent,
    /// The directory of the spool and of the notes on claims.
    state: PathBuf,
    spool: Spool,
    /// The id of the event in the spool.
    id: String,
    wait: Duration,
    deadline: Instant,
}

impl<'a> Processing<'a> {
    /// Prepares the processing of an event. The deadline counts from now on.
    pub fn new(call: &'a HookCall<'a>) -> Result<Self> {
        let service: &Service = &call.project;
        let state = service.state_directory()?;
        let wait = service.hook_wait();
        Ok(Self {
            call,
            service,
            event: &call.event,
            spool: service.spool(&state),
            state,
            id: new_id(),
            wait,
            deadline: Instant::now() + wait,
        })
    }

    /// Processes the event, and adds to its answer. Returns the owner as which the commands of the
    /// agent ask, if its session begins.
    pub async fn process(&self, answer: &mut HookAnswer) -> Result<Option<Owner>> {
        let (keeper, locks) = match self.open().await {
            Ok(opened) => opened,
            Err(error) => {
                self.put_off(&error);
                answer.denied = answer.denied.take().or_else(|| self.undecided(&error));
                return Ok(None);
            }
        };
        let own = session(&keeper, &self.event.owner());
        let processing = self.process_in(&keeper, &own, locks);
        let processed = timeout_at(self.deadline, processing).await;
        let processed = processed.unwrap_or_else(|_| Err(self.late()));
        // The lock of the agent is ordered before those of files. It is released by now.
        if self.service.guards().edits && answer.denied.is_none() {
            let agent = processed.as_ref().ok().map(|processed| &processed.agent);
            match self.event.kind {
                EventKind::BeforeTool | EventKind::PermissionRequest => {
                    answer.denied = self.guard(&keeper, &own, agent).await;
                }
                EventKind::AfterTool => answer.context = self.edited(&keeper, &own, agent).await,
                _ => {}
            }
        }
        Ok(match processed {
            Ok(processed) => self.finish(processed, answer),
            Err(error) => {
                self.put_off(&error);
                None
            }
        })
    }

    /// Returns the error of a store that does not answer in time.
    fn late(&self) -> Error {
        Error::Unreachable {
            store: self.service.shown_store(),
            problem: format!("it did not answer within {}", duration::show(self.wait)),
        }
    }

    /// Returns the deadline of a guard: at least half of the whole wait is left for it.
    fn extended(&self) -> Instant {
        self.deadline.max(Instant::now() + self.wait / 2)
    }

    async fn open(&self) -> Result<(Keeper, Option<AdvisoryLocks>)> {
        // A hook asks as the agent of its event, whatever agent is found around its process.
        let caller = self.call.caller.clone().under_agent(None);
        let opening = self.service.locks_of_agents(self.wait * 3 / 4, &caller);
        let opened = timeout_at(self.deadline, opening).await;
        opened.unwrap_or_else(|_| Err(self.late()))
    }

    /// Processes the event under the lock of its agent.
    async fn process_in(
        &self,
        keeper: &Keeper,
        own: &Session,
        locks: Option<AdvisoryLocks>,
    ) -> Result<Processed> {
        let guards = self.service.guards();
        if guards.edits && self.event.kind == EventKind::BeforeTool {
            self.watch_files(keeper).await;
        }
        let locks = AgentLocks::of(own, locks);
        let processor = self.service.processor(keeper, &locks, &self.state);
        let tmux = self.call.tmux.clone();
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

    /// Remembers the state of the files that agents edit, before a command of the shell runs.
    async fn watch_files(&self, keeper: &Keeper) {
        if self.event.shell_command().is_none() {
            return;
        }
        let snapshot = Snapshot::new(&self.state, self.event);
        let seen = guard::look(keeper).await;
        if let Err(error) = seen.and_then(|seen| snapshot.write(&seen)) {
            self.call.words.add(format!(
                "files that the command changes are not noticed: {error}"
            ));
        }
    }

    /// Locks the files of an edit. Returns the reason if the edit must not be made. If that cannot
    /// be decided, the settings of the guard say what follows.
    async fn guard(&self, keeper: &Keeper, own: &Session, agent: Option<&Agent>) -> Option<String> {
        let task = agent.and_then(|agent| agent.task.as_deref());
        let guarding = async {
            let session = session_of(keeper, own, agent);
            edits::denied(keeper, &session, self.call, task).await
        };
        let guarded = edits::in_time(self.extended(), guarding, || self.late()).await;
        guarded.unwrap_or_else(|error| {
            let refusal = self.undecided(&error);
            if refusal.is_none() {
                self.call
                    .words
                    .add(format!("the edit is not guarded: {error}"));
            }
            refusal
        })
    }

    /// Returns the reason to refuse a tool that could not be guarded because of an error, or `None`
    /// to let it go on.
    fn undecided(&self, error: &Error) -> Option<String> {
        let refusal = undecided::refusal(self.service.guards(), &self.in_words(error));
        refusal.filter(|_| self.call.is_asked())
    }

    /// Returns the text to tell the agent about the files that its tool has edited.
    async fn edited(
        &self,
        keeper: &Keeper,
        own: &Session,
        agent: Option<&Agent>,
    ) -> Option<String> {
        let looking = async {
            let session = session_of(keeper, own, agent);
            edits::told(keeper, &session, &self.call.edits().files).await
        };
        let told = timeout_at(self.extended(), looking).await;
        let told = told.unwrap_or_else(|_| Err(self.late()));
        told.unwrap_or_else(|error| {
            self.call.words.add(format!(
                "whether the edit was guarded to its end is not known: {error}"
            ));
            None
        })
    }

    /// Leaves the event to the next hook, and says why.
    fn put_off(&self, error: &Error) {
        // A store that can never process events would only fill the spool.
        let problem = match error.class() {
            Class::Configuration | Class::BadInput => {
                format!("{error}; {}", self.in_caller_words(error.remedy()))
            }
            _ => match self.spool.add(&self.id, self.event) {
                Ok(()) => format!(
                    "{}; the event waits for the next hook, or for tenure agent watch",
                    self.in_words(error)
                ),
                Err(unkept) => format!(
                    "{error}; the event is lost: {unkept}; {}",
                    self.in_caller_words(sandbox::how_to_allow(
                        Some(self.event.program),
                        &self.state
                    ))
                ),
            },
        };
        self.call.words.add(problem);
    }

    fn in_caller_words(&self, remedy: Remedy) -> String {
        self.call.caller.in_words(remedy)
    }

    /// Returns an error in the words of a hook. A timeout without a holder means that the database
    /// was busy.
    fn in_words(&self, error: &Error) -> String {
        match error {
            Error::Timeout { holders, limit, .. }
                if holders.is_empty() && !self.service.is_on_server() =>
            {
                let limit = duration::show(*limit);
                let url = &self.service.located().url;
                format!("the database {url} was busy for {limit}")
            }
            error => error.to_string(),
        }
    }

    /// Carries out what follows from a processed event. Returns the owner of a session that begins.
    fn finish(&self, processed: Processed, answer: &mut HookAnswer) -> Option<Owner> {
        let Processed {
            agent,
            needs_introduction,
            warnings,
        } = processed;
        for warning in warnings {
            self.call.words.add(warning);
        }
        if needs_introduction {
            answer.context = Some(introduction(&agent, self.service));
        }
        if self.event.kind == EventKind::AfterTool && self.event.shell_command().is_some() {
            let seen = Snapshot::new(&self.state, self.event).take();
            let told = guard::told(&seen, &agent.owner);
            let told = answer.context.take().into_iter().chain(told);
            answer.context = told.reduce(|edited, changed| edited + "\n" + &changed);
        }
        (self.event.kind == EventKind::SessionStart).then_some(agent.owner)
    }
}

fn session(keeper: &Keeper, owner: &Owner) -> Session {
    let options = SessionOptions::new(owner.clone()).with_command("tenure agent hook");
    keeper.session(options)
}

/// Returns a session in the name of the agent's owner, as its record has it: for an event whose
/// program was guessed, the owner made of the guess may be another.
fn session_of(keeper: &Keeper, own: &Session, agent: Option<&Agent>) -> Session {
    match agent.filter(|agent| agent.owner != *own.owner()) {
        Some(agent) => session(keeper, &agent.owner),
        None => own.clone(),
    }
}

/// Returns the text that an agent is told once, at the start of its session.
fn introduction(agent: &Agent, service: &Service) -> String {
    let guards = service.guards();
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
