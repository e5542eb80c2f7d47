//! Agents, commands and turns, as records.
//!
//! | kind | id | what it holds |
//! |---|---|---|
//! | `agent` | the session id | who it is, what it does, when it was last seen; by state, owner and directory |
//! | `agent_command` | `NUMBER/COMMAND` | what a person asked for, from the prompt to `COMPLETE`; by state and session |
//! | `agent_turn` | `NUMBER/TURN` | one text of a person or of the agent, and its summary; by session |
//! | `agent_turn_source` | `NUMBER/SOURCE` | the turn that was made of a line of the transcript, or of an event: none is made of it again; by session |
//! | `agent_counter` | `agent` | the newest number that was given to an agent |

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure::records::{Changes, Columns, Record, RecordKey};
use tenure::{Error, Owner, Result, Timestamp};

use super::event::Program;

/// The kind of an agent's record.
pub const AGENT: &str = "agent";
/// The kind of a command's record.
pub const COMMAND: &str = "agent_command";
/// The kind of a turn's record.
pub const TURN: &str = "agent_turn";
/// The kind of the record that keeps a second turn from being made of a line or an event.
pub(super) const SOURCE: &str = "agent_turn_source";

/// The subject of the record of an agent that something may have to be done about in the background.
pub(super) const UNSETTLED: &str = "unsettled";

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// It waits for a prompt.
    Idle,
    /// It works.
    Running,
    /// It waits for a person: a permission, or an answer.
    Waiting,
    /// Its session is over.
    Done,
    /// It was not seen for long. The next event lifts this.
    Gone,
}

impl AgentState {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            AgentState::Idle => "idle",
            AgentState::Running => "running",
            AgentState::Waiting => "waiting",
            AgentState::Done => "done",
            AgentState::Gone => "gone",
        }
    }
}

/// The state of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CommandState {
    /// The agent works on it.
    Running,
    /// It waits for a person.
    Waiting,
    /// It is over.
    Complete,
}

impl CommandState {
    const fn as_str(self) -> &'static str {
        match self {
            CommandState::Running => "RUNNING",
            CommandState::Waiting => "WAITING",
            CommandState::Complete => "COMPLETE",
        }
    }
}

/// The tokens that an agent has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The number of tokens in its last request.
    pub tokens: u64,
    /// The number of tokens that it has written in this session.
    pub written: u64,
}

/// A text that a hook told of, and that the transcript has not shown yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTurn {
    /// The speaker.
    pub by: Speaker,
    /// The digest of the text.
    pub digest: String,
    /// The command it belongs to.
    pub command: u32,
    /// The time when it was said.
    pub at: Timestamp,
    /// The turn that the hook made of it, if that was before the transcript was read.
    pub turn: Option<u32>,
}

/// A coding agent, as its hooks show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Agent {
    /// Its number: that of its lock.
    pub id: i32,
    /// Its session.
    pub session: String,
    /// The program it is.
    pub program: Program,
    /// The owner it asks as.
    pub owner: Owner,
    /// Its state.
    pub state: AgentState,
    /// The reason for its state, for people.
    pub reason: Option<String>,
    /// Its present action, for people.
    pub doing: Option<String>,
    /// The last request to it, for people.
    #[serde(default)]
    pub task: Option<String>,
    /// The directory it works in.
    pub cwd: Option<PathBuf>,
    /// The model it uses.
    pub model: Option<String>,
    /// The file its program writes what was said to.
    pub transcript_path: Option<String>,
    /// The pane of tmux it runs in, and the socket of that tmux.
    pub tmux: Option<(String, String)>,
    /// The host it runs on.
    pub host: String,
    /// The time when it was first seen.
    pub started_at: Timestamp,
    /// The time when it was last seen.
    pub last_seen: Timestamp,
    /// The time when it was told about Tenure. It is told once.
    pub prompt_injected_at: Option<Timestamp>,
    /// The time when a stop takes effect.
    pub stop_due: Option<Timestamp>,
    /// The last words of the agent, until the stop takes effect.
    pub last_words: Option<String>,
    /// The event that told of the last words.
    #[serde(default)]
    pub last_words_event: Option<String>,
    /// The number of the newest command.
    pub commands: u32,
    /// True while that command is not complete.
    pub is_command_open: bool,
    /// The number of the newest turn.
    pub turns: u32,
    /// True if turns come from the transcript, and no more from hooks.
    #[serde(default)]
    pub has_transcript: bool,
    /// What hooks told of and the transcript has not shown yet, oldest first.
    #[serde(default)]
    pub pending_turns: Vec<PendingTurn>,
    /// The tokens that it has used.
    pub context: Option<Context>,
    /// The last event of the spool that was processed.
    #[serde(default)]
    pub spooled: Option<String>,
    /// The last events that were processed. One whose hook could not know that is not processed twice.
    #[serde(default)]
    pub processed: Vec<String>,
    /// True if nothing is to be done about it in the background, as its session is over.
    #[serde(default)]
    pub is_settled: bool,
    /// The last of each event that is not known.
    #[serde(default)]
    pub other_events: Map<String, Value>,
    /// The last of each field that is not known, of known events.
    #[serde(default)]
    pub other_fields: Map<String, Value>,
    /// Fields of a later version.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A request of a person to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Command {
    /// Its number within the agent.
    pub number: u32,
    /// The session of the agent.
    pub session: String,
    /// Its state.
    pub state: CommandState,
    /// The beginning of what was asked.
    pub text: String,
    /// The time when it began.
    pub started_at: Timestamp,
    /// The time when it was complete.
    pub completed_at: Option<Timestamp>,
}

