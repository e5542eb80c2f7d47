//! The index of issues, and the gates that are defined.

use std::collections::{BTreeMap, HashSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_api::board::GateBy;
use tenure_core::internal::is_plain_name;
use tenure_core::{Error, Result};

use super::conflict;
use super::issue::{IssueId, LIST_MAX};

/// The longest name of a gate, in bytes.
const GATE_BYTES_MAX: usize = 100;

/// The version of the schema of our indexes.
const SCHEMA: u64 = 1;

/// The content of `index.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Index {
    schema_version: u64,
    /// Every issue there is, in the order of creation.
    all_ids: Vec<IssueId>,
    /// The deleted issues. Their ids are never used again.
    #[serde(default)]
    deleted_ids: Vec<IssueId>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA,
            all_ids: Vec::new(),
            deleted_ids: Vec::new(),
            other: Map::new(),
        }
    }
}

impl Index {
    /// Returns the ids of all existing issues, each once. In the file, another program may leave
    /// deleted issues among them, and a merge may leave some twice.
    pub(super) fn ids(&self) -> Vec<IssueId> {
        let mut seen: HashSet<_> = self.deleted_ids.iter().collect();
        let ids = self.all_ids.iter().filter(|id| seen.insert(id));
        ids.cloned().collect()
    }

    pub(super) fn contains(&self, id: &IssueId) -> bool {
        self.all_ids.contains(id) && !self.is_deleted(id)
    }

    pub(super) fn is_deleted(&self, id: &IssueId) -> bool {
        self.deleted_ids.contains(id)
    }

    /// Returns true for an index of a program that counts its schemas in another way.
    pub(super) fn has_other_schema(&self) -> bool {
        self.schema_version > SCHEMA
    }

    /// Returns the oldest issue of the list.
    pub(super) fn first(&self) -> Option<&IssueId> {
        self.all_ids.first()
    }

    /// Adds the issues of another index, as a merge does. An id that was deleted in either stays
    /// deleted.
    pub(super) fn merge(&mut self, other: Self) {
        other.deleted_ids.iter().for_each(|id| self.delete(id));
        other.all_ids.iter().for_each(|id| self.add(id));
        self.schema_version = self.schema_version.max(other.schema_version);
        for (name, value) in other.other {
            self.other.entry(name).or_insert(value);
        }
    }

    /// Adds an issue, unless it is listed or was deleted.
    pub(super) fn add(&mut self, id: &IssueId) {
        if !self.all_ids.contains(id) && !self.is_deleted(id) {
            self.all_ids.push(id.clone());
        }
    }

    /// Removes an issue, and notes its id as deleted.
    pub(super) fn delete(&mut self, id: &IssueId) {
        self.all_ids.retain(|other| other != id);
        if !self.is_deleted(id) {
            self.deleted_ids.push(id.clone());
        }
    }
}

/// The definition of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Gate {
    #[serde(default)]
    pub(super) by: GateBy,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The content of `gates.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Gates {
    #[serde(default)]
    gates: BTreeMap<String, Gate>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Gates {
    pub(super) fn get(&self, name: &str) -> Option<&Gate> {
        self.gates.get(name)
    }

    /// Defines a gate. Returns false if it is already defined in this way.
    pub(super) fn define(&mut self, name: &str, by: GateBy) -> Result<bool> {
        if !is_plain_name(name, GATE_BYTES_MAX) {
            let shown: String = name.chars().take(80).collect();
            return Err(Error::BadInput(format!(
                "bad gate {shown:?}; a gate is 1 to {GATE_BYTES_MAX} letters, digits, dots, dashes \
                 and underscores, such as review"
            )));
        }
        match self.gates.get(name) {
            Some(known) if known.by == by => return Ok(false),
            Some(known) => {
                return Err(Error::conflict(
                    format!(
                        "the gate {name} is defined already: it is for {}, and you asked for {by}",
                        known.by
                    ),
                    "use it as it is, or define one of another name",
                ));
            }
            None if self.gates.len() >= LIST_MAX => {
                let problem = format!("a board has at most {LIST_MAX} gates");
                return Err(Error::BadInput(problem));
            }
            None => {}
        }
        self.put(name, by);
        Ok(true)
    }

    /// Adds a gate, unless there is one of this name.
    pub(super) fn put(&mut self, name: &str, by: GateBy) {
        let other = Map::new();
        let gate = Gate { by, other };
        self.gates.entry(name.to_owned()).or_insert(gate);
    }
}

/// Reads the index or the gates. The error says what is wrong with the file.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if let Some(problem) = conflict::problem(bytes) {
        return Err(problem);
    }
    serde_json::from_slice(bytes).map_err(|error| format!("it is not what it should be: {error}"))
}

/// Returns the index or the gates as the text of a file.
pub(super) fn encode(registry: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(registry).expect("text is serialisable");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_was_deleted_never_comes_back_and_unknown_fields_stay() {
        let text =
            r#"{"schema_version":1,"all_ids":["a","b","c","a"],"deleted_ids":["b"],"theirs":7}"#;
        let mut index: Index = parse(text.as_bytes()).unwrap();
        let ids = |index: &Index| {
            index
                .ids()
                .iter()
                .map(IssueId::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&index), ["a", "c"]);
        let (a, d) = ("a".parse().unwrap(), "d".parse().unwrap());
        index.delete(&a);
        index.add(&a);
        index.add(&d);
        index.add(&d);
        assert_eq!(ids(&index), ["c", "d"]);
        let again: Index = parse(encode(&index).as_bytes()).unwrap();
        assert_eq!(again, index);
        assert!(encode(&again).contains("\"theirs\": 7"));
    }

    #[test]
    fn a_gate_is_defined_once() {
        let mut gates = Gates::default();
        assert!(gates.define("review", GateBy::People).unwrap());
        assert!(!gates.define("review", GateBy::People).unwrap());
        let other = gates.define("review", GateBy::Anyone).unwrap_err();
        assert_eq!(other.class(), tenure_core::Class::Conflict);
        assert!(gates.define("a b", GateBy::Anyone).is_err());
    }
}
