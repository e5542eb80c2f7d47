//! A failure, as JSON shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::{Class, Error, Lease, Resource, Timestamp};

/// The reason why an operation was not carried out. A surface adds what to do about it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The class, in a word: `busy`, `conflict`, `not_allowed` and so on.
    pub kind: Class,
    /// What happened and where, in a sentence.
    pub message: String,
    /// The resource it is about.
    pub resource: Option<Resource>,
    /// Who is in the way.
    pub holders: Vec<Holder>,
    /// The place in a ledger that it is about.
    #[serde(flatten)]
    pub sequence: Option<Sequence>,
}

/// Somebody in the way.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Holder {
    /// The holder of a lock.
    Lease(Box<Lease>),
    /// Who has claimed a node of a ledger, or an issue of a board.
    Claim {
        /// The node or the issue.
        resource: Resource,
        /// The owner of the claim.
        owner: String,
        /// When the claim ends, unless it is renewed.
        expires_at: Timestamp,
    },
}

/// A place in a ledger.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sequence {
    /// The ledger is at another sequence than was expected.
    Mismatch {
        /// The sequence that was expected.
        expected: u64,
        /// The newest sequence.
        actual: u64,
    },
    /// An event may be there or not.
    Unknown {
        /// The number that it has, if it is there.
        sequence: u64,
    },
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.class(),
            message: error.to_string(),
            resource: error.resource().cloned(),
            holders: holders(error),
            sequence: match error {
                Error::SequenceMismatch {
                    expected, actual, ..
                } => Some(Sequence::Mismatch {
                    expected: *expected,
                    actual: *actual,
                }),
                Error::OutcomeUnknown { sequence, .. } => Some(Sequence::Unknown {
                    sequence: *sequence,
                }),
                _ => None,
            },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

fn holders(error: &Error) -> Vec<Holder> {
    if let Error::Claimed {
        resource,
        owner,
        expires_at,
    } = error
    {
        return vec![Holder::Claim {
            resource: resource.clone(),
            owner: owner.clone(),
            expires_at: *expires_at,
        }];
    }
    let leases = error.holders().iter().cloned();
    leases.map(|lease| Holder::Lease(Box::new(lease))).collect()
}
