//! One grant, as programs hold it and as JSON shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{LeaseId, Mode, Owner, Resource, SessionId, Timestamp, Token};

/// What ends a lease when nobody releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// The proved death of its session. It has no expiry.
    Session,
    /// Its expiry.
    Lease,
}

/// Where a lease is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// Granted and in force.
    Held,
    /// Granted to a waiter that has not yet taken it up.
    Offered,
    /// Being taken away by a person: nobody else is granted until the holder confirms its stop.
    Revoking,
    /// Its time is over, and nobody has taken over: it may still be renewed.
    Expired,
    /// Nothing proves its session alive or dead. Only break ends it.
    Unknown,
}

/// One grant. The field names are the contract of `--json`: only ever added to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The id of the grant.
    pub lease: LeaseId,
    /// What is held.
    pub resource: Resource,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// The session that holds it.
    pub session: SessionId,
    /// Its own token if exclusive, else the current one of the resource.
    pub token: Token,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it ends by itself; null when bound to its session.
    pub expires_at: Option<Timestamp>,
    /// When the holder last showed itself. For people; it decides nothing for session-bound leases.
    pub heartbeat_at: Timestamp,
    /// What ends it.
    pub binding: Binding,
    /// Where it is in its life.
    pub state: LeaseState,
    /// Process id of the holder, on `host`.
    pub pid: u32,
    /// The machine of the holder.
    pub host: String,
    /// The command line of the holder.
    pub command: String,
    /// Why it is held.
    pub purpose: Option<String>,
    /// Whatever the holder wanted to be kept with it.
    pub metadata: Option<Value>,
}
