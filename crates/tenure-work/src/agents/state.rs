//! Agents, commands and turns, as records.
//!
//! | kind | id | what it holds |
//! |---|---|---|
//! | `agent` | the session id | its identity, state and time last seen; by state, owner and directory |
//! | `agent_command` | `NUMBER/COMMAND` | a request of a person, from the prompt to `COMPLETE`; by state and session |
//! | `agent_turn` | `NUMBER/TURN` | one text of a person or of the agent, and its summary; by session |
//! | `agent_turn_source` | `NUMBER/SOURCE` | the turn that was made of a line of the transcript, or of an event: none is made of it again; by session |
//! | `agent_counter` | `agent` | the newest number that was given to an agent |

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::records::{Changes, Columns, Record, RecordKey};
use tenure::{Error, Result, Timestamp};
pub use tenure_api::agents::{Agent, AgentState, Context, PendingTurn, Speaker};

/// The kind of an agent's record.
pub const AGENT: &str = "agent";
/// The kind of a command's record.
pub const COMMAND: &str = "agent_command";
/// The kind of a turn's record.
pub const TURN: &str = "agent_turn";
/// The kind of the record that keeps a second turn from being made of a line or an event.
pub(super) const SOURCE: &str = "agent_turn_source";

/// The subject of an agent's record while background work on it may be due.
pub(super) const UNSETTLED: &str = "unsettled";

/// The state of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CommandState {
    /// The agent works on it.
    Running,
    /// The agent waits for a person.
    Waiting,
    /// The command is over.
    Complete,
}

tenure_api::shown_as_in_json!(CommandState);

/// A request of a person to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Command {
    /// Its number within the agent.
    pub number: u32,
    /// The session of the agent.
    pub session: String,
    /// Its state: running, waiting or complete.
    pub state: CommandState,
    /// The beginning of the request.
    pub text: String,
    /// The time when the command began.
    pub started_at: Timestamp,
    /// The time when the command was complete, if it is.
    pub completed_at: Option<Timestamp>,
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
    /// The speaker: a person or the agent.
    pub by: Speaker,
    /// The text, as far as it is kept.
    pub text: String,
    /// The time when the text was said.
    pub at: Timestamp,
    /// The summary, if there is one.
    pub summary: Option<String>,
    /// True if the turn comes from the transcript.
    pub from_transcript: bool,
    /// The line of the transcript, or the event, that the turn was made of.
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

/// Returns the key of the record of a turn's source.
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

/// Writes the record of an agent.
pub(super) fn put_agent(agent: &Agent, changes: &mut Changes) -> Result<()> {
    let columns = Columns {
        state: Some(agent.state.to_string()),
        owner: Some(agent.owner.to_string()),
        subject: (!agent.is_settled).then(|| UNSETTLED.to_owned()),
    };
    changes.put(agent_key(&agent.session)?, columns, body(agent)?);
    Ok(())
}

impl Command {
    /// Writes the record.
    pub(super) fn put(&self, agent: i32, changes: &mut Changes) -> Result<()> {
        let columns = Columns {
            state: Some(self.state.to_string()),
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

/// Writes the record of a turn's source.
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
