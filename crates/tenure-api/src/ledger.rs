//! Ledgers: events in order, and claims on nodes.

use crate::Finding;
use std::borrow::Cow;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure_core::Timestamp;

use crate::operation::operation;
use crate::text::{Json, Span, as_written};

/// Makes a ledger in a directory. A ledger that is there already stays as it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Init {
    /// The directory of the ledger. It is made if it is missing.
    pub directory: PathBuf,
    /// The time that claims last unless a claim asks for another, from 1s to 1h. Left out, it is
    /// 5m.
    #[serde(default)]
    pub claim_ttl: Option<Span>,
}
operation!("ledger.init", Init, Made);

/// A ledger that was made, or was there already.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// The directory of the ledger.
    pub ledger: String,
}

/// Appends an event. When its number is answered, the event is safely on disk.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The event: a JSON object with a field `type`, a text that is not a type of claims.
    pub event: Json,
    /// The number that the newest event must have for the append to succeed; 0 for a ledger without
    /// events. Left out, any number will do.
    #[serde(default)]
    pub expect: Option<u64>,
    /// A claim that must be held for the append to succeed: its node and token, as `NODE#N`.
    #[serde(default)]
    pub token: Option<String>,
    /// The longest wait for the ledger; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.append", Append, Appended);

/// The place of an event that was appended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Appended {
    /// The number of the event.
    pub sequence: u64,
}

/// Reads events in order. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// Only events with a higher number. Left out, it is 0, and events are read from the first.
    #[serde(default)]
    pub after: u64,
    /// The largest number of events to return. Left out, it is 1000.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only events whose `type` is this.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
}
operation!("ledger.log", Log, Events);

/// Reads one event.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The number of the event, from 1.
    pub sequence: u64,
}
operation!("ledger.show", Show, Events);

/// Events in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Events {
    /// The events, lowest number first.
    pub events: Vec<Event>,
    /// The number to give as `after` for the next page, or null if there are no more events.
    pub next: Option<u64>,
}

/// An event and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Event {
    /// The number of the event, from 1.
    pub sequence: u64,
    /// The event as it was written, a JSON object.
    #[serde(rename = "event", serialize_with = "as_written")]
    #[schemars(with = "Value")]
    pub text: String,
}

impl Event {
    /// Returns the type of the event, if it has one that is text.
    pub fn kind(&self) -> Option<Cow<'_, str>> {
        kind(self.text.as_bytes())
    }
}

/// Returns the type in the text of an event.
pub fn kind(bytes: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let kind: Option<Kind<'_>> = serde_json::from_slice(bytes).ok();
    kind.map(|kind| kind.kind)
}

/// Checks every file of a ledger, and repairs what is wrong if asked to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// True to repair what can be repaired. A file that is taken out is kept aside.
    #[serde(default)]
    pub repair: bool,
    /// True if a person has looked at the findings and wants a repair to include those that a
    /// program cannot be sure of. It counts only with `repair`.
    #[serde(default)]
    pub confirmed: bool,
}
operation!("ledger.verify", Verify, Verified);

/// The result of a check of a whole ledger.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The number of events before the first gap.
    pub events: u64,
    /// The problems that were found. Empty if there are none.
    pub findings: Vec<Finding>,
}

/// Claims a node, or gives a claim more time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimNode {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The node to claim; or `NODE#N`, its node and token, to renew a claim that the caller has.
    pub node: String,
    /// The time that the claim lasts, from 1s to 1h. Left out, it is that of the ledger.
    #[serde(default)]
    pub ttl: Option<Span>,
    /// The longest wait for the ledger; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.claim", ClaimNode, Claims);

/// Ends the claim of the caller on a node.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseNode {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The node whose claim ends.
    pub node: String,
    /// The longest wait for the ledger; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.release", ReleaseNode, Claims);

/// Lists the claims and their owners. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListClaims {
    /// The directory of the ledger.
    pub directory: PathBuf,
}
operation!("ledger.claims", ListClaims, Claims);

/// Claims, in the order of nodes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Claims {
    /// The claims, sorted by node.
    pub claims: Vec<ListedClaim>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

impl Claims {
    /// Returns a list of one.
    pub fn one(claim: ListedClaim) -> Self {
        let claims = vec![claim];
        Self { claims, next: None }
    }
}

/// A claim on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The node. Other programs that write to the ledger may have given it any name.
    pub node: String,
    /// The owner who has the node.
    pub owner: String,
    /// The number of the event that acquired it. Renewing keeps it.
    pub token: u64,
    /// The time when it was acquired.
    pub acquired_at: Timestamp,
    /// The time when it ends, unless it is renewed.
    pub expires_at: Timestamp,
}

impl Claim {
    /// Returns true if it is over at a time, released or not.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

/// A claim, and whether its time is over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedClaim {
    /// The claim itself.
    #[serde(flatten)]
    pub claim: Claim,
    /// The state of the claim.
    pub state: ClaimState,
}

impl ListedClaim {
    /// Returns a claim as it is at a time.
    pub fn at(claim: Claim, now: Timestamp) -> Self {
        let state = if claim.is_over(now) {
            ClaimState::Expired
        } else {
            ClaimState::Held
        };
        Self { claim, state }
    }
}

/// The state of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimState {
    /// The owner has the node.
    Held,
    /// The time of the claim is over; another owner may claim the node.
    Expired,
    /// The owner ended the claim.
    Released,
}

/// Ends all claims whose time is over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reap {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The longest wait for the ledger; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.reap", Reap, Reaped);

/// The claims that were ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Reaped {
    /// The claims as they were before they were ended.
    pub reaped: Vec<ListedClaim>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}
