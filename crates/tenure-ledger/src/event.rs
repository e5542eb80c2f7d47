//! An event: one JSON object with a type, in a file of its own.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tenure_api::ledger::kind;
use tenure_core::{Error, Result, Timestamp};
use tenure_files::document::check_json;

pub use tenure_api::ledger::Event;

/// The largest event, in bytes.
pub const EVENT_BYTES_MAX: usize = 1_000_000;

/// An event about a claim, with the fields that other programs read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimEvent {
    #[serde(rename = "type")]
    pub(super) kind: ClaimEventKind,
    #[serde(serialize_with = "in_seconds")]
    pub(super) timestamp: Timestamp,
    pub(super) node_id: String,
    pub(super) owner: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "in_seconds_if_any"
    )]
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClaimEventKind {
    #[serde(rename = "lock_acquired")]
    Acquired,
    #[serde(rename = "lock_released")]
    Released,
    #[serde(rename = "lock_reaped")]
    Reaped,
}

const CLAIM_KINDS: [&str; 3] = ["lock_acquired", "lock_released", "lock_reaped"];

/// The type of an event that stands for a lost one.
const MISSING_KIND: &str = "event_missing";

/// Returns the event that a repair puts in the place of one that is gone or not whole. Without a
/// node it ends all claims, as the lost event may have been about any.
pub(super) fn missing(node: Option<&str>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Missing<'a> {
        r#type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        node_id: Option<&'a str>,
    }
    let event = Missing {
        r#type: MISSING_KIND,
        node_id: node,
    };
    let mut bytes = serde_json::to_vec(&event).expect("text is serialisable");
    bytes.push(b'\n');
    bytes
}

/// The meaning of an event for the claims.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AboutClaims {
    Nothing,
    Event(ClaimEvent),
    /// The event is about a claim, but not whole. The owner of the node, if it names one, is
    /// unknown.
    Malformed {
        node: Option<String>,
        problem: String,
    },
    /// The event that was here is gone. It may have been about any claim, or about any claim on the
    /// node.
    Missing(Option<String>),
}

impl AboutClaims {
    /// Reads an event. Returns what is wrong if it is not an event.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        check(bytes)?;
        match kind(bytes) {
            Some(kind) if kind == MISSING_KIND => return Ok(Self::Missing(node(bytes))),
            Some(kind) if CLAIM_KINDS.contains(&&*kind) => {}
            _ => return Ok(Self::Nothing),
        }
        let malformed = |problem| Self::Malformed {
            node: node(bytes),
            problem,
        };
        Ok(match serde_json::from_slice::<ClaimEvent>(bytes) {
            Err(error) => malformed(format!("it is about a claim, but not whole: {error}")),
            Ok(event) if event.kind == ClaimEventKind::Acquired && event.expires_at.is_none() => {
                malformed("it is about a claim, but has no expires_at".into())
            }
            Ok(event) => Self::Event(event),
        })
    }
}

impl ClaimEvent {
    /// Returns the event as its file holds it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("text and times are serialisable");
        bytes.push(b'\n');
        bytes
    }
}

/// Returns what is wrong with the content of an event's file, if anything is.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None => return Err("it is empty".into()),
        Some(0) => return Err("it is torn: it begins with zeros".into()),
        Some(b'{') => {}
        Some(_) => return Err("it is not a JSON object".into()),
    }
    let read = serde_json::from_slice::<IgnoredAny>(bytes);
    read.map(drop)
        .map_err(|error| format!("it is torn or not JSON: {error}"))
}

/// Returns the node that an event names.
fn node(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        node_id: String,
    }
    let named: Option<Named> = serde_json::from_slice(bytes).ok();
    named.map(|named| named.node_id)
}

