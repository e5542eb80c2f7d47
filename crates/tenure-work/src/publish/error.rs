//! The errors that only a publish can meet, and their classes.

use tenure::{Class, LockContext, Remedy, Resource};
use tenure_core::error::Fault;

/// An error that only a publish can meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Nothing was ever published to the target.
    #[error("nothing was published to {target} from this machine")]
    NeverPublished {
        /// The path of the target.
        target: String,
    },
    /// A publish to the same target is under way under another resource.
    #[error("{context} is held")]
    UnderWay {
        /// The resource and the manifest of the other publish.
        context: Box<LockContext>,
    },
}

impl Fault for PublishError {
    fn class(&self) -> Class {
        match self {
            Self::NeverPublished { .. } => Class::NotFound,
            Self::UnderWay { .. } => Class::Busy,
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::NeverPublished { .. } => {
                "name the target, and the store it was published with ({.store})"
            }
            Self::UnderWay { .. } => "publish again when that is over; look with: {ls}",
        }
        .into()
    }

    fn resource(&self) -> Option<&Resource> {
        match self {
            Self::NeverPublished { .. } => None,
            Self::UnderWay { context } => Some(&context.resource),
        }
    }
}
