//! Pages of a listing: cursors and the range of a query, the same for every store.
//!
//! Pages are ordered by (resource, lease id). Names are compared byte by byte, and no name has a
//! byte below a blank.

use std::collections::BTreeSet;

use crate::store::Waiting;
use crate::{Lease, LeaseId, Owner, Query, Resource};

/// The largest number of rows on a page if the query states no limit.
const LIMIT_DEFAULT: usize = 100;

/// The start of a page: it begins after this lease of this resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The resource, or the beginning of its name.
    pub resource: String,
    /// The lease, or empty for the position before the first.
    pub lease: String,
}

impl Cursor {
    /// Parses the cursor of an earlier page; `None` means the beginning.
    pub fn of(after: Option<&str>) -> Self {
        let after = after.unwrap_or_default();
        let (resource, lease) = after.split_once(' ').unwrap_or((after, ""));
        Self {
            resource: resource.to_owned(),
            lease: lease.to_owned(),
        }
    }

    /// Returns the cursor after this lease.
    pub fn at(resource: &Resource, lease: &LeaseId) -> Self {
        Self {
            resource: resource.to_string(),
            lease: lease.to_string(),
        }
    }

    /// Returns the text of the cursor, as a page shows it.
    pub fn spelled(&self) -> String {
        format!("{} {}", self.resource, self.lease)
    }
}

impl Query {
    /// Returns true if the query asks for this resource.
    pub fn covers(&self, resource: &Resource) -> bool {
        let begins = |prefix: &String| resource.as_str().starts_with(prefix.as_str());
        self.resource.as_ref().is_none_or(|only| only == resource)
            && self.prefix.as_ref().is_none_or(begins)
    }

    /// Returns true if the query asks for this lease, and the lease is on this page or a later one.
    pub fn asks_for(&self, lease: &Lease) -> bool {
        self.covers(&lease.resource)
            && self.wants(&lease.owner)
            && Cursor::at(&lease.resource, &lease.lease) > Cursor::of(self.after.as_deref())
    }

    /// Returns the limit of the page.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT).max(1)
    }

    /// Returns the range of names of the query: the first name, and the name before which it ends.
    pub fn bounds(&self) -> (String, String) {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let (from, to) = (prefix.to_owned(), format!("{prefix}{}", char::MAX));
        match &self.resource {
            None => (from, to),
            Some(resource) => (from.max(resource.to_string()), to.min(next_name(resource))),
        }
    }

    /// Returns true if the query includes this owner.
    pub fn wants(&self, owner: &Owner) -> bool {
        let among = |wanted: &BTreeSet<Owner>| wanted.contains(owner);
        self.owner.as_ref().is_none_or(|wanted| wanted == owner)
            && self.owners.as_ref().is_none_or(among)
    }
}

/// A page of waiters, collected resource by resource in the order of their names. It is cut by id,
/// which does not change, and sorted by place, which does.
#[derive(Debug)]
pub struct WaitingPage<'a> {
    query: &'a Query,
    after: Cursor,
    waiting: Vec<Waiting>,
}

impl<'a> WaitingPage<'a> {
    /// Starts an empty page for a query.
    pub fn of(query: &'a Query) -> Self {
        Self {
            query,
            after: Cursor::of(query.after.as_deref()),
            waiting: Vec::new(),
        }
    }

    /// Returns the first name whose waiters may be on the page.
    pub fn begins_at(&self) -> String {
        self.query.bounds().0.max(self.after.resource.clone())
    }

    /// Returns true if a waiter comes after the start of the page.
    pub fn reaches(&self, resource: &Resource, waiter: &LeaseId) -> bool {
        Cursor::at(resource, waiter) > self.after
    }

    /// Returns true if the page includes this owner.
    pub fn wants(&self, owner: &Owner) -> bool {
        self.query.wants(owner)
    }

    /// Returns the limit of the page.
    pub fn limit(&self) -> usize {
        self.query.limit()
    }

    /// Adds the waiters of one resource that belong on the page.
    pub fn add(&mut self, line: impl IntoIterator<Item = Waiting>) {
        let shown = |waiter: &Waiting| {
            self.reaches(&waiter.resource, &waiter.waiter) && self.wants(&waiter.owner)
        };
        let shown: Vec<Waiting> = line.into_iter().filter(shown).collect();
        self.waiting.extend(shown);
    }

