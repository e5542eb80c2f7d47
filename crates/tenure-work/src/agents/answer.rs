//! The answer of a hook, in the form that each program understands.

use serde_json::{Value, json};

use super::event::{EventKind, HookEvent, Program};

/// The answer to an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// The tool must not be used, for this reason.
    pub denied: Option<String>,
    /// The text to tell the agent.
    pub context: Option<String>,
}

impl HookAnswer {
    /// Returns the JSON to print, or `None` for an event that needs no answer.
    pub fn json(&self, event: &HookEvent) -> Option<Value> {
        match (&self.denied, &self.context) {
            (Some(reason), _) => Some(denial(event.program, event.kind, reason)),
            (None, Some(context)) => told(event, context),
            (None, None) => None,
        }
    }
}

/// Returns the JSON that tells a program that a tool must not be used.
pub fn denial(program: Program, kind: EventKind, reason: &str) -> Value {
    match program {
        Program::Claude | Program::Codex if kind == EventKind::PermissionRequest => {
            json!({"hookSpecificOutput": {
                "hookEventName": "PermissionRequest",
                "decision": { "behavior": "deny", "message": reason },
            }})
        }
        Program::Claude | Program::Codex => json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }}),
        Program::Gemini => json!({"decision": "deny", "reason": reason}),
        Program::Copilot => {
            json!({"permissionDecision": "deny", "permissionDecisionReason": reason})
        }
        Program::Cursor => {
            json!({"permission": "deny", "agent_message": reason, "user_message": reason})
        }
    }
}

fn told(event: &HookEvent, context: &str) -> Option<Value> {
    let name = match event.kind {
        EventKind::SessionStart => "SessionStart",
        EventKind::AfterTool => "PostToolUse",
        EventKind::Prompt => "UserPromptSubmit",
        _ => return None,
    };
    Some(match event.program {
        Program::Claude | Program::Codex => json!({"hookSpecificOutput": {
            "hookEventName": name,
            "additionalContext": context,
        }}),
        Program::Gemini => json!({"hookSpecificOutput": {
            "hookEventName": event.name,
            "additionalContext": context,
        }}),
        Program::Copilot => json!({"additionalContext": context}),
        Program::Cursor => json!({"additional_context": context}),
    })
}
