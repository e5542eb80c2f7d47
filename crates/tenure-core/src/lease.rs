//! A lease, as programs hold it and as JSON shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Asker, LeaseId, Mode, Owner, Resource, SessionId, Timestamp, Token};

/// The condition that ends a lease if its holder does not release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// The proved death of its session. It has no expiry.
    Session,
    /// The end of its time.
    Lease,
}

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LeaseState {
    /// Granted and in force.
    Held,
    /// Granted to a waiter that has not yet taken it up.
    Offered,
    /// Being broken by a person. The lease keeps others out until the holder confirms its stop.
    Revoking,
    /// Its time is over, but no other request got the resource: it may still be renewed.
    Expired,
    /// The store cannot prove its session alive or dead. Only a break ends it.
    Unknown,
}

impl LeaseState {
    /// Returns the word for it, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            LeaseState::Held => "held",
            LeaseState::Offered => "offered",
            LeaseState::Revoking => "revoking",
            LeaseState::Expired => "expired",
            LeaseState::Unknown => "unknown",
        }
    }
}

/// One grant. The field names are the contract of `--json`: fields are only ever added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Lease {
    /// The id of the grant.
    pub lease: LeaseId,
    /// The resource that is held.
    pub resource: Resource,
    /// The mode it is held in.
    pub mode: Mode,
    /// The owner that holds it.
    pub owner: Owner,
    /// The session that holds it.
    pub session: SessionId,
    /// Its own token if it is exclusive, else the newest token of the resource.
    pub token: Token,
    /// The time when it was granted.
    pub acquired_at: Timestamp,
    /// The time when it expires, or null if it is bound to its session.
    pub expires_at: Option<Timestamp>,
    /// The time when the holder last renewed it. For session-bound leases it decides nothing.
    pub heartbeat_at: Timestamp,
    /// The condition that ends it if its holder does not release it.
    pub binding: Binding,
    /// The state it is in.
    pub state: LeaseState,
    /// The process id of the holder, on `host`.
    pub pid: u32,
    /// The process id of a command that goes on under the lease after its `pid` has ended. It is
    /// known of session-bound leases that are listed or looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_pid: Option<u32>,
    /// The machine of the holder.
    pub host: String,
    /// The command line of the holder.
    pub command: String,
    /// The purpose, if one was given.
    pub purpose: Option<String>,
    /// Data that the holder stored with it.
    pub metadata: Option<Value>,
    /// The coding agent that took it, whatever owner it named; left out if none was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Owner>,
}

impl Lease {
    /// Returns the lease of a grant at a time, held and bound to the session that asked.
    pub fn granted(
        lease: LeaseId,
        resource: Resource,
        mode: Mode,
        token: Token,
        at: Timestamp,
        asker: Asker,
    ) -> Self {
        Self {
            lease,
            resource,
            mode,
            owner: asker.owner,
            session: asker.session,
            token,
            acquired_at: at,
            expires_at: None,
            heartbeat_at: at,
            binding: Binding::Session,
            state: LeaseState::Held,
            pid: asker.pid,
            command_pid: None,
            host: asker.host,
            command: asker.command,
            purpose: None,
            metadata: None,
            agent: asker.agent,
        }
    }

    /// Returns the taker of the lease, for the audit: the coding agent, else the owner.
    pub fn actor(&self) -> &Owner {
        self.agent.as_ref().unwrap_or(&self.owner)
    }

    /// Returns true if a caller under this coding agent, or under none, may change it. An agent
    /// changes only what it took itself, whoever the owner is.
    pub fn may_be_changed_under(&self, agent: Option<&Owner>) -> bool {
        agent.is_none_or(|agent| agent == self.actor())
    }
}
