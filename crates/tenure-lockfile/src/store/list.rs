//! Listing: a look at each lock file, page by page, sorted by resource.

use std::fs;
use std::io;

use tenure_core::internal::Cursor;
use tenure_core::{Error, Lease, Listing, Query, Result};
use tenure_os::platform;

use super::FileStore;
use super::names::{self, Named};
use crate::lockfile::{self, Record};

/// A lock file that may hold a lease that the query asks for.
enum Candidate {
    /// The name; the file was not looked at yet.
    Name(String),
    /// The leases: the name is cut, so the records were read to find the resource.
    Leases(Vec<Lease>),
}

impl FileStore {
    pub(super) fn list_now(&self, query: &Query) -> Result<Listing> {
        let limit = query.limit();
        let mut held: Vec<Lease> = Vec::new();
        let mut next = None;
        for (_, found) in self.find(query)? {
            let mut leases = match found {
                Candidate::Name(name) => self.look_at(&name, query)?,
                Candidate::Leases(leases) => leases,
            };
            leases.sort_by_cached_key(at);
            held.extend(leases);
            // Files are sorted like the cursors, so a full page is complete.
            if held.len() > limit {
                held.truncate(limit);
                next = held.last().map(|last| at(last).spelled());
                break;
            }
        }
        Ok(Listing::new(held, next))
    }

    fn look_at(&self, name: &str, query: &Query) -> Result<Vec<Lease>> {
        let look = match lockfile::look(&self.locks.join(name)) {
            Ok(look) => look.unwrap_or_default(),
            // A link or a directory with the name of a lock file holds no lock. It is an error only
            // if the query names its resource.
            Err(Error::Corrupt { .. }) if query.resource.is_none() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let lease = |record: Record| record.lease;
        let leases = look.holders.into_iter().map(lease);
        let mut leases: Vec<Lease> = leases.filter(|lease| query.asks_for(lease)).collect();
        let ours = platform::host_name();
        let has_ended = |lease: &&mut Lease| lease.host == ours && platform::is_gone(lease.pid);
        for lease in leases.iter_mut().filter(has_ended) {
            let holders = platform::holders_of_flock(&self.locks.join(name));
            lease.command_pid = holders.first().copied();
        }
        Ok(leases)
    }

    /// Returns the lock files that may hold such leases, in the order of their resources.
    fn find(&self, query: &Query) -> Result<Vec<(String, Candidate)>> {
        if let Some(resource) = &query.resource {
            let name = names::file_name(resource);
            return Ok(vec![(resource.to_string(), Candidate::Name(name))]);
        }
        let prefix = query.prefix.as_deref().unwrap_or("");
        let after = Cursor::of(query.after.as_deref()).resource;
        let entries = match fs::read_dir(&self.locks) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::io("list", &self.locks, source)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::io("list", &self.locks, source))?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            match names::read(&name) {
                Some(Named::Resource(resource)) => {
                    let key = String::from(resource);
                    if key.starts_with(prefix) && key >= after {
                        found.push((key, Candidate::Name(name)));
                    }
                }
                Some(Named::Cut) => {
                    let leases = self.look_at(&name, query)?;
                    if let Some(first) = leases.first() {
                        found.push((first.resource.to_string(), Candidate::Leases(leases)));
                    }
                }
                None => {}
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }
}

/// Returns the position of a lease in the list.
fn at(lease: &Lease) -> Cursor {
    Cursor::at(&lease.resource, &lease.lease)
}
