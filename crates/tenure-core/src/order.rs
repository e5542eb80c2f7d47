//! The global order of resources, and sets of locks sorted by it.
//!
//! Every session takes several locks in this order, so that no cycle of waiters can form: by
//! rank of the kind, then kind, then id, byte by byte.

use std::cmp::Ordering;

use crate::{Mode, Resource};

/// The default order of kinds.
pub const DEFAULT_KINDS: [&str; 13] = [
    "slot", "project", "map", "sketch", "index", "gates", "issue", "agent", "file", "node", "job",
    "name", "events",
];

/// The order of kinds. Kinds that are not in it come last, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    kinds: Vec<String>,
}

impl Default for Ranking {
    fn default() -> Self {
        Self::new(DEFAULT_KINDS.map(str::to_owned))
    }
}

impl Ranking {
    /// Makes a ranking. If a kind appears twice, its first place counts.
    pub fn new(kinds: impl IntoIterator<Item = String>) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
        }
    }

    fn rank(&self, kind: &str) -> usize {
        let named = self.kinds.iter().position(|named| named == kind);
        named.unwrap_or(self.kinds.len())
    }

    /// Compares two resources by (rank, kind, id).
    pub fn compare(&self, a: &Resource, b: &Resource) -> Ordering {
        let key = |resource: &Resource| self.rank(resource.kind());
        key(a)
            .cmp(&key(b))
            .then_with(|| a.kind().cmp(b.kind()))
            .then_with(|| a.id().cmp(b.id()))
    }
}

/// Locks to acquire together: sorted, each resource once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockSet {
    items: Vec<(Resource, Mode)>,
}

impl LockSet {
    /// Sorts by the ranking. A resource that appears twice keeps the strongest mode.
    pub fn new(ranking: &Ranking, items: impl IntoIterator<Item = (Resource, Mode)>) -> Self {
        let mut items: Vec<_> = items.into_iter().collect();
        // Strongest first within a resource, so that dedup keeps it.
        items.sort_by(|a, b| ranking.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
        items.dedup_by(|later, first| later.0 == first.0);
        Self { items }
    }

    /// Returns the locks in the order in which they are acquired.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(Resource, Mode)> + ExactSizeIterator {
        self.items.iter()
    }

    /// Returns true if the set has no locks.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(text: &str) -> Resource {
        Resource::parse(text).unwrap()
    }

    fn sorted(texts: &[&str]) -> Vec<String> {
        let items = texts.iter().map(|text| (resource(text), Mode::Read));
        let set = LockSet::new(&Ranking::default(), items);
        set.iter()
            .map(|(resource, _)| resource.to_string())
            .collect()
    }

    #[test]
    fn kinds_come_by_rank_then_unknown_kinds_by_name() {
        let mut kinds = DEFAULT_KINDS.map(|kind| format!("{kind}:x")).to_vec();
        kinds.extend(["alpha:x".into(), "zeta:a".into(), "zeta:b".into()]);
        let mut shuffled: Vec<&str> = kinds.iter().map(String::as_str).collect();
        shuffled.reverse();
        assert_eq!(sorted(&shuffled), kinds);
    }

    #[test]
    fn ids_come_byte_by_byte() {
        assert_eq!(
            sorted(&["map:b", "map:a/2", "map:a/10", "map:B", "map:é"]),
            ["map:B", "map:a/10", "map:a/2", "map:b", "map:é"]
        );
    }

    #[test]
    fn duplicates_merge_to_the_strongest_mode() {
        for pair in [[Mode::Read, Mode::Write], [Mode::Write, Mode::Read]] {
            let items = pair.map(|mode| (resource("a"), mode));
            let set = LockSet::new(&Ranking::default(), items);
            let items: Vec<_> = set.iter().cloned().collect();
            assert_eq!(items, [(resource("a"), Mode::Write)]);
        }
    }

    #[test]
    fn the_ranking_can_be_set() {
        let ranking = Ranking::new(["name".to_owned(), "project".to_owned()]);
        let order = ranking.compare(&resource("z"), &resource("project:a"));
        assert_eq!(order, Ordering::Less);
    }
}
