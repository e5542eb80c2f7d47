//! The words of the commands for people who look and mend: `ls`, `audit`, `recover`, `break`.

use clap::Args;
use tenure::{LeaseId, Owner, Resource, Timestamp};

use super::values::{
    bytes, parse_audit_cursor, parse_cursor, parse_limit, parse_prefix, parse_reason,
    parse_resource, parse_since,
};

#[derive(Debug, Args)]
pub struct Ls {
    /// The beginning of a resource, or a kind; `slot` shows the slots
    #[arg(value_parser = parse_prefix)]
    pub prefix: Option<String>,
    /// Only what this owner holds
    #[arg(long)]
    pub owner: Option<Owner>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says
    #[arg(long, value_name = "CURSOR", value_parser = parse_cursor)]
    pub after: Option<String>,
}

#[derive(Debug, Args)]
pub struct Audit {
    /// Only what was done to this resource
    #[arg(long, value_parser = bytes(parse_resource))]
    pub resource: Option<Resource>,
    /// Only from then on: a time, or how long ago, such as 1h
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Timestamp>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says
    #[arg(long, value_name = "CURSOR", value_parser = parse_audit_cursor)]
    pub after: Option<String>,
}

#[derive(Debug, Args)]
pub struct Recover {
    /// Only say which leases could be recovered, and why the others could not
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Break {
    /// Why, for the holder and for the record
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub reason: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// The lease, as `ls` shows it
    pub lease: LeaseId,
}