    /// Returns true if the page has more than its limit, so that no further waiters are needed.
    pub fn is_full(&self) -> bool {
        self.waiting.len() > self.query.limit()
    }

    /// Returns the page, and the cursor of the next.
    pub fn cut(self) -> (Vec<Waiting>, Option<String>) {
        let more = self.is_full();
        let mut waiting = self.waiting;
        waiting.sort_by(|a, b| (&a.resource, &a.waiter).cmp(&(&b.resource, &b.waiter)));
        waiting.truncate(self.query.limit());
        let last = waiting.last().filter(|_| more);
        let next = last.map(|last| Cursor::at(&last.resource, &last.waiter).spelled());
        waiting.sort_by(|a, b| (&a.resource, a.position).cmp(&(&b.resource, b.position)));
        (waiting, next)
    }
}

/// Returns the first name after this one.
pub fn next_name(resource: &Resource) -> String {
    format!("{resource} ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Timestamp};

    fn resource(name: &str) -> Resource {
        Resource::parse(name).unwrap()
    }

    #[test]
    fn a_cursor_is_read_as_it_was_spelled_and_lies_after_its_lease() {
        let lease = LeaseId::parse("one").unwrap();
        let cursor = Cursor::at(&resource("name:a"), &lease);
        assert_eq!(Cursor::of(Some(&cursor.spelled())), cursor);
        assert!(Cursor::of(None) < cursor);
        assert!(cursor < Cursor::at(&resource("name:b"), &lease));
    }

    #[test]
    fn a_query_reaches_over_what_it_names_and_nothing_else() {
        let within = |query: &Query, name: &str| {
            let (from, to) = query.bounds();
            let name = resource(name).to_string();
            from <= name && name < to
        };
        let one = Query {
            resource: Some(resource("name:a")),
            ..Query::default()
        };
        assert!(within(&one, "name:a"));
        assert!(!within(&one, "name:a2") && !within(&one, "name:b"));
        let some = Query {
            prefix: Some("name:a".into()),
            ..Query::default()
        };
        assert!(within(&some, "name:a") && within(&some, "name:a2"));
        assert!(!within(&some, "name:b"));
        assert!(within(&Query::default(), "name:a"));
    }

    fn waiting(name: &str, id: &str, position: usize) -> Waiting {
        Waiting {
            waiter: LeaseId::parse(id).unwrap(),
            resource: resource(name),
            mode: Mode::Write,
            owner: Owner::parse(id).unwrap(),
            since: Timestamp::from_millis(0),
            deadline: None,
            position,
            reason: String::new(),
            blocked_by: Vec::new(),
        }
    }

    /// All pages, each as `id/place id/place`.
    fn pages(query: Query, lines: &[Vec<Waiting>]) -> Vec<String> {
        let (mut query, mut shown) = (query, Vec::new());
        loop {
            let mut page = WaitingPage::of(&query);
            for line in lines {
                if !page.is_full() {
                    page.add(line.clone());
                }
            }
            let (waiting, next) = page.cut();
            let words = waiting.iter();
            let words = words.map(|waits| format!("{}/{}", waits.waiter, waits.position));
            shown.push(words.collect::<Vec<String>>().join(" "));
            match next {
                Some(next) => query.after = Some(next),
                None => return shown,
            }
        }
    }

    #[test]
    fn pages_of_who_waits_are_cut_by_id_and_shown_by_place() {
        let lines = [
            vec![
                waiting("name:a", "z", 1),
                waiting("name:a", "y", 2),
                waiting("name:a", "x", 3),
            ],
            vec![waiting("name:b", "a", 1)],
        ];
        let by = |limit| Query {
            limit: Some(limit),
            ..Query::default()
        };
        assert_eq!(pages(by(2), &lines), ["y/2 x/3", "z/1 a/1"]);
        assert_eq!(pages(by(3), &lines), ["z/1 y/2 x/3", "a/1"]);
        assert_eq!(pages(by(4), &lines), ["z/1 y/2 x/3 a/1"]);
        let one = Query {
            owner: Some(Owner::parse("y").unwrap()),
            ..by(1)
        };
        assert_eq!(pages(one, &lines), ["y/2"]);
        let two = ["x", "a"].map(|owner| Owner::parse(owner).unwrap());
        assert_eq!(pages(by(4).with_owners(two), &lines), ["x/3 a/1"]);
    }
}
