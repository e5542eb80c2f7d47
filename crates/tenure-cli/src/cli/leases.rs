//! The words of the commands for leases of their own: `lock` and what is done to its leases.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure::{IdempotenceKey, LeaseId, Mode, Owner, Resource, Token};

use super::values::{
    Wanted, bytes, parse_meta, parse_mode, parse_purpose, parse_resource, parse_ttl, parse_wait,
};

#[derive(Debug, Args)]
pub struct Lock {
    /// How resources without =MODE are locked: read, write or upgradeable
    #[arg(long, value_name = "MODE", default_value = "write", value_parser = parse_mode(), hide_possible_values = true)]
    pub mode: Mode,
    /// How long the lease lasts unless renewed, from 1s to 24h (default: 15m)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// Why, for people who look
    #[arg(long, value_parser = parse_purpose)]
    pub purpose: Option<String>,
    /// Kept with the lease, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_meta)]
    pub meta: Option<Value>,
    /// Your name for this request: asked again with it, you get the same leases, for 24h
    #[arg(long, value_name = "KEY")]
    pub key: Option<IdempotenceKey>,
    /// What to lock
    #[arg(required = true, value_name = "RESOURCE[=MODE]", value_parser = bytes(Wanted::parse))]
    pub resources: Vec<Wanted>,
}

#[derive(Debug, Args)]
pub struct Renew {
    /// How long they last from now on (default: as long as before)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The leases, as `lock` printed them
    #[arg(required = true, value_name = "LEASE")]
    pub leases: Vec<LeaseId>,
}

#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The leases, as `lock` printed them, or what they are of
    #[arg(required = true, value_name = "LEASE|RESOURCE")]
    pub leases: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Upgrade {
    /// How long to wait for the readers to leave (default: 5s)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if others read
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The lease, as `lock` printed it
    pub lease: LeaseId,
}

#[derive(Debug, Args)]
pub struct Downgrade {
    #[command(flatten)]
    pub by: OwnerCheck,
    /// The lease, as `lock` printed it
    pub lease: LeaseId,
}

#[derive(Debug, Args)]
pub struct Check {
    /// What the token is of
    #[arg(value_parser = bytes(parse_resource))]
    pub resource: Resource,
    /// The token, as the lease has it
    pub token: Token,
}

/// The owner that the lease must have.
#[derive(Debug, Args)]
pub struct OwnerCheck {
    /// Refuse unless the lease is of this owner (default: TENURE_OWNER, else the id suffices)
    #[arg(long)]
    pub owner: Option<Owner>,
}
