//! The contents that documents may have: the oracle of the enumeration.

/// One consistent state of all documents of a scenario, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) documents: Vec<DocumentState>,
}

/// One document of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DocumentState {
    /// The text, or `None` if the document is not there.
    pub(super) text: Option<String>,
    /// The token of the last write: a write with an older one must be refused.
    pub(super) token: Option<u64>,
}

impl World {
    /// Returns documents with these texts that never had a fence.
    pub(super) fn of(texts: &[Option<&str>]) -> Self {
        let seen = |text: &Option<&str>| DocumentState {
            text: text.map(str::to_owned),
            token: None,
        };
        Self {
            documents: texts.iter().map(seen).collect(),
        }
    }

    /// Returns this world with another text of one document.
    pub(super) fn with(&self, document: usize, text: &str) -> Self {
        let mut world = self.clone();
        world.documents[document].text = Some(text.to_owned());
        world
    }

    /// Returns true if the documents have these texts.
    pub(super) fn is_of(&self, texts: &[Option<String>]) -> bool {
        self.documents.iter().map(|seen| &seen.text).eq(texts)
    }
}
