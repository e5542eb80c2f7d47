//! Coding agents: what their hooks say, what they do, and the hooks in their settings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_core::{Owner, Timestamp};

use crate::operation::operation;

/// The program that an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Copilot CLI.
    Copilot,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
}

impl Program {
    /// All programs, by name.
    pub const ALL: [Self; 5] = [
        Self::Claude,
        Self::Codex,
        Self::Copilot,
        Self::Cursor,
        Self::Gemini,
    ];
}

/// The state of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The tokens that an agent has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    /// The number of tokens in its last request.
    pub tokens: u64,
    /// The number of tokens that it has written in this session.
    pub written: u64,
}

/// The speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// A person.
    User,
    /// The agent.
    Agent,
}

/// A text that a hook told of, and that the transcript has not shown yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Turns that hooks told of and the transcript has not shown yet, oldest first.
    #[serde(default)]
    pub pending_turns: Vec<PendingTurn>,
    /// The tokens that it has used.
    pub context: Option<Context>,
    /// The last event of the spool that was processed.
    #[serde(default)]
    pub spooled: Option<String>,
    /// The last events that were processed. One whose hook could not know that is not processed
    /// twice.
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

/// Processes one event of the hook of an agent, and answers it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hook {
    /// The event, as the program sent it.
    pub body: String,
    /// The program: told by what it sends, if it is left out.
    pub program: Option<Program>,
    /// The name of the event, if the body does not name it.
    pub event: Option<String>,
    /// The directory of the program, if the body does not name it.
    pub directory: Option<PathBuf>,
    /// The pane of tmux that the agent runs in, and the socket of that tmux.
    pub tmux: Option<(String, String)>,
}
operation!("agent.hook", Hook, Hooked);

/// The outcome of an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Hooked {
    /// The answer, in the form of the program; `null` if it needs none.
    pub answer: Option<Value>,
    /// The owner that the commands of the agent ask as, when its session begins.
    pub owner: Option<Owner>,
    /// Sentences that people should know.
    pub words: Vec<String>,
}

/// Lists the agents, those that were seen last first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ls {
    /// True to list agents that are done or gone, too.
    pub all: bool,
}
operation!("agent.ls", Ls, Agents);

/// Agents.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// The agents.
    pub agents: Vec<Listed>,
    /// `null`: all agents are on one page.
    pub next: Option<String>,
}

/// An agent, with what it holds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The agent.
    #[serde(flatten)]
    pub agent: Agent,
    /// The resources it holds.
    pub holds: Vec<String>,
    /// The resources it waits for.
    pub waits_for: Vec<String>,
    /// The issues and nodes it has claimed.
    pub claims: Vec<String>,
}

/// Shows what would be changed in the settings of programs, and changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether hooks are added or taken out.
    pub action: HookAction,
    /// The program: if it is left out, those that are used here, or all to take hooks out of.
    #[serde(default)]
    pub program: Option<Program>,
}
operation!("agent.plan", Plan, HookChanges);

/// Changes the settings of programs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// Whether hooks are added or taken out.
    pub action: HookAction,
    /// The program: if it is left out, those that are used here, or all to take hooks out of.
    #[serde(default)]
    pub program: Option<Program>,
}
operation!("agent.apply", Apply, HookChanges);

/// The changes to the hooks in the settings of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookAction {
    /// They are added.
    Install,
    /// They are taken out.
    Uninstall,
}

/// The changes of settings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HookChanges {
    /// The files.
    pub changes: Vec<FileChange>,
    /// The directories that the sandboxes of agents must let them write, where hooks are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// True if a tool is refused whose hook does not answer.
    #[serde(skip)]
    pub refuses_unanswered: bool,
}

/// A file, and what is added to it or taken out of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The file.
    pub file: String,
    /// The program whose settings it has; `null` for those of Tenure.
    pub program: Option<Program>,
    /// What is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<Vec<String>>,
    /// What is taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<String>>,
    /// What became of it.
    pub state: ChangeState,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangeState {
    /// Something is missing.
    #[serde(rename = "would add")]
    WouldAdd,
    /// Everything was there.
    #[serde(rename = "present")]
    Present,
    /// Something was added.
    #[serde(rename = "added")]
    Added,
    /// Something is to be taken out.
    #[serde(rename = "would remove")]
    WouldRemove,
    /// Nothing was there.
    #[serde(rename = "absent")]
    Absent,
    /// Something was taken out.
    #[serde(rename = "removed")]
    Removed,
}
