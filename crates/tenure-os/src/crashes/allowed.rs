//! The worlds that are right at some moment.

use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The worlds before a step, after it, or both while neither is promised yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed<W> {
    worlds: Vec<W>,
}

impl<W: Clone + Eq + Hash + Debug> Allowed<W> {
    pub fn only(world: W) -> Self {
        Self {
            worlds: vec![world],
        }
    }

    /// Returns all of these worlds and of the others.
    pub fn or(&self, other: &Self) -> Self {
        let mut worlds = self.worlds.clone();
        for world in &other.worlds {
            if !worlds.contains(world) {
                worlds.push(world.clone());
            }
        }
        Self { worlds }
    }

    /// Returns each of these worlds after a change.
    pub fn then(&self, change: impl Fn(&W) -> W) -> Self {
        let mut worlds = Vec::new();
        for world in self.worlds.iter().map(change) {
            if !worlds.contains(&world) {
                worlds.push(world);
            }
        }
        Self { worlds }
    }

    pub fn worlds(&self) -> &[W] {
        &self.worlds
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.worlds.hash(&mut hasher);
        hasher.finish()
    }
}

impl<W: Debug> fmt::Display for Allowed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, world) in self.worlds.iter().enumerate() {
            let or = if index == 0 { "" } else { " or " };
            write!(f, "{or}{world:?}")?;
        }
        Ok(())
    }
}
