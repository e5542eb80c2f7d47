//! The lease store on a real PostgreSQL: cases that conformance does not cover, because only a
//! server has them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod administrator;
mod alone;
mod dropped;
mod empty;
mod examine;
mod failover;
mod full;
mod in_hand;
mod keys;
mod line;
mod lost_commit;
mod migrations;
mod offers;
mod ownership;
mod plain_release;
mod pooler;
mod record;
mod restore;
mod rights;
mod round_trips;
mod scene;
mod secrets;
mod stuck;
mod unknown;
