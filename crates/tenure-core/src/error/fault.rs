//! The errors of features above the locks.

use std::any::Any;
use std::error;

use serde::{Deserialize, Serialize};

use super::{Class, Error, Remedy};
use crate::{Resource, Timestamp};

/// The error of a feature: an enum that stands beside the operations that return it. An [`Error`]
/// carries it through the layers above, and [`Error::fault`] finds it again.
pub trait Fault: error::Error + Any + Send + Sync {
    /// Returns the class of the error.
    fn class(&self) -> Class;

    /// Returns the next step, in one sentence.
    fn remedy(&self) -> Remedy;

    /// Returns the resource it is about, if there is one.
    fn resource(&self) -> Option<&Resource> {
        None
    }

    /// Returns the place in a log that it is about.
    fn sequence(&self) -> Option<Sequence> {
        None
    }
}

impl<F: Fault> From<F> for Error {
    fn from(fault: F) -> Self {
        Error::Of(Box::new(fault))
    }
}

/// Another owner has claimed a node of a ledger, or an issue of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{preface}{resource} is claimed by {owner} until {expires_at}")]
pub struct Claimed {
    /// Words that other programs look for at the beginning of the message.
    #[serde(skip)]
    pub preface: &'static str,
    /// The node or the issue.
    pub resource: Resource,
    /// The owner of the claim.
    pub owner: String,
    /// The time when the claim ends, unless it is renewed.
    pub expires_at: Timestamp,
}

impl Fault for Claimed {
    fn class(&self) -> Class {
        Class::Busy
    }

    fn remedy(&self) -> Remedy {
        let kind = self.resource.kind();
        format!("wait until it is released or over, or work on another {kind}").into()
    }

    fn resource(&self) -> Option<&Resource> {
        Some(&self.resource)
    }
}

/// A place in a log of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Sequence {
    /// The log is at another sequence than was expected.
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
