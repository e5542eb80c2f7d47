//! The append-only record of who did what to a lock, when and why.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, Lease, LeaseId, Owner, Resource, Result, Timestamp, Token, duration};

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

/// One entry to be written, at the moment of what it tells of.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// What was done.
    pub action: Action,
    /// To the lock of what.
    pub resource: &'a Resource,
    /// To which lease.
    pub lease: &'a LeaseId,
    /// The token of the lease after it.
    pub token: Token,
    /// Whose lease it is or was.
    pub owner: &'a Owner,
    /// Who did it.
    pub actor: &'a Owner,
    /// Why, where there is more to say.
    pub reason: Option<&'a str>,
    /// A lease ended with it that others may still ask about.
    pub ends: bool,
}

/// Why an offer has passed on.
pub const OFFER_LAPSED: &str = "offered to a waiter that did not take it up in 5s";

/// Why a stale lease could be recovered: the conditions that held.
pub fn recovered(lease: &Lease, now: Timestamp, grace: Duration) -> String {
    let ago = |at: Timestamp| duration::show(now.since(at));
    let expired = lease.expires_at.map_or_else(String::new, ago);
    format!(
        "expired {expired} ago; heartbeat {} ago, older than {}; no active job claims it",
        ago(lease.heartbeat_at),
        duration::show(grace),
    )
}

/// What is said of a holder that let its time to stop run out; the note is who broke its lease, and why.
pub fn not_confirmed(note: Option<&str>) -> String {
    let note = note.unwrap_or("broken");
    format!("{note}; its stop was not confirmed within 10s")
}

/// How a lease ended, by the entry that says so.
pub fn ended(action: &str, actor: &str, at: impl fmt::Display, reason: Option<&str>) -> String {
    let done = match Action::parse(action) {
        Some(Action::Release) => format!("released by {actor} at {at}"),
        Some(Action::Recover) => format!("recovered by {actor} at {at}"),
        Some(Action::Lost) => format!("taken away at {at}"),
        _ => format!("{action} by {actor} at {at}"),
    };
    match reason {
        Some(reason) => format!("{done} ({reason})"),
        None => done,
    }
}

/// A page has at most this many unless the query says otherwise.
const LIMIT_DEFAULT: usize = 1000;

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

impl AuditQuery {
    /// How many are wanted at most.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT).max(1)
    }

    /// The number of the entry after which the page begins, where entries are numbered.
    ///
    /// # Errors
    ///
    /// `BadInput` for what is no cursor.
    pub fn after_entry(&self) -> Result<i64> {
        let Some(cursor) = &self.after else {
            return Ok(0);
        };
        cursor.parse().map_err(|_| {
            Error::BadInput(format!(
                "bad cursor {cursor:?}: take it from `next` of the page before"
            ))
        })
    }
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
