//! Coding agents: the events of their hooks, the agents as listed, and the hooks in their settings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_core::{Owner, Timestamp};

use crate::operation::operation;

/// A coding-agent program, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// Claude Code, by Anthropic.
    Claude,
    /// Codex CLI, by OpenAI.
    Codex,
    /// Copilot CLI, by GitHub.
    Copilot,
    /// Cursor, by Anysphere.
    Cursor,
    /// Gemini CLI, by Google.
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
    /// The agent waits for a prompt.
    Idle,
    /// The agent works on a prompt.
    Running,
    /// The agent waits for a person: for a permission, or for an answer.
    Waiting,
    /// The session of the agent is over.
    Done,
    /// The agent was not seen for long. Its next event ends this state.
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
    /// The person who wrote the prompt.
    User,
    /// The agent itself.
    Agent,
}

/// A text that a hook told of, and that the transcript has not shown yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingTurn {
    /// The speaker of the turn.
    pub by: Speaker,
    /// The digest of the text.
    pub digest: String,
    /// The number of the command that it belongs to.
    pub command: u32,
    /// The time when it was said.
    pub at: Timestamp,
    /// The number of the turn that the hook made of it, if that was before the transcript was read.
    pub turn: Option<u32>,
}

/// A coding agent, as its hooks show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// The number of the agent, which is that of its lock.
    pub id: i32,
    /// The id of its session, as its program names it.
    pub session: String,
    /// The program that the agent is.
    pub program: Program,
    /// The owner as which it asks for locks.
    pub owner: Owner,
    /// The state of the agent.
    pub state: AgentState,
    /// The reason for its state, for people.
    pub reason: Option<String>,
    /// The present action of the agent, for people.
    pub doing: Option<String>,
    /// The last prompt to the agent, for people.
    #[serde(default)]
    pub task: Option<String>,
    /// The directory in which it works.
    pub cwd: Option<PathBuf>,
    /// The model that it uses.
    pub model: Option<String>,
    /// The file to which its program writes the conversation.
    pub transcript_path: Option<String>,
    /// The pane of tmux in which it runs, and the socket of that tmux.
    pub tmux: Option<(String, String)>,
    /// The host on which it runs.
    pub host: String,
    /// The time when it was first seen.
    pub started_at: Timestamp,
    /// The time when it was last seen.
    pub last_seen: Timestamp,
    /// The time when the agent was told about Tenure, which happens once; null if it was not yet.
    pub prompt_injected_at: Option<Timestamp>,
    /// The time when its last stop takes effect, unless it works on before then; null if none is
    /// due.
    pub stop_due: Option<Timestamp>,
    /// The last words of the agent, kept until the stop takes effect.
    pub last_words: Option<String>,
    /// The id of the event that told of the last words.
    #[serde(default)]
    pub last_words_event: Option<String>,
    /// The number of the newest command.
    pub commands: u32,
    /// True while the newest command is not complete.
    pub is_command_open: bool,
    /// The number of the newest turn.
    pub turns: u32,
    /// True if turns come from the transcript, and no longer from hooks.
    #[serde(default)]
    pub has_transcript: bool,
    /// Turns that hooks told of and that the transcript has not shown yet, oldest first.
    #[serde(default)]
    pub pending_turns: Vec<PendingTurn>,
    /// The language-model tokens that it has used; null if they are not known.
    pub context: Option<Context>,
    /// The id of the last event of the spool that was processed.
    #[serde(default)]
    pub spooled: Option<String>,
    /// The ids of the last events that were processed. An event whose hook could not know that, and
    /// that comes again, is not processed twice.
    #[serde(default)]
    pub processed: Vec<String>,
    /// True if the session is over and no work in the background is left for it.
    #[serde(default)]
    pub is_settled: bool,
    /// Events of unknown names: the last one of each name.
    #[serde(default)]
    pub other_events: Map<String, Value>,
    /// Unknown fields of known events: the last value of each.
    #[serde(default)]
    pub other_fields: Map<String, Value>,
    /// Fields that a later version of Tenure has put in.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Processes one event that the hook of an agent sent, and answers it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hook {
    /// The event: the text that the program gave to its hook.
    pub body: String,
    /// The program that sent it. Left out, it is recognised by the event.
    pub program: Option<Program>,
    /// The name of the event, if the body does not name it.
    pub event: Option<String>,
    /// The working directory of the program, if the body does not name it.
    pub directory: Option<PathBuf>,
    /// The pane of tmux in which the agent runs, and the socket of that tmux.
    pub tmux: Option<(String, String)>,
}
operation!("agent.hook", Hook, Hooked);

/// The answer to an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Hooked {
    /// The answer in the form that the program expects; null if it needs none.
    pub answer: Option<Value>,
    /// The owner as which the commands of the agent ask. Only at the beginning of a session; else
    /// null.
    pub owner: Option<Owner>,
    /// Sentences that people should know.
    pub words: Vec<String>,
}

/// Lists the agents, the most recently seen first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ls {
    /// True to list also agents that are done or gone.
    pub all: bool,
}
operation!("agent.ls", Ls, Agents);

/// A list of agents.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// The agents, the most recently seen first.
    pub agents: Vec<Listed>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

/// An agent, with the locks and claims that it has.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The agent itself.
    #[serde(flatten)]
    pub agent: Agent,
    /// The resources on which it holds locks.
    pub holds: Vec<String>,
    /// The resources for which it waits.
    pub waits_for: Vec<String>,
    /// The issues and nodes that it has claimed.
    pub claims: Vec<String>,
}

/// Shows the changes that `agent.apply` would make, and makes none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The change: `install` adds hooks, `uninstall` takes them out.
    pub action: HookAction,
    /// The program whose settings are changed. Left out, hooks are added for the programs that are
    /// used here, and taken out for all.
    #[serde(default)]
    pub program: Option<Program>,
}
operation!("agent.plan", Plan, HookChanges);

/// Adds hooks to the settings of coding agents, or takes them out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The change: `install` adds hooks, `uninstall` takes them out.
    pub action: HookAction,
    /// The program whose settings are changed. Left out, hooks are added for the programs that are
    /// used here, and taken out for all.
    #[serde(default)]
    pub program: Option<Program>,
}
operation!("agent.apply", Apply, HookChanges);

/// The kind of change to the hooks in the settings of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookAction {
    /// Hooks are added.
    Install,
    /// Hooks are taken out.
    Uninstall,
}

/// The changes to settings, file by file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HookChanges {
    /// The files, each with its change.
    pub changes: Vec<FileChange>,
    /// The directories to which the sandboxes of agents must let them write. Only where hooks are
    /// added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// True if tools are refused when their hook does not answer.
    #[serde(skip)]
    pub refuses_unanswered: bool,
}

/// A file of settings, and the change to it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The path of the file.
    pub file: String,
    /// The program whose settings it has; null for the settings of Tenure.
    pub program: Option<Program>,
    /// The entries that are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<Vec<String>>,
    /// The entries that are taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<String>>,
    /// The outcome for the file.
    pub state: ChangeState,
}

/// The outcome of a change, for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangeState {
    /// Entries are missing, and would be added.
    #[serde(rename = "would add")]
    WouldAdd,
    /// All entries were there already.
    #[serde(rename = "present")]
    Present,
    /// Entries were added.
    #[serde(rename = "added")]
    Added,
    /// Entries are there, and would be taken out.
    #[serde(rename = "would remove")]
    WouldRemove,
    /// No entries were there.
    #[serde(rename = "absent")]
    Absent,
    /// Entries were taken out.
    #[serde(rename = "removed")]
    Removed,
}
