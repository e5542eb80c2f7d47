//! The audit record: an append-only list of who did what to a lock, when and why.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circles::Circle;
use crate::internal::loaded::WaiterRow;
use crate::request::Awaited;
use crate::{Error, Lease, LeaseId, Owner, Resource, Result, Timestamp, Token, duration, setters};

/// The longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// Returns a text as a reason: on one line, and cut where it is too long.
pub fn as_reason(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    let end = text.floor_char_boundary(REASON_BYTES_MAX);
    text[..end].to_owned()
}

/// An action that the audit records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// A lease was granted.
    Acquire,
    /// An upgradeable lease became write.
    Upgrade,
    /// An upgraded lease became upgradeable again.
    Downgrade,
    /// The holder released a lease.
    Release,
    /// A waiter did not accept an offer in time.
    Expire,
    /// A stale lease was recovered.
    Recover,
    /// A lease ended with its session, which was proved dead.
    SessionEnded,
    /// The holder of a broken lease did not confirm its stop in time and lost it.
    Lost,
    /// A person started to break a lease.
    Break,
    /// A request was refused because it closed a circle of requests that wait for each other.
    Deadlock,
    /// A directory was put in place.
    Publish,
    /// A publish was given up: the directory that was there before stays.
    Abort,
    /// A directory that a publish left behind was removed.
    Remove,
}

impl Action {
    /// All actions, in the order of their declaration.
    pub const ALL: [Action; 13] = [
        Action::Acquire,
        Action::Upgrade,
        Action::Downgrade,
        Action::Release,
        Action::Expire,
        Action::Recover,
        Action::SessionEnded,
        Action::Lost,
        Action::Break,
        Action::Deadlock,
        Action::Publish,
        Action::Abort,
        Action::Remove,
    ];

    /// Returns the word used in JSON and in the stores.
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
            Action::Deadlock => "deadlock",
            Action::Publish => "publish",
            Action::Abort => "abort",
            Action::Remove => "remove",
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let action = Self::ALL.into_iter().find(|action| action.as_str() == word);
        action.ok_or_else(|| format!("unknown action {word:?}"))
    }
}

/// One entry of the record, as JSON shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Entry {
    /// The time when it was done.
    pub at: Timestamp,
    /// The action that was done.
    pub action: Action,
    /// The resource of the lease.
    pub resource: Resource,
    /// The lease it was done to or under, if there is one.
    pub lease: Option<LeaseId>,
    /// The token of that lease afterwards.
    pub token: Option<Token>,
    /// The owner of the lease.
    pub owner: Owner,
    /// The owner that did it.
    pub actor: Owner,
    /// The reason, if one is known.
    pub reason: Option<String>,
}

impl Entry {
    /// Returns an entry without a reason.
    pub fn new(
        at: Timestamp,
        action: Action,
        resource: Resource,
        lease: Option<LeaseId>,
        token: Option<Token>,
        owner: Owner,
        actor: Owner,
    ) -> Self {
        Self {
            at,
            action,
            resource,
            lease,
            token,
            owner,
            actor,
            reason: None,
        }
    }
}

/// An entry to write, in the same step as the change it records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The action that was done.
    pub action: Action,
    /// The resource it was done to.
    pub resource: Resource,
    /// The lease it was done to or under, if there is one.
    pub lease: Option<LeaseId>,
    /// The token of that lease afterwards.
    pub token: Option<Token>,
    /// The owner of the lease or, if there is none, of the thing it was done to.
    pub owner: Owner,
    /// The owner that did it.
    pub actor: Owner,
    /// The reason, if one is known.
    pub reason: Option<String>,
}

impl NewEntry {
    /// Returns the entry of an action on a lease. If no actor is named, it is the lease's own.
    pub fn of_lease(action: Action, lease: &Lease, actor: Option<&Owner>) -> Self {
        Self {
            action,
            resource: lease.resource.clone(),
            lease: Some(lease.lease.clone()),
            token: Some(lease.token),
            owner: lease.owner.clone(),
            actor: actor.unwrap_or(lease.actor()).clone(),
            reason: None,
        }
    }

    /// Returns the entry of a waiter that is made an offer.
    pub fn of_offer<P>(waiter: &WaiterRow<P>, resource: &Resource, token: Token) -> Self {
        Self {
            action: Action::Acquire,
            resource: resource.clone(),
            lease: Some(waiter.waiter.lease.clone()),
            token: Some(token),
            owner: waiter.owner.clone(),
            actor: waiter.actor().clone(),
            reason: Some("next in line".into()),
        }
    }

