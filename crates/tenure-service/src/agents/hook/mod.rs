//! One event of a coding agent's hook.
//!
//! A hook never stands in the way of its agent: it has an answer whatever happens, and reports
//! problems beside it. An event that cannot be processed now goes to the spool. The decision of a
//! guard is in the answer, in the form that the agent's program expects.
//!
//! The store and the guards are those of the service's own project. An event names the directory in
//! which the agent works, which may lie outside of its project; that directory counts only if the
//! service has no project.
//!
//! One deadline counts for everything that waits, from the opening of the store to the renewal of
//! claims. A guard has half as long again.
//!
//! | module | what it holds |
//! |---|---|
//! | `processing` | the way of an event through the store |
//! | `heavy` | commands that go through a slot |
//! | `edits` | what an agent is told about the files that it edits |
//! | `undecided` | a tool that a guard cannot decide on |

mod edits;
mod heavy;
mod processing;
mod undecided;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tenure::config::GuardConfig;
use tenure::{Error, Owner, Result};
use tenure_api::agents::{Hook, Hooked};
use tenure_core::internal::lock;
use tenure_work::agents::answer::{HookAnswer, denial};
use tenure_work::agents::event::{EventKind, HookEvent};
use tenure_work::agents::guard::{self, Edits};
use tenure_work::agents::identity;
use tenure_work::agents::processor::HOOK_WAIT;

use crate::{Caller, Handle, Service};
use processing::Processing;

impl Handle<Hook> for Service {
    async fn handle(&self, request: Hook, caller: &Caller) -> Result<Hooked> {
        let elsewhere = |directory| self.at(directory);
        Ok(
            match HookCall::begin(Ok(self), elsewhere, request, caller) {
                Ok(call) => call.process().await,
                Err(hooked) => *hooked,
            },
        )
    }
}

impl Service {
    /// Returns the longest wait of a hook in this project.
    pub fn hook_wait(&self) -> Duration {
        self.located().config.agents.hook_wait.unwrap_or(HOOK_WAIT)
    }

    /// Returns the answer to an event that cannot be read because of a problem.
    pub fn answer_unread(&self, request: &Hook, problem: &str) -> Option<Value> {
        undecided::to_unread(self, request, problem)
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.environment().variable(name).map(str::to_owned)
    }

    fn guards(&self) -> &GuardConfig {
        &self.located().config.guard
    }
}

/// An event that was read, and is not yet processed.
pub struct HookCall<'a> {
    project: Project<'a>,
    caller: Caller,
    /// The pane of tmux that the agent runs in, and the socket of that tmux.
    tmux: Option<(String, String)>,
    event: HookEvent,
    /// The directory of the program, if the event does not name it.
    directory: Option<PathBuf>,
    edits: OnceLock<Edits>,
    answer: HookAnswer,
    /// True while a guard has yet to ask the store whether the tool may go on.
    is_unsure: bool,
    words: Words,
}

impl<'a> HookCall<'a> {
    /// Reads an event, and decides what needs no store. `own` is the service of the caller, and
    /// `elsewhere` opens one for another directory. An event that cannot be read, or that belongs
    /// to no project, is answered at once, as the error.
    pub fn begin(
        own: Result<&'a Service>,
        elsewhere: impl FnOnce(PathBuf) -> Result<Service>,
        request: Hook,
        caller: &Caller,
    ) -> std::result::Result<Self, Box<Hooked>> {
        let body = request.body.as_bytes();
        let read = HookEvent::parse(body, request.program, request.event.as_deref());
        let mut event = read.map_err(|error| {
            let own = own.as_ref().ok();
            let answer = own.and_then(|own| own.answer_unread(&request, &error.to_string()));
            unread(answer, &error, caller)
        })?;
        let words = Words::default();
        if let Some(problem) = &event.problem {
            words.add(format!(
                "the event cannot be read whole: {problem}; guards decide by what was read"
            ));
        }
        let project =
            Project::of(own, elsewhere, &event).map_err(|error| unread(None, &error, caller))?;
        if request.program.is_none() {
            let by_session = identity::program_of(&event.session, |name| project.variable(name));
            event.program = by_session.unwrap_or(event.program);
        }
        let denied = heavy::denied(&project, caller, &event, &words);
        let denied = denied.or_else(|| undecided::refusal_of_part(project.guards(), &event));
        let mut call = Self {
            project,
            caller: caller.clone(),
            tmux: request.tmux,
            event,
            directory: request.directory,
            edits: OnceLock::new(),
            answer: HookAnswer {
                denied,
                context: None,
            },
            is_unsure: false,
            words,
        };
        call.is_unsure = call.answer.denied.is_none() && call.is_asked();
        Ok(call)
    }

    /// Returns the files that the tool is about to edit, or has edited.
    fn edits(&self) -> &Edits {
        let tools = &self.project.guards().tools;
        let found = || guard::edits(&self.event, self.directory.as_deref(), tools);
        self.edits.get_or_init(found)
    }

