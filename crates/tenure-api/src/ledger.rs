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

/// Makes a ledger in a directory. One that is there stays as it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Init {
    /// The directory, which is made, too.
    pub directory: PathBuf,
    /// How long claims last, from 1s to 1h: 5m, if it is left out.
    #[serde(default)]
    pub claim_ttl: Option<Span>,
}
operation!("ledger.init", Init, Made);

/// A ledger that is there.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// Its directory.
    pub ledger: String,
}

/// Appends an event. It is durable when its number is answered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The event: an object with a type.
    pub event: Json,
    /// The number that the newest event must have; 0 if there is none.
    #[serde(default)]
    pub expect: Option<u64>,
    /// The claim that must be held: `NODE#N`.
    #[serde(default)]
    pub token: Option<String>,
    /// How long to wait for the ledger; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.append", Append, Appended);

/// An event that was appended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Appended {
    /// Its number.
    pub sequence: u64,
}

/// Reads events in order. Takes no lock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// Only events after this number.
    #[serde(default)]
    pub after: u64,
    /// At most this many: 1000, if it is left out.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only events of this type.
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
    /// The number of the event.
    pub sequence: u64,
}
operation!("ledger.show", Show, Events);

/// Events in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Events {
    /// The events.
    pub events: Vec<Event>,
    /// The number after which there are more, if there are.
    pub next: Option<u64>,
}

/// An event and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Event {
    /// Its number, from 1.
    pub sequence: u64,
    /// The JSON object, as it was written.
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

/// Finds what is wrong with a ledger, and repairs it if that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// Whether to repair what can be repaired; what is taken out is kept.
    #[serde(default)]
    pub repair: bool,
    /// Whether a person has looked at the findings, and wants those mended, too, that a program
    /// cannot be sure of.
    #[serde(default)]
    pub confirmed: bool,
}
operation!("ledger.verify", Verify, Verified);

/// A look at a whole ledger.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The number of events before the first gap.
    pub events: u64,
    /// The problems.
    pub findings: Vec<Finding>,
}

/// Claims a node, or gives a claim more time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimNode {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The node; with its token, as `NODE#N`, its claim is renewed.
    pub node: String,
    /// How long the claim lasts, from 1s to 1h: as the ledger says, if it is left out.
    #[serde(default)]
    pub ttl: Option<Span>,
    /// How long to wait for the ledger; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.claim", ClaimNode, Claims);

/// Ends a claim of the caller.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseNode {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// The node.
    pub node: String,
    /// How long to wait for the ledger; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.release", ReleaseNode, Claims);

/// Lists who has which node. Takes no lock.
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
    /// The claims.
    pub claims: Vec<ListedClaim>,
    /// Null: these are all.
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
    /// The node. Other programs may have given it any name.
    pub node: String,
    /// The owner.
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
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Its state.
    pub state: ClaimState,
}

impl ListedClaim {
    /// Returns a claim as it is at a time.
    pub fn at(claim: Claim, now: Timestamp) -> Self {
        let state = match claim.is_over(now) {
            true => ClaimState::Expired,
            false => ClaimState::Held,
        };
        Self { claim, state }
    }
}

/// Whether a claim is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimState {
    /// It is held.
    Held,
    /// Its time is over.
    Expired,
    /// Its owner ended it.
    Released,
}

/// Ends all claims whose time is over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reap {
    /// The directory of the ledger.
    pub directory: PathBuf,
    /// How long to wait for the ledger; `0s` does not wait.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("ledger.reap", Reap, Reaped);

/// Claims that were ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Reaped {
    /// The claims, as they were.
    pub reaped: Vec<ListedClaim>,
    /// Null: these are all.
    pub next: Option<String>,
}
