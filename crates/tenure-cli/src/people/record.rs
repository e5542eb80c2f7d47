//! The full record of a lease, for a person who is about to break it.

use std::fmt::Write as _;

use serde_json::Value;
use tenure::{Lease, Timestamp, clock, duration};

use super::text::visible;

/// Returns every field of a lease on a line of its own, under its name in JSON, so that none is
/// ever left out.
pub fn record(lease: &Lease) -> String {
    let fields = serde_json::to_value(lease).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    let mut text = String::new();
    for (name, value) in fields {
        let _ = writeln!(text, "  {name:<12}  {}", shown(name, value));
    }
    text
}

fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null if name == "expires_at" => "never: it is bound to its session".into(),
        Value::Null => "-".into(),
        Value::String(text) => match text.parse().ok().filter(|_| name.ends_with("_at")) {
            Some(time) => format!("{text} ({})", ago(time)),
            None => visible(text),
        },
        other => visible(&other.to_string()),
    }
}

/// Returns a time as `3m 05s ago`, or `in 11m 00s`.
pub fn ago(time: Timestamp) -> String {
    let now = clock::now();
    match time > now {
        true => format!("in {}", duration::show(time.since(now))),
        false => format!("{} ago", duration::show(now.since(time))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;
    use serde_json::json;

    #[test]
    fn every_field_is_shown_and_none_can_steer_the_terminal() {
        let mut lease = lease("x");
        lease.metadata = Some(json!({ "a": 1 }));
        lease.command = "a\u{1b}[2Jb".into();
        let text = record(&lease);
        let fields = serde_json::to_value(&lease).unwrap();
        for name in fields.as_object().unwrap().keys() {
            let line = text.lines().find(|line| line.trim().starts_with(name));
            assert!(line.is_some(), "{name} is not in {text}");
        }
        for part in [
            "(3m 05s ago)",
            "never: it is bound",
            "{\"a\":1}",
            "a\\u{1b}[2Jb",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