    /// Returns true if a guard needs the store to decide on the tool.
    fn is_asked(&self) -> bool {
        let is_edit = || !self.edits().files.is_empty();
        self.project.guards().edits && self.event.kind == EventKind::BeforeTool && is_edit()
    }

    /// Returns the answer for the case that the event is not processed in time.
    pub fn otherwise(&self) -> Option<Value> {
        let late = || undecided::refusal(self.project.guards(), "it was not done in time");
        if self.is_unsure {
            late().map(|late| denial(self.event.program, self.event.kind, &late))
        } else {
            self.answer.json(&self.event)
        }
    }

    /// Processes the event, and answers it.
    pub async fn process(mut self) -> Hooked {
        let mut answer = self.answer.clone();
        let processed = match Processing::new(&self) {
            Ok(processing) => processing.process(&mut answer).await,
            Err(error) => Err(error),
        };
        match processed {
            Ok(owner) => {
                self.answer = answer;
                self.ended(owner)
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Answers an event that cannot be processed.
    pub fn fail(mut self, error: &Error) -> Hooked {
        if self.is_unsure {
            let guards = self.project.guards();
            self.answer.denied = undecided::refusal(guards, &error.to_string());
        }
        self.words.add(in_words(error, &self.caller));
        self.ended(None)
    }

    fn ended(self, owner: Option<Owner>) -> Hooked {
        Hooked {
            answer: self.answer.json(&self.event),
            owner,
            words: self.words.into_all(),
        }
    }
}

/// Returns the outcome of an event that is not read.
fn unread(answer: Option<Value>, error: &Error, caller: &Caller) -> Box<Hooked> {
    Box::new(Hooked {
        answer,
        owner: None,
        words: vec![in_words(error, caller)],
    })
}

fn in_words(error: &Error, caller: &Caller) -> String {
    match error {
        Error::BadInput(problem) => format!("{problem}; nothing was changed"),
        error => format!("{error}; {}", caller.in_words(error.remedy())),
    }
}

/// The service of the project that an agent works on.
enum Project<'a> {
    Own(&'a Service),
    Other(Box<Service>),
}

impl<'a> Project<'a> {
    fn of(
        own: Result<&'a Service>,
        elsewhere: impl FnOnce(PathBuf) -> Result<Service>,
        event: &HookEvent,
    ) -> Result<Self> {
        let cwd = event.cwd().filter(|cwd| cwd.is_dir());
        match (own, cwd) {
            (Ok(own), _) if own.has_project() => Ok(Self::Own(own)),
            (_, Some(cwd)) => Ok(Self::Other(Box::new(elsewhere(cwd)?))),
            (own, None) => own.map(Self::Own),
        }
    }
}

impl Deref for Project<'_> {
    type Target = Service;

    fn deref(&self) -> &Service {
        match self {
            Project::Own(service) => service,
            Project::Other(service) => service,
        }
    }
}

/// The sentences that people are told beside the answer.
#[derive(Debug, Default)]
struct Words(Mutex<Vec<String>>);

impl Words {
    fn add(&self, text: impl Into<String>) {
        lock(&self.0).push(text.into());
    }

    fn into_all(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use tenure::Owner;
    use tenure::store_choice::Environment;

    use super::*;
    use crate::Surroundings;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_agents_that_edit_one_file_at_once_through_one_service_one_may() {
        let directory = tempfile::tempdir().unwrap();
        let settings = "[guard]\nedits = true\n[agents]\nhook_wait = \"60s\"\n";
        fs::write(directory.path().join("tenure.toml"), settings).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let environment = Environment::new(directory.path(), uid).with("HOME", directory.path());
        let service = Service::new(Surroundings {
            environment,
            store: None,
            addresses: Vec::new(),
        });
        let service = Arc::new(service.unwrap());
        let caller = Caller::new(Owner::parse("ana").unwrap(), "test");
        let hooks = (0..12).map(|number| {
            let body = json!({
                "hook_event_name": "PreToolUse",
                "session_id": format!("s{number}"),
                "tool_name": "Write",
                "tool_input": {"file_path": "a.txt"},
                "cwd": directory.path(),
            });
            let (service, caller) = (Arc::clone(&service), caller.clone());
            tokio::spawn(async move {
                let request = json!({"body": body.to_string(), "program": "claude"});
                service.call("agent.hook", request, &caller).await.unwrap()
            })
        });
        let mut granted = 0;
        for hook in hooks.collect::<Vec<_>>() {
            let hooked: Value = serde_json::from_str(hook.await.unwrap().get()).unwrap();
            assert_eq!(hooked["words"], json!([]), "{hooked}");
            let decision = &hooked["answer"]["hookSpecificOutput"]["permissionDecision"];
            granted += usize::from(decision != "deny");
        }
        assert_eq!(granted, 1);
        let request = json!({"all": true});
        let listed = service.call("agent.ls", request, &caller).await.unwrap();
        let listed: Value = serde_json::from_str(listed.get()).unwrap();
        assert_eq!(listed["agents"].as_array().unwrap().len(), 12);
    }
}
