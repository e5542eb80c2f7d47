//! The warning that a guard will soon be lost.

use std::fmt;
use std::time::Duration;

use tenure_core::{LockContext, duration};

/// A lease has used up two thirds of its time without a good renewal. Its holder must begin to
/// stop now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doubt {
    /// The lock it is about.
    pub context: Box<LockContext>,
    /// The time since the last request that had a good answer was sent.
    pub unanswered: Duration,
    /// The time left until the guard is lost.
    pub lost_in: Duration,
    /// The last error, in words.
    pub problem: String,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unanswered = duration::show(self.unanswered);
        write!(
            f,
            "it could not be renewed for {unanswered}: {}",
            self.problem
        )
    }
}
