//! Tools on which a guard cannot decide: they go on, or are refused where `[guard] when_unsure =
//! "deny"` is set.
//!
//! | what is missing | refused |
//! |---|---|
//! | the store, or time | the edit of a file |
//! | a part of the event | every tool |
//! | the event, which cannot be read | whatever does not call itself another event than that before a tool |
//!
//! A `tenure.toml` that cannot be read sets nothing.

use serde_json::{Map, Value};
use tenure::config::{GuardConfig, WhenUnsure};
use tenure_api::agents::Hook;
use tenure_work::agents::answer::denial;
use tenure_work::agents::event::{EventKind, HookEvent, Program};
use tenure_work::agents::identity;

use crate::Service;

/// The fields that may name the event.
const NAMES: [&str; 3] = ["\"hook_event_name\"", "\"hookEventName\"", "\"event\""];

/// Returns the reason to refuse a tool on which a guard cannot decide because of a problem, or
/// `None` to let it go on.
pub fn refusal(guards: &GuardConfig, problem: &str) -> Option<String> {
    let is_refused = guards.when_unsure == WhenUnsure::Deny;
    is_refused.then(|| {
        format!(
            "tenure cannot tell whether this may go on: {problem}. Nothing was changed: here, what guards cannot decide is refused \
             ([guard] when_unsure in tenure.toml). Try again in a moment, and if that does not help, ask a person to look with: tenure doctor"
        )
    })
}

/// Returns the reason to refuse the tool of an event that cannot be read whole, or `None` to let it
/// go on.
pub fn refusal_of_part(guards: &GuardConfig, event: &HookEvent) -> Option<String> {
    let problem = event.problem.as_ref()?;
    let is_asked = event.kind == EventKind::BeforeTool && is_guarded(guards);
    refusal(guards, problem).filter(|_| is_asked)
}

fn is_guarded(guards: &GuardConfig) -> bool {
    guards.edits || !guards.commands.is_empty()
}

/// Returns the answer to an event that cannot be read, by the facts that the request has beside it.
pub fn to_unread(service: &Service, request: &Hook, problem: &str) -> Option<Value> {
    let guards = service.guards();
    let reason = refusal(guards, problem).filter(|_| is_guarded(guards))?;
    let name = request.event.as_deref();
    let name = name.or_else(|| name_in(&request.body));
    let program = request.program;
    let kind = name.and_then(|name| {
        let field = |field: &str, value: &str| (field.to_owned(), Value::from(value));
        let fields = [
            field("hook_event_name", name),
            field("session_id", "unread"),
        ];
        let event = HookEvent::of(Map::from_iter(fields), program, None).ok()?;
        Some(event.kind)
    });
    if kind.is_some_and(|kind| kind != EventKind::BeforeTool) {
        return None;
    }
    let around = || identity::program_around(|name| service.variable(name));
    let program = program.or_else(around).unwrap_or(Program::Claude);
    Some(denial(program, EventKind::BeforeTool, &reason))
}

/// Returns the name of the event in a text that is no JSON.
fn name_in(text: &str) -> Option<&str> {
    let named = |field: &&str| {
        let (_, after) = text.split_once(*field)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        value.strip_prefix('"')?.split('"').next()
    };
    NAMES.iter().find_map(named)
}
