//! The message of the hook of a coding agent: an event of one session.
//!
//! Programs name the same events differently. An event is known by its name, read without case and
//! punctuation, so the routes of older programs (`session-start`) and the hooks of newer ones
//! (`SessionStart`, `sessionStart`) are one. An unknown event is kept, and changes no state.
//!
//! | event | Claude Code, Codex | Gemini | Cursor, Copilot |
//! |---|---|---|---|
//! | session start | `SessionStart` | `SessionStart` | `sessionStart` |
//! | session end | `SessionEnd` | `SessionEnd` | `sessionEnd` |
//! | prompt | `UserPromptSubmit` | `BeforeAgent` | `beforeSubmitPrompt`, `userPromptSubmitted` |
//! | stop | `Stop` | `AfterAgent` | `stop`, `agentStop` |
//! | notification | `Notification` | `Notification` | |
//! | permission request | `PermissionRequest` | | |
//! | before a tool | `PreToolUse` | `BeforeTool` | `preToolUse`, `beforeShellExecution` |
//! | after a tool | `PostToolUse` | `AfterTool` | `postToolUse`, `afterShellExecution`, `afterFileEdit` |

use std::path::PathBuf;

use serde_json::{Map, Value};
use tenure::request::{command_line, kept_command};
use tenure::{Error, Owner, Result};
pub use tenure_api::agents::Program;

use super::identity::owner_of;
use super::tolerant_json;

/// The part of a body that is read, in bytes. A longer body is cut there.
pub const EVENT_BYTES_MAX: usize = 64 << 20;
/// The longest session id that is accepted, in bytes.
const SESSION_BYTES_MAX: usize = 200;
/// The largest part that is kept of a text for people, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// The kind of an event, whatever its program calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A session begins, or goes on.
    SessionStart,
    /// A session is over.
    SessionEnd,
    /// A person asks for something.
    Prompt,
    /// The agent has answered.
    Stop,
    /// The agent tells a person something, mostly that it waits.
    Notification,
    /// The agent asks a person for permission.
    PermissionRequest,
    /// A tool is about to be used.
    BeforeTool,
    /// A tool was used.
    AfterTool,
    /// Any other event.
    Other,
}

impl EventKind {
    fn of(name: &str) -> Self {
        match plain(name).as_str() {
            "sessionstart" => EventKind::SessionStart,
            "sessionend" => EventKind::SessionEnd,
            "userpromptsubmit" | "beforesubmitprompt" | "userpromptsubmitted" | "beforeagent" => {
                EventKind::Prompt
            }
            "stop" | "agentstop" | "afteragent" => EventKind::Stop,
            "notification" => EventKind::Notification,
            "permissionrequest" => EventKind::PermissionRequest,
            "pretooluse" | "beforetool" | "beforeshellexecution" => EventKind::BeforeTool,
            "posttooluse" | "aftertool" | "aftershellexecution" | "afterfileedit" => {
                EventKind::AfterTool
            }
            _ => EventKind::Other,
        }
    }
}

/// Returns the program that sends such a body, where the caller does not say which it is.
fn guessed(fields: &Map<String, Value>, name: &str) -> Program {
    let has = |field| fields.contains_key(field);
    match plain(name).as_str() {
        _ if has("conversation_id") => Program::Cursor,
        _ if has("sessionId") || has("toolArgs") => Program::Copilot,
        "beforetool" | "aftertool" | "beforeagent" | "afteragent" => Program::Gemini,
        _ if has("turn_id") => Program::Codex,
        _ if has("timestamp") && !has("permission_mode") => Program::Gemini,
        _ => Program::Claude,
    }
}

/// Returns a name without case and punctuation.
pub(super) fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// One event of one session.
#[derive(Debug, Clone)]
pub struct HookEvent {
    /// The program that sent it.
    pub program: Program,
    /// The kind of event.
    pub kind: EventKind,
    /// The name of the event, as it was sent.
    pub name: String,
    /// The id of the session.
    pub session: String,
    /// Everything that was sent.
    pub fields: Map<String, Value>,
    /// The reason why more may have been sent than could be read.
    pub problem: Option<String>,
}

