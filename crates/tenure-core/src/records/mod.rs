//! The [`RecordStore`] trait: rows above the locks, behind one narrow door.
//!
//! A feature that needs rows (manifests of published directories, later agents, jobs and API
//! tokens) keeps them as records. A record has a kind, an id, a version, three indexed columns and
//! a JSON body. It is read, listed by one column in pages, and changed by one call.
//!
//! | module | what it holds |
//! |---|---|
//! | `record` | keys, records, queries and pages, each with its limits |
//! | `change` | a change: the names, the comparisons and the writes in it |
//!
//! # A change, step by step
//!
//! 1. The store begins a transaction, and locks the resources of the leases that the change brings.
//!    From here on no request is granted them.
//! 2. It locks the named records in the order of (kind, id), also those that are not there, and
//!    only then loads them. Two changes that name a record in common happen one after the other,
//!    and two that name several never wait for each other in a circle.
//! 3. [`RecordChange::decided`] compares leases, tokens and versions, calls the pure function of
//!    the feature, and checks what it answers. It may be called again if the transaction is made
//!    again, so it must not do anything but answer.
//! 4. The store writes records and audit entries, and commits durably. Wake-ups go out after that.
//!
//! A crash, a refusal or a dropped future before the commit leaves everything as it was. After the
//! commit everything is there; a wake-up may be lost, so a waiter also looks by itself from time to
//! time. If the answer to a commit is lost, the store finds out what became of the transaction
//! before it tries again: a change is made once.
//!
//! # Versions protect rows, not lists
//!
//! A list may change between two pages, and between a page and a change. A decision that depends on
//! a list needs a record of its own, which every change of the list names.
//!
//! # Limitations
//!
//! - A record that was deleted and is made again begins with version 1, so ids of deleted records
//!   should not be used again.
//! - A record that is there for as long as the pages are read, with the same column, is shown once.
//!   A record that comes or goes meanwhile may be shown or not.

mod change;
mod record;

use crate::{Reply, SessionId};

pub use crate::audit::NewEntry;
pub use change::{Changes, Decide, Decided, Expected, Fence, KEYS_MAX, RecordChange, Seen, Write};
pub use record::{
    BODY_BYTES_MAX, COLUMN_BYTES_MAX, Column, Columns, ID_BYTES_MAX, PAGE_MAX, Record, RecordKey,
    RecordPage, RecordQuery, WakeAddress, parse_body,
};

/// A store that keeps records.
pub trait RecordStore: Send + Sync {
    /// Returns a record, or `None` if there is none.
    fn read_record<'a>(&'a self, key: &'a RecordKey) -> Reply<'a, Option<Record>>;

    /// Returns one page of the records of a kind, in the order of their ids.
    fn list_records<'a>(&'a self, query: &'a RecordQuery) -> Reply<'a, RecordPage>;

    /// Makes a change, durably, and returns the records that it wrote as they are now.
    fn change_records<'a>(&'a self, change: &'a RecordChange<'a>) -> Reply<'a, Vec<Record>>;

    /// Begins to listen for wake-ups on behalf of a session. A session waits for one thing at a
    /// time, be it a lock or a wake-up.
    fn listen<'a>(&'a self, session: &'a SessionId) -> Reply<'a, Box<dyn WakeUps>>;
}

/// Listens for wake-ups, until dropped.
pub trait WakeUps: Send + Sync {
    /// Returns the address by which a change wakes this session. A waiter writes it into a record.
    fn address(&self) -> &WakeAddress;

    /// Resolves when a change woke this session, or may have.
    fn woken(&self) -> Reply<'_, ()>;
}
