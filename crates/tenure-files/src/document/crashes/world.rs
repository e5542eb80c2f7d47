//! What documents may look like: the oracle of the enumeration.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One consistent look of all documents of a scenario, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) documents: Vec<DocumentState>,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DocumentState {
    /// What it says; None if it is not there.
    pub(super) text: Option<String>,
    /// The token it was written with: an older one must be refused.
    pub(super) token: Option<u64>,
}

impl World {
    /// Documents with these texts that never had a fence.
    pub(super) fn of(texts: &[Option<&str>]) -> Self {
        let seen = |text: &Option<&str>| DocumentState {
            text: text.map(str::to_owned),
            token: None,
        };
        Self {
            documents: texts.iter().map(seen).collect(),
        }
    }

    /// The same, but for one document.
    pub(super) fn with(&self, document: usize, text: &str) -> Self {
        let mut world = self.clone();
        world.documents[document].text = Some(text.to_owned());
        world
    }

    fn texts(&self) -> impl Iterator<Item = Option<&str>> {
        self.documents.iter().map(|seen| seen.text.as_deref())
    }
}

/// The worlds that are right at some moment: before, after, or both where neither was promised yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    worlds: Vec<World>,
}

impl Allowed {
    pub(super) fn only(world: World) -> Self {
        Self {
            worlds: vec![world],
        }
    }

    /// Any of these or of the others.
    pub(super) fn or(&self, other: &Allowed) -> Self {
        let mut worlds = self.worlds.clone();
        for world in &other.worlds {
            if !worlds.contains(world) {
                worlds.push(world.clone());
            }
        }
        Self { worlds }
    }

    /// Each of them after a change.
    pub(super) fn then(&self, change: impl Fn(&World) -> World) -> Self {
        let mut worlds = Vec::new();
        for world in self.worlds.iter().map(change) {
            if !worlds.contains(&world) {
                worlds.push(world);
            }
        }
        Self { worlds }
    }

    /// The world that these texts are of.
    pub(super) fn find(&self, texts: &[Option<String>]) -> Option<&World> {
        let texts = texts.iter().map(Option::as_deref);
        let mut worlds = self.worlds.iter();
        worlds.find(|world| world.texts().eq(texts.clone()))
    }

    pub(super) fn worlds(&self) -> &[World] {
        &self.worlds
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.worlds.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, world) in self.worlds.iter().enumerate() {
            let texts: Vec<_> = world.texts().map(|text| text.unwrap_or("-")).collect();
            let or = if index == 0 { "" } else { " or " };
            write!(f, "{or}{texts:?}")?;
        }
        Ok(())
    }
}
