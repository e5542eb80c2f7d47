//! The global order of resources, and sets of locks sorted by it.
//!
//! Every session takes several locks in this order, so that no cycle of waiters can form: by
//! rank of the kind, then kind, then id, byte by byte, as it was before it was encoded. A hold
//! stands directly before the resource that it keeps.
//!
//! An order that is set need not name every kind. The default kinds that it lacks are inserted
//! where they stand in the default order: behind the nearest one before them, else before the
//! nearest one after them. Kinds that are in neither come last, by name.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::{Mode, Resource};

/// The default order of kinds.
pub const DEFAULT_KINDS: [&str; 15] = [
    "pool", "slot", "git", "project", "map", "sketch", "index", "gates", "issue", "agent", "file",
    "node", "job", "name", "events",
];

/// The order of kinds, all default kinds among them. Kinds that are not in it come last, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    kinds: Vec<String>,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            kinds: DEFAULT_KINDS.map(str::to_owned).into(),
        }
    }
}

impl Ranking {
    /// Makes a ranking. If a kind appears twice, its first place counts. Default kinds that are
    /// missing are inserted at their default place.
    pub fn new(kinds: impl IntoIterator<Item = String>) -> Self {
        let mut ranking = Self { kinds: Vec::new() };
        for kind in kinds {
            if !ranking.kinds.contains(&kind) {
                ranking.kinds.push(kind);
            }
        }
        for (place, kind) in DEFAULT_KINDS.into_iter().enumerate() {
            if !ranking.kinds.iter().any(|named| named == kind) {
                let at = ranking.default_place(place);
                ranking.kinds.insert(at, kind.to_owned());
            }
        }
        ranking
    }

    /// Returns the kinds in their order.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// Returns where the default kind at this place belongs.
    fn default_place(&self, place: usize) -> usize {
        let find = |kind: &&str| self.kinds.iter().position(|named| named == kind);
        let (before, after) = (&DEFAULT_KINDS[..place], &DEFAULT_KINDS[place + 1..]);
        let behind = before.iter().rev().find_map(find).map(|at| at + 1);
        let ahead_of = || after.iter().find_map(find);
        behind.or_else(ahead_of).unwrap_or(self.kinds.len())
    }

    fn rank(&self, kind: &str) -> usize {
        let named = self.kinds.iter().position(|named| named == kind);
        named.unwrap_or(self.kinds.len())
    }

    /// Compares two resources by (rank, kind, id).
    pub fn compare(&self, a: &Resource, b: &Resource) -> Ordering {
        let ((kept_a, holds_a), (kept_b, holds_b)) = (without_holds(a), without_holds(b));
        let key = |resource: &Resource| self.rank(resource.kind());
        key(&kept_a)
            .cmp(&key(&kept_b))
            .then_with(|| kept_a.kind().cmp(kept_b.kind()))
            .then_with(|| compare_ids(&kept_a, &kept_b))
            .then_with(|| holds_b.cmp(&holds_a))
            // `hold:x` keeps the same resource as `hold:name:x`, but is another lock.
            .then_with(|| a.as_str().cmp(b.as_str()))
    }
}

/// Returns the resource that a hold keeps, through holds of holds, and their number.
fn without_holds(resource: &Resource) -> (Cow<'_, Resource>, usize) {
    let (mut inner, mut holds) = (Cow::Borrowed(resource), 0);
    while let Some(kept) = inner.kept() {
        (inner, holds) = (Cow::Owned(kept), holds + 1);
    }
    (inner, holds)
}

/// Compares ids byte by byte, as they were before they were encoded: `a=b` comes after `a-b`,
/// although it is spelled `a%3Db`.
fn compare_ids(a: &Resource, b: &Resource) -> Ordering {
    if a.id().contains('%') || b.id().contains('%') {
        a.raw_id().cmp(&b.raw_id())
    } else {
        a.id().cmp(b.id())
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
        // Written down from the specification, and not taken from the code.
        let kinds = [
            "pool:x",
            "slot:x",
            "git:x",
            "project:x",
            "map:x",
            "sketch:x",
            "index:x",
            "gates:x",
            "issue:x",
            "agent:x",
            "file:x",
            "node:x",
            "job:x",
            "name:x",
            "events:x",
            "alpha:x",
            "zeta:a",
            "zeta:b",
        ];
        let mut shuffled = kinds;
        shuffled.reverse();
        assert_eq!(sorted(&shuffled), kinds);
        assert_eq!(DEFAULT_KINDS.len() + 3, kinds.len());
    }

    #[test]
    fn ids_come_byte_by_byte() {
        assert_eq!(
            sorted(&["map:b", "map:a/2", "map:a/10", "map:B", "map:é"]),
            ["map:B", "map:a/10", "map:a/2", "map:b", "map:é"]
        );
    }

    #[test]
    fn a_hold_comes_directly_before_what_it_keeps() {
        let inner = resource("map:a%2Cb");
        let hold = inner.hold().unwrap();
        assert_eq!(hold.as_str(), "hold:map:a%252Cb");
        assert_eq!(hold.kept(), Some(inner));
        let order = [
            "project:z",
            "hold:map:a%252Cb",
            "map:a%2Cb",
            "hold:hold:map:b",
            "hold:map:b",
            "map:b",
            "hold:a",
            "hold:name:a",
            "name:a",
            "alpha:x",
        ];
        let mut shuffled = order;
        shuffled.reverse();
        assert_eq!(sorted(&shuffled), order);
    }

    #[test]
    fn maps_of_a_project_come_by_their_ids_whatever_has_to_be_encoded() {
        // Section 8.1 of the lock table asks for this: lexicographically by the id of the map.
        let mut maps = ["a b", "a!", "a#1", "a%", "a,c", "a-b", "a=b", "aä", "b"];
        maps.sort_unstable();
        let resource = |map: &str| Resource::new("map", format!("atlas/{map}")).unwrap();
        let items = maps.iter().rev().map(|map| (resource(map), Mode::Read));
        let set = LockSet::new(&Ranking::default(), items);
        let sorted: Vec<_> = set.iter().map(|(map, _)| map.clone()).collect();
        assert_eq!(sorted, maps.map(resource));
    }

    #[test]
    fn kinds_that_an_order_lacks_have_their_default_place() {
        let order = |kinds: &str| Ranking::new(kinds.split(' ').map(str::to_owned));
        for (set, complete) in [
            (
                "name project",
                "name events pool slot git project map sketch index gates issue agent file node job",
            ),
            (
                "shop map",
                "shop pool slot git project map sketch index gates issue agent file node job name events",
            ),
            (
                "b a",
                "b a pool slot git project map sketch index gates issue agent file node job name events",
            ),
            (
                "events sketch events",
                "events pool slot git project map sketch index gates issue agent file node job name",
            ),
        ] {
            assert_eq!(order(set).kinds().join(" "), complete, "{set}");
            assert_eq!(order(set), order(complete), "{set}");
        }
        // A kind that only a newer version ranks has its place in an order that an older one wrote
        // down.
        let older = "slot project sketch index gates issue agent file node job name events";
        assert_eq!(order(older), Ranking::default());
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
