//! The effect of an event on an agent: one pure function, state × event → changes.
//!
//! A stop that is due is carried out first, whatever the event. Then:
//!
//! | event | state from idle, running, waiting, gone | state from done | its command | further effects |
//! |---|---|---|---|---|
//! | session start | idle, or as it was if the session goes on | idle | | the agent is told about Tenure, once |
//! | prompt | running | running | the open command is complete, a new one runs | a turn of the person, or one expected of the transcript |
//! | before a tool | running | done | runs | a stop that is not due yet is cancelled |
//! | after a tool | running | done | runs | |
//! | notification, permission request | waiting | done | waits | |
//! | stop | as it was, until the stop is due | done | | the stop is due in 2 s |
//! | session end | done | done | complete | the claims and leases of the agent end |
//! | other | as it was; gone: idle | done | | kept |
//! | (stop due) | idle; gone: gone | done | complete | a turn of the agent, unless it comes from the transcript |
//!
//! A stop is put off, since the session may end in the same moment: the second of the two finds the
//! command complete, and skips it. Every event shows that the agent is alive, so all of them lift
//! `gone`. A late event does not open a session that is over: only a start or a prompt does.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tenure::Timestamp;
use tenure_files::document::Version;

use super::event::{EventKind, HookEvent, shortened};
use super::state::{Agent, AgentState, Command, CommandState, PendingTurn, Speaker, Turn};
use super::transcript::Said;

/// The time by which a stop is put off.
pub const STOP_DELAY: Duration = Duration::from_secs(2);
/// The largest part of a turn that is kept, in bytes.
const TURN_BYTES_MAX: usize = 64 * 1024;
/// The largest part of a command that is kept, in characters.
const COMMAND_CHARS_MAX: usize = 200;
/// The number of texts that the transcript is expected to show.
const PENDING_MAX: usize = 16;
/// The number of unknown events that are kept, and the length of each, in bytes.
const OTHER_EVENTS_MAX: usize = 50;
const OTHER_EVENT_BYTES_MAX: usize = 8 * 1024;
/// The largest length of an unknown field that is kept, in bytes.
const OTHER_FIELD_BYTES_MAX: usize = 1024;
/// The fields that are read here, and the input and output of tools, which may be long or secret.
const KNOWN_FIELDS: [&str; 36] = [
    "attachments",
    "cmd",
    "command",
    "content",
    "conversation_id",
    "cwd",
    "edits",
    "event",
    "file_path",
    "hookEventName",
    "hook_event_name",
    "last_assistant_message",
    "message",
    "model",
    "output",
    "prompt",
    "prompt_response",
    "reason",
    "response",
    "sessionId",
    "session_id",
    "source",
    "title",
    "toolArgs",
    "toolInput",
    "toolName",
    "toolResult",
    "tool_input",
    "tool_name",
    "tool_output",
    "tool_response",
    "transcript_path",
    "user_prompt",
    "workspace_roots",
    "old_string",
    "new_string",
];

/// The action on the claims and leases of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAction {
    /// The claims and leases get more time.
    Renew,
    /// The claims and leases end.
    Release,
}

impl ClaimAction {
    /// Returns the action that follows from an event.
    pub fn after(event: &HookEvent) -> Self {
        match event.kind {
            EventKind::SessionEnd => ClaimAction::Release,
            _ => ClaimAction::Renew,
        }
    }
}

/// An agent with its open command, and the changes that an event makes.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The agent as the event leaves it.
    pub agent: Agent,
    /// Its commands that changed.
    pub commands: Vec<Command>,
    /// The new turns of the agent.
    pub turns: Vec<Turn>,
    /// The lines of the transcript that hooks made a turn of, with the number of that turn.
    pub adopted: Vec<(String, u32)>,
    /// The action on its claims and leases.
    pub claims: ClaimAction,
    /// The time at which a turn ended, if the event is a stop.
    pub turn_ended_at: Option<Timestamp>,
    /// True if the agent is to be told about Tenure now.
    pub needs_introduction: bool,
    open: Option<Command>,
    /// The id of the event that is applied.
    event: Option<String>,
    /// The lines and events named by the change that already have a turn.
    recorded: BTreeSet<String>,
}