impl HookEvent {
    /// Reads the body that a hook was given. `program` is the sender, if the caller knows it, and
    /// `name` the event, if the body does not say it.
    ///
    /// # Errors
    ///
    /// `BadInput` for a body that is no JSON object, or names no session or no event, as far as it
    /// can be read.
    pub fn parse(body: &[u8], program: Option<Program>, name: Option<&str>) -> Result<Self> {
        let bad = |problem: String| Error::BadInput(format!("bad hook event: {problem}"));
        let read = tolerant_json::object(&body[..body.len().min(EVENT_BYTES_MAX)]);
        let tolerant_json::Object {
            mut fields,
            problem,
        } = read.ok_or_else(|| bad("it is no JSON object".into()))?;
        let problem = if body.len() > EVENT_BYTES_MAX {
            Some(format!("it has more than {EVENT_BYTES_MAX} bytes"))
        } else {
            problem
        };
        fields.values_mut().for_each(without_nul);
        let event = Self::of(fields, program, name).map_err(|error| match &problem {
            Some(problem) => Error::BadInput(format!("{error}, and {problem}")),
            None => error,
        })?;
        Ok(Self { problem, ..event })
    }

    /// Returns the event of a body that was read before.
    ///
    /// # Errors
    ///
    /// `BadInput` if it names no session or no event.
    pub fn of(
        fields: Map<String, Value>,
        program: Option<Program>,
        name: Option<&str>,
    ) -> Result<Self> {
        let bad = |problem: &str| Error::BadInput(format!("bad hook event: {problem}"));
        let text = |names: &[&str]| first_text(&fields, names);
        let name = text(&["hook_event_name", "hookEventName", "event"]).or(name);
        let name = name.ok_or_else(|| bad("it has no hook_event_name"))?;
        let session = text(&["session_id", "conversation_id", "sessionId"]);
        let session = session.ok_or_else(|| bad("it has no session_id"))?;
        let is_good = !session.is_empty()
            && session.len() <= SESSION_BYTES_MAX
            && !session.chars().any(char::is_control);
        if !is_good {
            return Err(bad(&format!(
                "its session_id is not 1 to {SESSION_BYTES_MAX} printable bytes"
            )));
        }
        Ok(Self {
            program: program.unwrap_or_else(|| guessed(&fields, name)),
            kind: EventKind::of(name),
            name: shortened(name, 100),
            session: session.to_owned(),
            fields,
            problem: None,
        })
    }

    /// Returns the owner that the agent asks as.
    pub fn owner(&self) -> Owner {
        owner_of(self.program, &self.session)
    }

    /// Returns a field that is a text.
    pub fn text(&self, names: &[&str]) -> Option<&str> {
        first_text(&self.fields, names)
    }

    /// Returns the directory that the agent works in.
    pub fn cwd(&self) -> Option<PathBuf> {
        let roots = || self.fields.get("workspace_roots")?.get(0)?.as_str();
        self.text(&["cwd"]).or_else(roots).map(PathBuf::from)
    }

    /// Returns the name of the tool.
    pub fn tool(&self) -> Option<&str> {
        let shell = || (plain(&self.name) == "beforeshellexecution").then_some("Shell");
        self.text(&["tool_name", "toolName"]).or_else(shell)
    }

    /// Returns the input of the tool. Some programs send it as text.
    pub fn tool_input(&self) -> Value {
        let given = ["tool_input", "toolArgs", "toolInput"];
        let given = given.iter().find_map(|name| self.fields.get(*name));
        match given {
            Some(Value::String(text)) => match tolerant_json::object(text.as_bytes()) {
                Some(read) => Value::Object(read.fields),
                None => Value::String(text.clone()),
            },
            Some(given) => given.clone(),
            None => Value::Object(self.fields.clone()),
        }
    }

    /// Returns the command line that a shell tool is given, or `None` for other tools.
    pub fn shell_command(&self) -> Option<String> {
        const SHELLS: [&str; 8] = [
            "bash",
            "shell",
            "localshell",
            "execcommand",
            "runshellcommand",
            "runterminalcmd",
            "runinterminal",
            "powershell",
        ];
        let tool = plain(self.tool()?);
        if !SHELLS.contains(&tool.as_str()) {
            return None;
        }
        let input = self.tool_input();
        let command = input.get("command").or_else(|| input.get("cmd"))?;
        match command {
            Value::String(line) => Some(line.clone()),
            // The list is a shell and its script, or the words of a command.
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                match words.as_slice() {
                    [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => {
                        Some((*script).to_owned())
                    }
                    words => Some(command_line(words)),
                }
            }
            _ => None,
        }
    }