/// Checks an event that a caller wants to append, and returns it as its file will hold it.
pub(super) fn new(text: &str) -> Result<Vec<u8>> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if text.len() >= EVENT_BYTES_MAX {
        return Err(Error::BadInput(format!(
            "the event has {} bytes; at most {EVENT_BYTES_MAX} are allowed, a newline included",
            text.len()
        )));
    }
    check_json(text, || "the event".into()).map_err(Error::BadInput)?;
    let kind = text.starts_with('{').then(|| kind(text.as_bytes()));
    let problem = match kind.flatten().as_deref() {
        None | Some("") => {
            "an event is a JSON object with a type, such as {\"type\":\"node_created\"}".into()
        }
        Some(kind) if CLAIM_KINDS.contains(&kind) => {
            format!("{kind} is not appended: claims, their releases and reaping write it")
        }
        Some(MISSING_KIND) => {
            format!("{MISSING_KIND} is not appended: it stands for an event that is gone")
        }
        Some(_) => return Ok(format!("{text}\n").into_bytes()),
    };
    Err(Error::BadInput(problem))
}

/// Returns a time as claims have it: RFC 3339 in whole seconds.
pub(super) fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", &text[..19])
}

fn in_seconds<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&seconds(*time))
}

fn in_seconds_if_any<S: serde::Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => in_seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_an_object_with_a_type_that_is_not_a_claim() {
        assert_eq!(new(" {\"type\":\"x\"}\n").unwrap(), b"{\"type\":\"x\"}\n");
        for text in [
            "",
            "[]",
            "1",
            "{}",
            "{\"type\":1}",
            "{\"type\":\"\"}",
            "{\"type\":\"x\",\"type\":\"y\"}",
            "{\"type\":\"lock_acquired\"}",
            "{\"type\":\"lock_\\u0072eaped\"}",
            "{\"type\":\"x\"",
        ] {
            let refused = new(text).unwrap_err();
            assert_eq!(refused.class(), tenure_core::Class::BadInput, "{text}");
        }
    }

    #[test]
    fn an_event_over_a_megabyte_is_refused() {
        let event = |bytes: usize| format!("{{\"type\":\"{}\"}}", "x".repeat(bytes - 11));
        assert_eq!(new(&event(999_999)).unwrap().len(), EVENT_BYTES_MAX);
        assert!(new(&event(1_000_000)).is_err());
    }

    #[test]
    fn a_claim_event_is_byte_for_byte_what_the_protocol_says() {
        let time = |text: &str| text.parse().unwrap();
        let mut event = ClaimEvent {
            kind: ClaimEventKind::Acquired,
            timestamp: time("2024-01-15T10:30:00.900Z"),
            node_id: "1.2.3".into(),
            owner: "agent-uuid-1234".into(),
            expires_at: Some(time("2024-01-15T10:35:00Z")),
        };
        let text = "{\"type\":\"lock_acquired\",\"timestamp\":\"2024-01-15T10:30:00Z\",\
                    \"node_id\":\"1.2.3\",\"owner\":\"agent-uuid-1234\",\
                    \"expires_at\":\"2024-01-15T10:35:00Z\"}\n";
        assert_eq!(event.bytes(), text.as_bytes());
        let AboutClaims::Event(read) = AboutClaims::parse(text.as_bytes()).unwrap() else {
            panic!("it is about a claim");
        };
        assert_eq!(read.node_id, "1.2.3");
        event.kind = ClaimEventKind::Reaped;
        event.expires_at = None;
        let text = "{\"type\":\"lock_reaped\",\"timestamp\":\"2024-01-15T10:30:00Z\",\
                    \"node_id\":\"1.2.3\",\"owner\":\"agent-uuid-1234\"}\n";
        assert_eq!(event.bytes(), text.as_bytes());
    }

    #[test]
    fn the_event_that_stands_for_a_missing_one_is_read_as_such_and_appended_by_nobody() {
        for node in [None, Some("1.2")] {
            let event = missing(node);
            let read = AboutClaims::parse(&event);
            assert_eq!(read, Ok(AboutClaims::Missing(node.map(str::to_owned))));
            assert!(new(std::str::from_utf8(&event).unwrap()).is_err());
        }
    }

    #[test]
    fn what_strangers_write_is_read_tolerantly_and_what_is_torn_is_not() {
        for text in ["{\"type\":7}", "{}", "{\"type\":\"x\",\"node_id\":1}"] {
            let read = AboutClaims::parse(text.as_bytes());
            assert_eq!(read, Ok(AboutClaims::Nothing), "{text}");
        }
        for text in ["", "\0\0", "{\"type\":\"lock_acq", "[]"] {
            assert!(AboutClaims::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