impl Decision {
    /// Returns a decision that changes nothing yet.
    pub fn new(agent: Agent, open: Option<Command>) -> Self {
        let open = open.filter(|command| command.state != CommandState::Complete);
        Self {
            agent,
            commands: Vec::new(),
            turns: Vec::new(),
            adopted: Vec::new(),
            claims: ClaimAction::Renew,
            turn_ended_at: None,
            needs_introduction: false,
            open,
            event: None,
            recorded: BTreeSet::new(),
        }
    }

    /// Names the lines and events that already have a turn, so that none is made of them again.
    #[must_use]
    pub fn with_recorded(mut self, recorded: BTreeSet<String>) -> Self {
        self.recorded = recorded;
        self
    }

    /// Names the event that is applied, by its id.
    #[must_use]
    pub fn of_event(mut self, id: &str) -> Self {
        self.event = Some(id.to_owned());
        self
    }

    /// Returns true if the event was applied before: it is among the agent's last events, or has a
    /// turn.
    pub fn was_applied(&self) -> bool {
        let processed = &self.agent.processed;
        let is_remembered = |event: &String| processed.contains(event);
        self.event.as_ref().is_some_and(is_remembered) || self.is_recorded(self.event.as_ref())
    }

    fn is_recorded(&self, source: Option<&String>) -> bool {
        source.is_some_and(|source| self.recorded.contains(source))
    }

    /// Applies one event.
    #[must_use]
    pub fn after(mut self, event: &HookEvent, now: Timestamp) -> Self {
        self.stop_if_due(now);
        self.remember(event, now);
        self.claims = ClaimAction::after(event);
        match event.kind {
            EventKind::SessionStart => self.start(event, now),
            EventKind::SessionEnd => {
                self.complete(now);
                self.become_state(AgentState::Done, event.text(&["reason"]));
            }
            EventKind::Prompt => self.prompt(event, now),
            EventKind::BeforeTool => {
                self.agent.stop_due = None;
                self.work_on(event.doing());
            }
            EventKind::AfterTool => self.work_on(None),
            EventKind::Notification | EventKind::PermissionRequest => {
                let asked = event.text(&["message", "title"]).map(str::to_owned);
                let asked = asked.or_else(|| event.doing());
                if self.agent.state != AgentState::Done {
                    self.become_state(AgentState::Waiting, asked.as_deref());
                    self.put_command(CommandState::Waiting);
                }
            }
            EventKind::Stop if self.agent.state != AgentState::Done => {
                self.agent.stop_due = Some(now.after(STOP_DELAY));
                let words = ["last_assistant_message", "prompt_response", "response"];
                self.agent.last_words = event.text(&words).map(kept_turn);
                self.agent.last_words_event = self.event.clone();
            }
            EventKind::Stop => {}
            EventKind::Other => self.keep(event),
        }
        if self.agent.state == AgentState::Gone {
            self.become_state(AgentState::Idle, None);
        }
        self
    }

