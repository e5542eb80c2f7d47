//! A failure, as JSON shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::error::{Claimed, Sequence};
use tenure_core::{Class, Error, Lease, Remedy, Resource};

/// The reason why an operation was not carried out.
//
// A surface with more kinds of failures than `Class` puts a type of its own in place of `K`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure<K = Class> {
    /// The class, in a word: `busy`, `conflict`, `not_allowed` and so on.
    pub kind: K,
    /// A sentence that says where the operation failed, and why.
    pub message: String,
    /// The resource that the failure is about, or null.
    pub resource: Option<Resource>,
    /// The leases and claims that are in the way. Empty if none is.
    pub holders: Vec<Holder>,
    /// The next step for the caller. Each surface puts it in its own words.
    pub remedy: Remedy,
    /// The numbers of the events of a ledger that the failure is about.
    #[serde(flatten)]
    pub sequence: Option<Sequence>,
}

/// A lease or a claim that is in the way.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Holder {
    /// A lease: a lock that its owner holds.
    Lease(Box<Lease>),
    /// A claim on a node of a ledger or on an issue of a board.
    Claim(Claimed),
}

impl<K> Failure<K> {
    /// Makes a failure that is about no lock.
    pub fn new(kind: K, message: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        Self {
            kind,
            message: message.into(),
            resource: None,
            holders: Vec::new(),
            remedy: remedy.into(),
            sequence: None,
        }
    }

    /// Makes the failure of an error, with the kind and the remedy that the caller gives.
    pub fn of(error: &Error, kind: K, remedy: Remedy) -> Self {
        let fault = match error {
            Error::Of(fault) => Some(fault),
            _ => None,
        };
        let claim = error.fault::<Claimed>().cloned();
        let leases = error.holders().iter().cloned();
        let leases = leases.map(|lease| Holder::Lease(Box::new(lease)));
        Self {
            resource: error.resource().cloned(),
            holders: leases.chain(claim.map(Holder::Claim)).collect(),
            sequence: fault.and_then(|fault| fault.sequence()),
            ..Self::new(kind, error.to_string(), remedy)
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self::of(error, error.class(), error.remedy())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}