    /// Returns the entry of a request that is refused because it closes a circle.
    pub fn of_circle(awaited: &Awaited, circle: &Circle) -> Self {
        Self {
            action: Action::Deadlock,
            resource: awaited.resource().clone(),
            lease: None,
            token: None,
            owner: awaited.asker().owner.clone(),
            actor: awaited.asker().actor().clone(),
            reason: Some(as_reason(&circle.to_string())),
        }
    }

    /// Returns the lease and the token as columns of the audit: empty and zero where there is none.
    pub fn lease_columns(&self) -> (&str, i64) {
        let lease = self.lease.as_ref().map_or("", LeaseId::as_str);
        let token = self.token.unwrap_or(Token::NONE);
        (lease, token.get().cast_signed())
    }
}

impl Entry {
    /// Returns the lease and the token of the columns that [`NewEntry::lease_columns`] made.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the column is neither empty nor an id.
    pub fn read_lease(lease: &str, token: Token) -> Result<(Option<LeaseId>, Option<Token>)> {
        if lease.is_empty() {
            return Ok((None, None));
        }
        let lease =
            LeaseId::parse(lease).map_err(|error| Error::corrupt("audit", error.to_string()))?;
        Ok((Some(lease), Some(token)))
    }
}

/// The reason in the entries of a lease that a later request of its owner took out of the hands of
/// an earlier one.
pub const TAKEN_OVER: &str = "taken over by a later request of its owner";

/// The reason in the entry of an offer that was not accepted in time.
pub const OFFER_LAPSED: &str = "offered to a waiter that did not take it up in 5s";

/// Returns the reason in the entry of a recovered lease: the conditions that held. The heartbeat is
/// one of them only where a grace period is given.
pub fn recovered(lease: &Lease, now: Timestamp, grace: Option<Duration>) -> String {
    let ago = |at: Timestamp| duration::show(now.since(at));
    let expired = lease.expires_at.map_or_else(String::new, ago);
    let heartbeat = grace.map_or_else(String::new, |grace| {
        let (age, limit) = (ago(lease.heartbeat_at), duration::show(grace));
        format!("heartbeat {age} ago, older than {limit}; ")
    });
    format!("expired {expired} ago; {heartbeat}no active job claims it")
}

/// Returns the reason in the entry of a lost lease. The note says who broke the lease, and why.
pub fn not_confirmed(note: Option<&str>) -> String {
    let note = note.unwrap_or("broken");
    format!("{note}; its stop was not confirmed within 10s")
}

/// Returns the end of a lease in words, from the entry of its end.
pub fn ended(action: &str, actor: &str, at: impl fmt::Display, reason: Option<&str>) -> String {
    let done = match action.parse().ok() {
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

/// The largest number of entries on a page if the query states no limit.
const LIMIT_DEFAULT: usize = 1000;

/// The selection of entries to read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[must_use]
pub struct AuditQuery {
    /// Only entries of this resource.
    pub resource: Option<Resource>,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// At most this many. A store may return fewer, with a cursor.
    pub limit: Option<usize>,
    /// Only what comes after this cursor, which an earlier page returned.
    pub after: Option<String>,
}

impl AuditQuery {
    setters! {
        /// Reads entries of this resource only.
        with_resource(resource: Resource) => resource = Some(resource);
        /// Reads entries from this time on only.
        with_since(since: Timestamp) => since = Some(since);
        /// Reads at most this many.
        with_limit(limit: usize) => limit = Some(limit);
        /// Reads only what comes after this cursor, which an earlier page returned.
        with_after(cursor: impl Into<String>) => after = Some(cursor.into());
    }

    /// Returns the limit of the page.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT).max(1)
    }

    /// Returns the number of the entry after which the page begins, in stores that number them.
    ///
    /// # Errors
    ///
    /// `BadInput` if the text is not a cursor.
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

/// A page of the record, oldest entry first, as `audit --json` shows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AuditPage {
    /// The entries of the page.
    pub entries: Vec<Entry>,
    /// The start of the next page, if there is one.
    pub next: Option<String>,
}

impl AuditPage {
    /// Returns a page, with the cursor of the next one.
    pub fn new(entries: Vec<Entry>, next: Option<String>) -> Self {
        Self { entries, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_in_json_are_those_of_the_record() {
        for action in Action::ALL {
            let json = serde_json::to_value(action).unwrap();
            assert_eq!(json, action.as_str());
            assert_eq!(action.as_str().parse(), Ok(action));
        }
    }
}