    /// Carries out a stop that is due. Returns true if there was one.
    pub fn stop_if_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.agent.stop_due.is_some_and(|due| due <= now);
        if is_due {
            self.complete(now);
            if !matches!(self.agent.state, AgentState::Done | AgentState::Gone) {
                self.become_state(AgentState::Idle, None);
            }
        }
        is_due
    }

    /// Calls an agent gone. This ends no lease: leases run out by their own rules.
    pub fn call_gone(&mut self, reason: &str) {
        self.become_state(AgentState::Gone, Some(reason));
    }

    /// Makes a turn of a line of the transcript, if none was made of it. A hook's report of that
    /// text is used up by it.
    pub fn add_said(&mut self, said: &Said, now: Timestamp) {
        if self.recorded.contains(&said.line) {
            return;
        }
        let told = self.take_pending(said);
        if let Some(turn) = told.as_ref().and_then(|told| told.turn) {
            self.adopted.push((said.line.clone(), turn));
            return;
        }
        let at = told.as_ref().map_or(now, |told| told.at);
        let mut turn = self.next_turn(said.by, kept_turn(&said.text()), at);
        turn.command = told.map_or(turn.command, |told| told.command);
        turn.from_transcript = true;
        turn.source = Some(said.line.clone());
        self.turns.push(turn);
    }

    /// Names a line of the transcript whose turn a hook has made.
    pub fn adopt(&mut self, line: &str, turn: u32) {
        if !self.recorded.contains(line) {
            self.adopted.push((line.to_owned(), turn));
        }
    }

    /// Takes over the fields that every event may have.
    fn remember(&mut self, event: &HookEvent, now: Timestamp) {
        let agent = &mut self.agent;
        agent.last_seen = now;
        agent.is_settled = false;
        agent.program = event.program;
        agent.cwd = event.cwd().or(agent.cwd.take());
        let transcript = event.text(&["transcript_path"]).map(str::to_owned);
        agent.transcript_path = transcript.or(agent.transcript_path.take());
        let model = event.text(&["model"]).map(str::to_owned);
        agent.model = model.or(agent.model.take());
        if event.kind != EventKind::Other {
            keep_fields(&mut agent.other_fields, event);
        }
    }

    fn start(&mut self, event: &HookEvent, now: Timestamp) {
        // After a summary of the conversation the agent goes on with its work.
        let goes_on = event.text(&["source"]) == Some("compact");
        if !goes_on || matches!(self.agent.state, AgentState::Done | AgentState::Gone) {
            self.become_state(AgentState::Idle, None);
        }
        self.agent.stop_due = None;
        if self.agent.prompt_injected_at.is_none() {
            self.agent.prompt_injected_at = Some(now);
            self.needs_introduction = true;
        }
    }

    fn prompt(&mut self, event: &HookEvent, now: Timestamp) {
        self.complete(now);
        self.become_state(AgentState::Running, None);
        let text = event.text(&["prompt", "user_prompt"]).unwrap_or_default();
        self.agent.commands += 1;
        self.agent.is_command_open = true;
        let command = Command {
            number: self.agent.commands,
            session: self.agent.session.clone(),
            state: CommandState::Running,
            text: shortened(text, COMMAND_CHARS_MAX),
            started_at: now,
            completed_at: None,
        };
        self.agent.task = Some(command.text.clone()).filter(|text| !text.is_empty());
        self.commands.push(command.clone());
        self.open = Some(command);
        let event = self.event.clone();
        self.add_turn(Speaker::User, kept_turn(text), event, now);
    }

    fn work_on(&mut self, doing: Option<String>) {
        if self.agent.state == AgentState::Done {
            return;
        }
        self.become_state(AgentState::Running, None);
        self.agent.doing = doing;
        self.put_command(CommandState::Running);
    }

    /// Completes the open command, if there is one. A second call finds none.
    fn complete(&mut self, now: Timestamp) {
        self.agent.stop_due = None;
        self.agent.doing = None;
        let event = self.agent.last_words_event.take();
        if let Some(words) = self.agent.last_words.take() {
            self.add_turn(Speaker::Agent, words, event, now);
        }
        if let Some(open) = &mut self.open {
            open.completed_at = Some(now);
        }
        self.put_command(CommandState::Complete);
        self.open = None;
        self.agent.is_command_open = false;
    }

    /// Brings the open command into a state, if it is in another.
    fn put_command(&mut self, state: CommandState) {
        let Some(open) = &mut self.open else { return };
        if open.state == state {
            return;
        }
        open.state = state;
        let changed = open.clone();
        self.commands
            .retain(|command| command.number != changed.number);
        self.commands.push(changed);
    }

    fn become_state(&mut self, state: AgentState, reason: Option<&str>) {
        self.agent.state = state;
        self.agent.reason = reason.map(|reason| shortened(reason, COMMAND_CHARS_MAX));
        if state != AgentState::Running {
            self.agent.doing = None;
        }
    }

    /// Makes a turn of an event, if none was made of it. If the agent's turns come from the
    /// transcript, the turn is only expected there.
    fn add_turn(&mut self, by: Speaker, text: String, event: Option<String>, at: Timestamp) {
        if self.agent.has_transcript {
            let expected = PendingTurn {
                by,
                digest: digest(&text),
                command: self.agent.commands,
                at,
                turn: None,
            };
            return self.expect([expected]);
        }
        if !self.is_recorded(event.as_ref()) {
            let mut turn = self.next_turn(by, text, at);
            turn.source = event;
            self.turns.push(turn);
        }
    }

    /// Keeps an unknown event: the last of each name.
    fn keep(&mut self, event: &HookEvent) {
        let kept = &mut self.agent.other_events;
        if kept.len() >= OTHER_EVENTS_MAX && !kept.contains_key(&event.name) {
            return;
        }
        let whole = Value::Object(event.fields.clone());
        let is_short = whole.to_string().len() <= OTHER_EVENT_BYTES_MAX;
        let value = if is_short {
            whole
        } else {
            Value::String("too long to be kept".into())
        };
        kept.insert(event.name.clone(), value);
    }
}