    /// Returns the agent's next action, for people. A command is shown without its secrets.
    pub fn doing(&self) -> Option<String> {
        let tool = self.tool()?;
        let input = self.tool_input();
        let about = ["file_path", "notebook_path", "path", "description"];
        let about = || about.iter().find_map(|name| input.get(*name)?.as_str());
        let command = self.shell_command().map(|line| kept_command(&line));
        let about = command.or_else(|| about().map(str::to_owned));
        Some(match about {
            Some(about) => shortened(&format!("{tool}: {about}"), SHOWN_CHARS_MAX),
            None => tool.to_owned(),
        })
    }
}

/// Replaces NUL, which a text of PostgreSQL cannot hold.
fn without_nul(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
        Value::Array(values) => values.iter_mut().for_each(without_nul),
        Value::Object(fields) => fields.values_mut().for_each(without_nul),
        _ => {}
    }
}

fn first_text<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| fields.get(*name)?.as_str())
}

/// Returns the beginning of a text, on one line.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(body: Value) -> HookEvent {
        HookEvent::parse(body.to_string().as_bytes(), None, None).unwrap()
    }

    #[test]
    fn the_same_event_is_told_by_every_spelling_of_its_name() {
        for (name, kind) in [
            ("SessionStart", EventKind::SessionStart),
            ("session-start", EventKind::SessionStart),
            ("sessionStart", EventKind::SessionStart),
            ("BeforeTool", EventKind::BeforeTool),
            ("pre-tool-use", EventKind::BeforeTool),
            ("beforeShellExecution", EventKind::BeforeTool),
            ("AfterAgent", EventKind::Stop),
            ("SubagentStop", EventKind::Other),
            ("Next2030", EventKind::Other),
        ] {
            let event = event(json!({"hook_event_name": name, "session_id": "s"}));
            assert_eq!((event.kind, event.name.as_str()), (kind, name));
        }
    }

    #[test]
    fn a_program_is_told_by_what_only_it_sends() {
        for (body, program) in [
            (
                json!({"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/t"}),
                Program::Claude,
            ),
            (
                json!({"hook_event_name": "Stop", "session_id": "s", "turn_id": "t"}),
                Program::Codex,
            ),
            (
                json!({"hook_event_name": "BeforeTool", "session_id": "s", "timestamp": "x"}),
                Program::Gemini,
            ),
            (
                json!({"hook_event_name": "stop", "conversation_id": "c"}),
                Program::Cursor,
            ),
            (
                json!({"hookEventName": "preToolUse", "sessionId": "c", "toolName": "bash"}),
                Program::Copilot,
            ),
        ] {
            assert_eq!(event(body.clone()).program, program, "{body}");
        }
    }

    #[test]
    fn a_body_without_session_or_name_or_that_is_no_object_is_refused() {
        for body in [
            "",
            "[]",
            "{",
            "x",
            r#"{"session_id":"s"}"#,
            r#"{"hook_event_name":"Stop"}"#,
            r#"{"hook_event_name":"Stop","session_id":""}"#,
            r#"{"hook_event_name":"Stop","session_id":"a\nb"}"#,
        ] {
            let refused = HookEvent::parse(body.as_bytes(), None, None);
            assert!(matches!(refused, Err(Error::BadInput(_))), "{body}");
        }
    }

    #[test]
    fn secrets_are_left_out_of_what_an_agent_does() {
        let line = "API_TOKEN=sekrit123 mysql --password=hunter2";
        let body = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": line}});
        let doing = event(body).doing().unwrap();
        assert_eq!(doing, "Bash: API_TOKEN=… mysql --password=…");
    }

    #[test]
    fn the_command_of_a_shell_is_found_in_each_form() {
        let of = |tool: &str, input: Value| {
            let body = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": tool, "tool_input": input});
            event(body).shell_command()
        };
        let line = Some("cargo test".to_owned());
        assert_eq!(of("Bash", json!({"command": "cargo test"})), line);
        let words = json!({"command": ["bash", "-lc", "cargo test"]});
        assert_eq!(of("shell", words), line);
        let words = json!({"command": ["cargo", "test"]});
        assert_eq!(of("shell", words), line);
        let words = json!({"command": ["cargo", "test", "--", "a b; rm x"]});
        let quoted = Some("cargo test -- 'a b; rm x'".to_owned());
        assert_eq!(of("shell", words), quoted, "it can be run");
        assert_eq!(
            of("run_shell_command", json!({"command": "cargo test"})),
            line
        );
        assert_eq!(of("Edit", json!({"command": "cargo test"})), None);
        let cursor = json!({"hook_event_name": "beforeShellExecution", "conversation_id": "c", "command": "cargo test"});
        assert_eq!(event(cursor).shell_command(), line);
    }
}
