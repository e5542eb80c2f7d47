//! Listing: a look at each lock file, page by page, sorted by resource.

use std::fs;
use std::io;

use tenure_core::{Error, Lease, Listing, Query, Resource, Result};

use super::FileStore;
use super::names::{self, Named};
use crate::lockfile::{self, Record};

/// The size of a page if none is asked for.
const PAGE: usize = 1000;

impl FileStore {
    pub(super) fn list_now(&self, query: &Query) -> Result<Listing> {
        let limit = query.limit.unwrap_or(PAGE).max(1);
        let mut held: Vec<Lease> = Vec::new();
        let mut next = None;
        for name in self.names(query)? {
            let mut leases = self.look_at(&name, query)?;
            leases.sort_by_key(cursor);
            held.extend(leases);
            // The names are sorted like the cursors, so a full page is complete.
            if held.len() > limit {
                held.truncate(limit);
                next = held.last().map(cursor);
                break;
            }
        }
        Ok(Listing {
            held,
            next,
            waiting: None,
            waiting_next: None,
        })
    }

    fn look_at(&self, name: &str, query: &Query) -> Result<Vec<Lease>> {
        let look = lockfile::look(&self.locks.join(name))?.unwrap_or_default();
        let lease = |record: Record| record.lease;
        let leases = look.holders.into_iter().map(lease);
        Ok(leases.filter(|lease| asked_for(lease, query)).collect())
    }

    /// The names of the lock files that may hold what is asked for, in the order of their resources.
    fn names(&self, query: &Query) -> Result<Vec<String>> {
        if let Some(resource) = &query.resource {
            return Ok(vec![names::file_name(resource)]);
        }
        let after = query.after.as_deref().map(resource_in);
        let entries = match fs::read_dir(&self.locks) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::io("list", &self.locks, source)),
        };
        let mut found: Vec<(String, String)> = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::io("list", &self.locks, source))?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let (key, prefixed) = match names::read(&name) {
                Some(Named::Resource(resource)) => {
                    let prefix = query.prefix.as_deref().unwrap_or("");
                    let prefixed = resource.as_str().starts_with(prefix);
                    (String::from(resource), prefixed)
                }
                // Its record tells what it is.
                Some(Named::Cut(beginning)) => (beginning, true),
                None => continue,
            };
            if prefixed && after.is_none_or(|after| key.as_str() >= cut_like(&key, after)) {
                found.push((key, name));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

/// A name that was cut sorts by its beginning; it is compared with as much of the cursor.
fn cut_like<'a>(key: &str, after: &'a str) -> &'a str {
    let end = after.floor_char_boundary(key.len());
    if after.starts_with(key) {
        &after[..end]
    } else {
        after
    }
}

fn asked_for(lease: &Lease, query: &Query) -> bool {
    let resource = |wanted: &Resource| lease.resource == *wanted;
    let prefix = |prefix: &String| lease.resource.as_str().starts_with(prefix.as_str());
    let owner = |owner: &tenure_core::Owner| lease.owner == *owner;
    let after = |after: &String| cursor(lease) > *after;
    query.resource.as_ref().is_none_or(resource)
        && query.prefix.as_ref().is_none_or(prefix)
        && query.owner.as_ref().is_none_or(owner)
        && query.after.as_ref().is_none_or(after)
}

/// Where a lease stands in the list. A blank sorts before everything a resource can hold.
fn cursor(lease: &Lease) -> String {
    format!("{} {}", lease.resource, lease.lease)
}

fn resource_in(cursor: &str) -> &str {
    cursor
        .split_once(' ')
        .map_or(cursor, |(resource, _)| resource)
}
