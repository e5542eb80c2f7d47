//! Operations as `tenure.toml` and the policies define them: named kinds of work, and the locks
//! each needs.
//!
//! ```toml
//! [operation."shop.price"]
//! about = "Change prices"
//! why = "readers must not see half of a price list"
//! locks = ["shop:{shop}=read", "list:{shop}/{list}=write"]
//! count = "prices"                    # a number that the locks depend on
//!
//! [[operation."shop.price".above]]
//! more_than = 500
//! why = "so many that the shop is closed meanwhile"
//! locks = ["shop:{shop}=write"]
//! ```
//!
//! This is the form alone: `tenure-work` works out the locks of an operation in one case.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use tenure_core::{Mode, Resource};

/// More locks than this are refused.
pub const LOCKS_MAX: usize = 20;
/// More limits than this are refused.
pub const ABOVE_MAX: usize = 10;

/// A kind of work, and the locks it needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Operation {
    /// A description, for people.
    #[serde(default)]
    pub about: String,
    /// The reason why it needs its locks, for people.
    #[serde(default)]
    pub why: String,
    /// The locks it needs.
    pub locks: Vec<LockPattern>,
    /// The key of a number that the locks depend on.
    #[serde(default, deserialize_with = "optional_key")]
    pub count: Option<String>,
    /// The locks it needs instead where that number is higher.
    #[serde(default)]
    pub above: Vec<CountRule>,
    /// True if only a person may start it.
    #[serde(default)]
    pub needs_approval: bool,
}

/// The locks that an operation needs where its number is higher than a limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
// Messages call it by its key, `above`.
#[serde(deny_unknown_fields, rename = "Above")]
#[non_exhaustive]
pub struct CountRule {
    /// The limit that the number has to exceed.
    pub more_than: u64,
    /// The reason, for people.
    #[serde(default)]
    pub why: String,
    /// The locks it needs then.
    pub locks: Vec<LockPattern>,
}

impl Operation {
    /// Returns the flaw of the operation as a whole, if it has one.
    pub(super) fn flaw(&self) -> Option<String> {
        let lists = || {
            [&self.locks]
                .into_iter()
                .chain(self.above.iter().map(|above| &above.locks))
        };
        if lists().any(Vec::is_empty) {
            return Some("it needs at least one lock".into());
        }
        if lists().any(|locks| locks.len() > LOCKS_MAX) {
            return Some(format!("it needs more than {LOCKS_MAX} locks"));
        }
        if self.above.len() > ABOVE_MAX {
            return Some(format!("it has more than {ABOVE_MAX} limits"));
        }
        if self.count.is_some() == self.above.is_empty() {
            return Some("count and [[above]] go together".into());
        }
        let limits = self.above.iter().map(|above| above.more_than);
        if !limits.is_sorted_by(|one, next| one < next) {
            return Some("more_than grows from one [[above]] to the next".into());
        }
        None
    }
}

/// A lock with keys in its id, such as `map:{project}/{map}=write`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockPattern {
    kind: String,
    pieces: Vec<Piece>,
    /// The mode; write, if none is given.
    pub mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Key(String),
}

impl LockPattern {
    /// Returns the keys in it, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Key(key) => Some(key.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Returns the resource with these values in the places of the keys.
    ///
    /// # Errors
    ///
    /// The reason why a value cannot stand in its place: a `/` could turn one resource into
    /// another, except in a pattern that is one path.
    pub fn filled<'v>(&self, value: impl Fn(&str) -> &'v str) -> Result<Resource, String> {
        let is_path = self.kind == "file" && self.keys().count() == 1;
        let mut id = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => id.push_str(text),
                Piece::Key(key) => {
                    let value = value(key);
                    if value.is_empty() || !is_path && value.contains('/') {
                        return Err(format!("{key}={value}: a value is not empty and has no /"));
                    }
                    id.push_str(value);
                }
            }
        }
        Resource::new(&self.kind, id).map_err(|error| error.to_string())
    }

    /// Returns the pattern as it was written, without its mode.
    pub fn name(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Key(key) => format!("{{{key}}}"),
        };
        let id: String = self.pieces.iter().map(piece).collect();
        format!("{}:{id}", self.kind)
    }
}

impl FromStr for LockPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cut = text
            .rsplit_once('=')
            .and_then(|(name, mode)| Some((name, mode.parse::<Mode>().ok()?)));
        let (name, mode) = cut.unwrap_or((text, Mode::Write));
        let bad = |problem: &str| format!("bad lock {text:?}: {problem}");
        let (kind, id) = name
            .split_once(':')
            .ok_or_else(|| bad("it is like map:{project}/{map}=write"))?;
        if let Some((_, word)) = id.rsplit_once('=') {
            return Err(bad(&format!(
                "there is no mode {word:?}; modes are read, write and upgradeable. A `=` in a name is written %3D"
            )));
        }
        if ["slot", "pool"].contains(&kind) {
            return Err(bad(&format!("{kind}s are not among the locks")));
        }
        let (mut pieces, mut rest) = (Vec::new(), id);
        while let Some((before, after)) = rest.split_once('{') {
            let (key, after) = after.split_once('}').ok_or_else(|| bad("a } is missing"))?;
            check_key(key).map_err(|problem| bad(&problem))?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Key(key.to_owned()));
            rest = after;
        }
        if rest.contains('}') {
            return Err(bad("a { is missing"));
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        let (kind, mode) = (kind.to_owned(), mode);
        let pattern = Self { kind, pieces, mode };
        pattern.filled(|_| "x").map_err(|problem| bad(&problem))?;
        Ok(pattern)
    }
}

impl<'de> Deserialize<'de> for LockPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    match (1..=32).contains(&key.len()) && key.bytes().all(allowed) {
        true => Ok(()),
        false => Err(format!(
            "{key:?} is no key: a key is 1 to 32 of a-z, 0-9, - and _"
        )),
    }
}

fn optional_key<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let key = String::deserialize(from)?;
    check_key(&key).map_err(de::Error::custom)?;
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<LockPattern, String> {
        text.parse()
    }

    #[test]
    fn a_pattern_becomes_a_resource() {
        let map = pattern("map:{project}/{map}=read").unwrap();
        assert_eq!(map.keys().collect::<Vec<_>>(), ["project", "map"]);
        let filled = map.filled(|key| if key == "map" { "m 3" } else { "atlas" });
        assert_eq!(filled.unwrap().as_str(), "map:atlas/m%203");
        assert_eq!(
            (map.name().as_str(), map.mode),
            ("map:{project}/{map}", Mode::Read)
        );
        assert_eq!(pattern("name:build").unwrap().mode, Mode::Write);
    }

    #[test]
    fn a_value_cannot_make_another_resource_of_it() {
        let map = pattern("map:{project}/{map}").unwrap();
        assert!(map.filled(|_| "a/b").is_err());
        assert!(map.filled(|_| "").is_err());
        assert!(
            pattern("project:{project}")
                .unwrap()
                .filled(|_| "a/b")
                .is_err()
        );
        let file = pattern("file:{path}").unwrap();
        assert_eq!(file.filled(|_| "/a/b").unwrap().as_str(), "file:/a/b");
    }

    #[test]
    fn a_pattern_that_cannot_be_is_refused() {
        for text in [
            "map:{a}=wirte",
            "map:{a}=x=read",
            "slot:{a}",
            "pool:{a}",
            "map",
            "Map:{a}",
            "map:{a",
            "map:a}",
            "map:{A}",
            "map:{}",
            "map:",
            ":a",
        ] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }
}
