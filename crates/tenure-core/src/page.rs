//! Where a page of leases begins, and how far a query reaches: the same for every store.
//!
//! Pages are cut by (resource, lease id). Names are compared byte by byte, and none has a byte below a blank.

use crate::store::Waiting;
use crate::{LeaseId, Owner, Query, Resource};

/// A page has at most this many unless the query says otherwise.
const LIMIT_DEFAULT: usize = 500;

/// Where a page begins: after this lease of this resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The resource, or how it begins.
    pub resource: String,
    /// The lease; empty before the first.
    pub lease: String,
}

impl Cursor {
    /// As an earlier page gave it; without one, the beginning.
    pub fn of(after: Option<&str>) -> Self {
        let after = after.unwrap_or_default();
        let (resource, lease) = after.split_once(' ').unwrap_or((after, ""));
        Self {
            resource: resource.to_owned(),
            lease: lease.to_owned(),
        }
    }

    /// After this one.
    pub fn at(resource: &Resource, lease: &LeaseId) -> Self {
        Self {
            resource: resource.to_string(),
            lease: lease.to_string(),
        }
    }

    /// As a page gives it.
    pub fn spelled(&self) -> String {
        format!("{} {}", self.resource, self.lease)
    }
}

impl Query {
    /// How many are wanted at most.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT).max(1)
    }

    /// From which name to before which name it reaches.
    pub fn bounds(&self) -> (String, String) {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let (from, to) = (prefix.to_owned(), format!("{prefix}{}", char::MAX));
        match &self.resource {
            None => (from, to),
            Some(resource) => (from.max(resource.to_string()), to.min(next_name(resource))),
        }
    }

    /// Whether it asks for what is this owner's.
    pub fn wants(&self, owner: &Owner) -> bool {
        self.owner.as_ref().is_none_or(|wanted| wanted == owner)
    }
}

/// A page of those who wait, while its lines are gathered in the order of their names. It is cut by id, which stays, and
/// shown by place, which moves.
#[derive(Debug)]
pub struct WaitingPage<'a> {
    query: &'a Query,
    after: Cursor,
    waiting: Vec<Waiting>,
}

impl<'a> WaitingPage<'a> {
    /// The page that a query asks for.
    pub fn of(query: &'a Query) -> Self {
        Self {
            query,
            after: Cursor::of(query.after.as_deref()),
            waiting: Vec::new(),
        }
    }

    /// The first name whose line may be on it.
    pub fn begins_at(&self) -> String {
        self.query.bounds().0.max(self.after.resource.clone())
    }

    /// Adds what the page shows of the whole line of one resource.
    pub fn add(&mut self, line: impl IntoIterator<Item = Waiting>) {
        let shown = |waiter: &Waiting| {
            Cursor::at(&waiter.resource, &waiter.waiter) > self.after
                && self.query.wants(&waiter.owner)
        };
        let shown: Vec<Waiting> = line.into_iter().filter(shown).collect();
        self.waiting.extend(shown);
    }

    /// Whether there is more than fits: no further line is needed.
    pub fn is_full(&self) -> bool {
        self.waiting.len() > self.query.limit()
    }

    /// The page, and where the next begins.
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

/// The first name after this one.
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
    }
}
