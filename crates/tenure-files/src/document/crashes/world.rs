//! The contents that documents may have: the oracle of the enumeration.

/// One consistent look of all documents of a scenario, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) documents: Vec<DocumentState>,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DocumentState {
    /// Its text; None if it is not there.
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

    /// Returns true if the documents say this.
    pub(super) fn is_of(&self, texts: &[Option<String>]) -> bool {
        self.documents.iter().map(|seen| &seen.text).eq(texts)
    }
}