/// The speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// A person.
    User,
    /// The agent.
    Agent,
}

/// One text of a person or of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The number of the agent.
    pub agent: i32,
    /// Its number within the agent.
    pub number: u32,
    /// The session of the agent.
    pub session: String,
    /// The command it belongs to.
    pub command: u32,
    /// The speaker.
    pub by: Speaker,
    /// The text.
    pub text: String,
    /// The time when it was said.
    pub at: Timestamp,
    /// The summary, if there is one.
    pub summary: Option<String>,
    /// True if it comes from the transcript.
    pub from_transcript: bool,
    /// The line of the transcript, or the event, that it was made of.
    #[serde(default)]
    pub source: Option<String>,
}

/// Returns the key of an agent.
pub fn agent_key(session: &str) -> Result<RecordKey> {
    RecordKey::new(AGENT, session)
}

/// Returns the key of the counter that numbers agents.
pub fn counter_key() -> Result<RecordKey> {
    RecordKey::new("agent_counter", AGENT)
}

/// Returns the key of a command.
pub fn command_key(agent: i32, number: u32) -> Result<RecordKey> {
    RecordKey::new(COMMAND, format!("{agent}/{number:08}"))
}

/// Returns the key of a turn.
pub fn turn_key(agent: i32, number: u32) -> Result<RecordKey> {
    RecordKey::new(TURN, format!("{agent}/{number:08}"))
}

/// Returns the key of the record of what a turn was made of.
pub(super) fn source_key(agent: i32, source: &str) -> Result<RecordKey> {
    RecordKey::new(SOURCE, format!("{agent}/{source}"))
}

/// Reads the body of a record.
pub fn read<'a, T: Deserialize<'a>>(record: &'a Record) -> Result<T> {
    T::deserialize(&record.body)
        .map_err(|error| Error::corrupt("records", format!("{}: {error}", record.key)))
}

fn body(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of).map_err(|error| Error::Internal(error.to_string()))
}

impl Agent {
    /// Writes the record.
    pub(super) fn put(&self, changes: &mut Changes) -> Result<()> {
        let columns = Columns {
            state: Some(self.state.as_str().to_owned()),
            owner: Some(self.owner.to_string()),
            subject: (!self.is_settled).then(|| UNSETTLED.to_owned()),
        };
        changes.put(agent_key(&self.session)?, columns, body(self)?);
        Ok(())
    }
}

impl Command {
    /// Writes the record.
    pub(super) fn put(&self, agent: i32, changes: &mut Changes) -> Result<()> {
        let columns = Columns {
            state: Some(self.state.as_str().to_owned()),
            subject: Some(self.session.clone()),
            ..Columns::default()
        };
        changes.put(command_key(agent, self.number)?, columns, body(self)?);
        Ok(())
    }
}

impl Turn {
    /// Returns the indexed columns. Turns that may get a summary are listed by their state.
    pub fn columns(&self, is_given_up: bool) -> Columns {
        let state = match (self.by, &self.summary) {
            (Speaker::Agent, None) if !is_given_up => "open",
            _ => "closed",
        };
        Columns {
            state: Some(state.to_owned()),
            subject: Some(self.session.clone()),
            ..Columns::default()
        }
    }

    /// Writes the record.
    pub(super) fn put(&self, changes: &mut Changes) -> Result<()> {
        let key = turn_key(self.agent, self.number)?;
        changes.put(key, self.columns(false), body(self)?);
        Ok(())
    }
}

/// Writes the record of what a turn was made of.
pub(super) fn put_source(
    agent: &Agent,
    source: &str,
    turn: u32,
    changes: &mut Changes,
) -> Result<()> {
    let columns = Columns {
        subject: Some(agent.session.clone()),
        ..Columns::default()
    };
    changes.put(source_key(agent.id, source)?, columns, turn.into());
    Ok(())
}
