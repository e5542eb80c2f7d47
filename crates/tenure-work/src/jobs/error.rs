//! What can go wrong with a job alone, and the class of each.

use tenure::{Class, Remedy};
use tenure_core::error::Fault;

use super::approvals::NoApproval;
use super::decide::IllegalMove;
use super::moves::Refused;

/// An error of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job.
    #[error("there is no job {job}")]
    Missing {
        /// Its id.
        job: String,
    },
    /// The state of the job does not allow it.
    #[error(transparent)]
    Illegal(#[from] IllegalMove),
    /// The key belongs to a job that was submitted otherwise.
    #[error("job {job} was submitted under the same key, and is another one")]
    OtherJob {
        /// That job.
        job: String,
    },
    /// Caps or a pause keep the job from starting.
    #[error("job {job} may not start now")]
    NoRoom {
        /// The job.
        job: String,
    },
    /// The approval does not count.
    #[error(transparent)]
    NoApproval(#[from] NoApproval),
}

impl JobError {
    pub(super) fn of(job: &str, refused: Refused) -> Self {
        let job = job.to_owned();
        match refused {
            Refused::Missing => Self::Missing { job },
            Refused::Illegal(illegal) => Self::Illegal(illegal),
            Refused::Caps(_) | Refused::Paused => Self::NoRoom { job },
        }
    }
}

impl Fault for JobError {
    fn class(&self) -> Class {
        match self {
            Self::Missing { .. } => Class::NotFound,
            Self::Illegal(_) | Self::OtherJob { .. } => Class::Conflict,
            Self::NoRoom { .. } => Class::Busy,
            Self::NoApproval(_) => Class::NotAllowed,
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } => "name a job by its whole id".into(),
            Self::Illegal(_) => "look at its state first".into(),
            Self::NoRoom { .. } => "wait until another job ends, or a pause does".into(),
            Self::OtherJob { .. } => "use another key for another job".into(),
            Self::NoApproval(_) => "ask another person to approve it".into(),
        }
    }
}