/// Keeps the fields of an event that are not read here: the last of each name.
fn keep_fields(kept: &mut Map<String, Value>, event: &HookEvent) {
    for (name, value) in &event.fields {
        let is_known = KNOWN_FIELDS.contains(&name.as_str());
        let is_full = kept.len() >= OTHER_EVENTS_MAX && !kept.contains_key(name);
        let is_long = || name.len() + value.to_string().len() > OTHER_FIELD_BYTES_MAX;
        if !is_known && !is_full && !is_long() {
            kept.insert(name.clone(), value.clone());
        }
    }
}

impl Decision {
    /// Returns the next turn of the agent, and counts it.
    pub(super) fn next_turn(&mut self, by: Speaker, text: String, at: Timestamp) -> Turn {
        let agent = &mut self.agent;
        agent.turns += 1;
        Turn {
            agent: agent.id,
            number: agent.turns,
            session: agent.session.clone(),
            command: agent.commands,
            by,
            text,
            at,
            summary: None,
            from_transcript: false,
            source: None,
        }
    }

    /// Expects the transcript to show these texts. If there are too many, the newest are kept.
    pub(super) fn expect(&mut self, pending: impl IntoIterator<Item = PendingTurn>) {
        let all = &mut self.agent.pending_turns;
        all.extend(pending);
        all.drain(..all.len().saturating_sub(PENDING_MAX));
    }

    /// Takes the text that a hook reported for a line of the transcript. Earlier reports of its
    /// speaker are dropped, except for those that have a turn.
    fn take_pending(&mut self, said: &Said) -> Option<PendingTurn> {
        let digests: Vec<String> = said.digests().collect();
        let pending = &mut self.agent.pending_turns;
        let is_told = |told: &PendingTurn| told.by == said.by && digests.contains(&told.digest);
        let index = pending.iter().position(is_told)?;
        let later = pending.split_off(index);
        pending.retain(|earlier| earlier.by != said.by || earlier.turn.is_some());
        let mut later = later.into_iter();
        let told = later.next();
        pending.extend(later);
        told
    }
}

/// Returns the digest of a text, which is equal for one turn wherever the text comes from: it
/// covers the part that is kept, without the blanks around it.
pub(super) fn digest(text: &str) -> String {
    Version::of(kept_turn(text).trim().as_bytes()).to_string()
}

