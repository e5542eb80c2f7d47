//! A failure, as JSON shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::error::{Claimed, Sequence};
use tenure_core::{Class, Error, Lease, Remedy, Resource};

/// The reason why an operation was not carried out. A surface that has other kinds of failures, too,
/// names them by a type of its own.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Failure<K = Class> {
    /// The class, in a word: `busy`, `conflict`, `not_allowed` and so on.
    pub kind: K,
    /// What happened and where, in a sentence.
    pub message: String,
    /// The resource it is about.
    pub resource: Option<Resource>,
    /// Who is in the way.
    pub holders: Vec<Holder>,
    /// What to do next: a surface puts it in its own words.
    pub remedy: Remedy,
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

    /// Makes the failure of an error, of a kind and with a remedy of the caller's.
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
