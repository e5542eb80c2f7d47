//! What is said of a guard that can hardly be trusted any more.

use std::fmt;
use std::time::Duration;

use tenure_core::{Place, duration};

/// A lease has used up two thirds of its time without a good renewal: whoever relies on it must
/// begin to stop now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Of which lock.
    pub place: Box<Place>,
    /// How long ago the last question was asked that had a good answer.
    pub unanswered: Duration,
    /// What is left until the guard is lost.
    pub lost_in: Duration,
    /// What went wrong last.
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
