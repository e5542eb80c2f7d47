//! Where a page of leases begins, and how far a query reaches: the same for every store that keeps them in a table.
//!
//! Pages are cut by (resource, lease id). Names are compared byte by byte, and none has a byte below a blank.

use crate::{LeaseId, Query, Resource};

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
}

/// The first name after this one.
pub fn next_name(resource: &Resource) -> String {
    format!("{resource} ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