/// Returns as much of a text as is kept of a turn.
pub(super) fn kept_turn(text: &str) -> String {
    if text.len() > TURN_BYTES_MAX {
        format!("{}…", &text[..text.floor_char_boundary(TURN_BYTES_MAX)])
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::event::Program;
    use crate::agents::processor::new_agent;
    use serde_json::json;

    use AgentState::{Done, Gone, Idle, Running, Waiting};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn event(name: &str, more: Value) -> HookEvent {
        let mut body = json!({"hook_event_name": name, "session_id": "s"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        HookEvent::parse(body.to_string().as_bytes(), Some(Program::Claude), None).unwrap()
    }

    /// An agent in a state, with an open command.
    fn agent(state: AgentState) -> Decision {
        let mut agent = new_agent(&event("Stop", json!({})), 7, at(0), "host");
        agent.state = state;
        agent.commands = 1;
        agent.is_command_open = true;
        let command = Command {
            number: 1,
            session: "s".into(),
            state: CommandState::Running,
            text: "do it".into(),
            started_at: at(0),
            completed_at: None,
        };
        Decision::new(agent, Some(command))
    }

    #[test]
    fn every_event_in_every_state_does_what_the_table_says() {
        let states = [Idle, Running, Waiting, Done, Gone];
        let table = [
            ("SessionStart", [Idle, Idle, Idle, Idle, Idle]),
            ("UserPromptSubmit", [Running; 5]),
            ("PreToolUse", [Running, Running, Running, Done, Running]),
            ("PostToolUse", [Running, Running, Running, Done, Running]),
            ("Notification", [Waiting, Waiting, Waiting, Done, Waiting]),
            (
                "PermissionRequest",
                [Waiting, Waiting, Waiting, Done, Waiting],
            ),
            ("Stop", [Idle, Running, Waiting, Done, Idle]),
            ("SessionEnd", [Done; 5]),
            ("Elicitation", [Idle, Running, Waiting, Done, Idle]),
        ];
        for (name, after) in table {
            for (before, after) in states.into_iter().zip(after) {
                let decided = agent(before).after(&event(name, json!({})), at(5));
                assert_eq!(decided.agent.state, after, "{name} in {before:?}");
                assert_eq!(decided.agent.last_seen, at(5));
                let releases = decided.claims == ClaimAction::Release;
                assert_eq!(releases, name == "SessionEnd");
                let waits = decided.agent.stop_due.is_some();
                assert_eq!(
                    waits,
                    name == "Stop" && before != Done,
                    "{name} in {before:?}"
                );
            }
        }
    }

    #[test]
    fn a_prompt_completes_the_command_before_it_and_begins_the_next() {
        let decided = agent(Running).after(
            &event("UserPromptSubmit", json!({"prompt": "next\nline"})),
            at(1),
        );
        let states: Vec<_> = decided
            .commands
            .iter()
            .map(|c| (c.number, c.state))
            .collect();
        assert_eq!(
            states,
            [(1, CommandState::Complete), (2, CommandState::Running)]
        );
        assert_eq!(decided.commands[1].text, "next");
        assert_eq!(decided.turns.len(), 1);
        assert_eq!(
            (decided.turns[0].text.as_str(), decided.turns[0].by),
            ("next\nline", Speaker::User)
        );
    }

    #[test]
    fn an_event_makes_its_turn_once_and_none_where_the_transcript_does() {
        let prompt = event("UserPromptSubmit", json!({"prompt": "next\n"}));
        let recorded = BTreeSet::from(["e1".to_owned()]);
        let of = |id: &str, has_transcript: bool| {
            let mut agent = agent(Idle).with_recorded(recorded.clone()).of_event(id);
            agent.agent.has_transcript = has_transcript;
            agent.after(&prompt, at(1))
        };
        assert_eq!(of("e1", false).turns.len(), 0, "again");
        assert_eq!(of("e2", false).turns[0].source.as_deref(), Some("e2"));
        let mut expects = of("e2", true);
        assert_eq!(
            (expects.turns.len(), expects.agent.pending_turns.len()),
            (0, 1)
        );
        let said = |line: &str| Said::of(line, Speaker::User, "next");
        expects.add_said(&said("u1"), at(9));
        expects.add_said(&said("u2"), at(9));
        expects.add_said(&said("e1"), at(9));
        let lines: Vec<_> = expects
            .turns
            .iter()
            .map(|turn| (turn.source.as_deref(), turn.at))
            .collect();
        assert_eq!(lines, [(Some("u1"), at(1)), (Some("u2"), at(9))]);
        assert!(expects.agent.pending_turns.is_empty());
    }

    #[test]
    fn a_stop_takes_effect_when_it_is_due_and_once() {
        let stopped = agent(Running).after(
            &event("Stop", json!({"last_assistant_message": "done"})),
            at(1),
        );
        assert_eq!(stopped.agent.stop_due, Some(at(3)));
        let mut early = Decision::new(stopped.agent.clone(), stopped.open.clone());
        assert!(!early.stop_if_due(at(2)));
        let mut due = Decision::new(stopped.agent, stopped.open);
        assert!(due.stop_if_due(at(3)));
        assert_eq!(due.agent.state, Idle);
        assert_eq!(due.commands[0].state, CommandState::Complete);
        assert_eq!(
            (due.turns[0].text.as_str(), due.turns[0].by),
            ("done", Speaker::Agent)
        );
        assert!(!due.stop_if_due(at(4)));
        assert_eq!((due.commands.len(), due.turns.len()), (1, 1));
    }

    #[test]
    fn of_a_stop_and_the_end_of_a_session_the_second_finds_the_command_complete() {
        let stop = event("Stop", json!({}));
        let end = event("SessionEnd", json!({"reason": "exit"}));
        // The end comes before the stop is due.
        let ended = agent(Running).after(&stop, at(1)).after(&end, at(2));
        assert_eq!((ended.agent.state, ended.agent.stop_due), (Done, None));
        let mut late = Decision::new(ended.agent, Some(ended.commands[0].clone()));
        assert!(!late.stop_if_due(at(9)));
        assert!(late.commands.is_empty());
        // The stop is due before the end.
        let mut due = agent(Running).after(&stop, at(1));
        assert!(due.stop_if_due(at(3)));
        let ended = Decision::new(due.agent, Some(due.commands[0].clone())).after(&end, at(4));
        assert_eq!(ended.agent.state, Done);
        assert!(ended.commands.is_empty(), "it was complete already");
    }

    #[test]
    fn a_stop_that_is_due_when_its_agent_is_gone_is_carried_out_and_it_stays_gone() {
        let mut stopped = agent(Running).after(&event("Stop", json!({})), at(1));
        stopped.call_gone("its pane is gone");
        assert!(stopped.stop_if_due(at(3)));
        assert_eq!(stopped.agent.state, Gone);
        assert_eq!(stopped.commands[0].state, CommandState::Complete);
    }

    #[test]
    fn fields_that_are_not_known_are_kept_as_far_as_they_are_short() {
        let more = json!({"new_field": 7, "tool_response": "x", "long": "y".repeat(2000)});
        let decided = agent(Running).after(&event("PostToolUse", more), at(1));
        let fields = &decided.agent.other_fields;
        assert_eq!(Value::Object(fields.clone()), json!({"new_field": 7}));
    }

    #[test]
    fn an_agent_is_told_once() {
        let start = event("SessionStart", json!({"source": "startup"}));
        let first = agent(Idle).after(&start, at(1));
        assert!(first.needs_introduction);
        let second = Decision::new(first.agent, None).after(&start, at(2));
        assert!(!second.needs_introduction);
        assert_eq!(second.agent.prompt_injected_at, Some(at(1)));
    }

    #[test]
    fn an_unknown_event_is_kept_and_a_huge_one_is_not() {
        let decided = agent(Idle).after(&event("Elicitation", json!({"x": 1})), at(1));
        assert_eq!(decided.agent.other_events["Elicitation"]["x"], 1);
        let huge = json!({"x": "y".repeat(OTHER_EVENT_BYTES_MAX)});
        let decided = agent(Idle).after(&event("Elicitation", huge), at(1));
        assert!(decided.agent.other_events["Elicitation"].is_string());
    }
}
