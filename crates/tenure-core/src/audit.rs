//! The append-only record of who did what to a lock, when and why.

use serde::{Deserialize, Serialize};

use crate::{LeaseId, Owner, Resource, Timestamp, Token};

/// The longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A lease was granted.
    Acquire,
    /// An upgradeable lease became write.
    Upgrade,
    /// An upgraded lease became upgradeable again.
    Downgrade,
    /// A lease was released by whoever held it.
    Release,
    /// A grant was not taken up in time by the waiter it was offered to.
    Expire,
    /// A stale lease was taken away.
    Recover,
    /// A lease ended with its session, which was proved dead.
    SessionEnded,
    /// A holder did not confirm its stop, and lost its lease.
    Lost,
    /// A person began to take a lease away.
    Break,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 9] = [
        Action::Acquire,
        Action::Upgrade,
        Action::Downgrade,
        Action::Release,
        Action::Expire,
        Action::Recover,
        Action::SessionEnded,
        Action::Lost,
        Action::Break,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::Acquire => "acquire",
            Action::Upgrade => "upgrade",
            Action::Downgrade => "downgrade",
            Action::Release => "release",
            Action::Expire => "expire",
            Action::Recover => "recover",
            Action::SessionEnded => "session_ended",
            Action::Lost => "lost",
            Action::Break => "break",
        }
    }

    /// The action a word stands for.
    pub fn parse(word: &str) -> Option<Action> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// One entry, as JSON shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What was done.
    pub action: Action,
    /// To the lock of what.
    pub resource: Resource,
    /// To which lease.
    pub lease: LeaseId,
    /// The token of the lease after it.
    pub token: Token,
    /// Whose lease it is or was.
    pub owner: Owner,
    /// Who did it.
    pub actor: Owner,
    /// Why, where there is more to say.
    pub reason: Option<String>,
}

/// Which entries to read.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only of this resource.
    pub resource: Option<Resource>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// At most this many; a store may answer fewer with a cursor.
    pub limit: Option<usize>,
    /// Only what comes after this cursor, as an earlier page gave it.
    pub after: Option<String>,
}

/// A page of the record, oldest first, as `audit --json` shows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where the next page begins.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_in_json_are_those_of_the_record() {
        for action in Action::ALL {
            let json = serde_json::to_value(action).unwrap();
            assert_eq!(json, action.as_str());
            assert_eq!(Action::parse(action.as_str()), Some(action));
        }
    }
}
