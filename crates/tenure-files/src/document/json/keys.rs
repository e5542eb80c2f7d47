//! Repeated keys, and nesting that is too deep.
//!
//! Most readers keep the last value of a repeated key and lose the others without a word; a
//! transaction would then write the loss back.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::Lexer;

/// The deepest nesting: `serde_json` refuses to read a value one level deeper.
const DEPTH_MAX: usize = 127;

/// Up to this many keys in an object, comparing each with each is faster than hashing.
const FEW_KEYS: usize = 16;

/// The largest number of characters shown of a key.
const KEY_SHOWN_MAX: usize = 40;

/// A key: its meaning, its offset and its spelling.
struct Key<'a> {
    meaning: Cow<'a, [u8]>,
    offset: usize,
    token: &'a str,
}

/// An object or array that is not closed yet.
enum Open {
    Array,
    /// The keys of an object are the ones in the common list from `first` on. The common list saves
    /// an allocation for each object.
    Object {
        first: usize,
    },
}

/// Checks text that the grammar accepts. The error is the offset of the flaw, and its description.
pub(super) fn check(text: &str) -> Result<(), (usize, String)> {
    let mut open = Vec::new();
    let mut keys = Vec::new();
    let mut previous = "";
    for (offset, token) in Lexer::of(text) {
        match token.as_bytes()[0] {
            b'{' | b'[' if open.len() == DEPTH_MAX => {
                let problem = format!("it is nested deeper than {DEPTH_MAX} levels");
                return Err((offset, problem));
            }
            b'[' => open.push(Open::Array),
            b'{' => open.push(Open::Object { first: keys.len() }),
            b'}' | b']' => {
                if let Some(Open::Object { first }) = open.pop() {
                    if let Some(key) = repeated(&keys[first..]) {
                        let problem = format!("the key {} is there twice", shown(key.token));
                        return Err((key.offset, problem));
                    }
                    keys.truncate(first);
                }
            }
            b'"' if matches!(previous, "{" | ",")
                && matches!(open.last(), Some(Open::Object { .. })) =>
            {
                keys.push(Key {
                    meaning: meaning(token),
                    offset,
                    token,
                });
            }
            _ => {}
        }
        previous = token;
    }
    Ok(())
}

/// Returns the first of these keys that repeats one before it.
fn repeated<'k, 'a>(keys: &'k [Key<'a>]) -> Option<&'k Key<'a>> {
    if keys.len() <= FEW_KEYS {
        let before = |at: usize| keys[..at].iter().any(|key| key.meaning == keys[at].meaning);
        return (1..keys.len()).find(|at| before(*at)).map(|at| &keys[at]);
    }
    let mut known = HashSet::with_capacity(keys.len());
    keys.iter().find(|key| !known.insert(&key.meaning))
}

/// Returns the meaning of a key: two spellings of one key are one key.
fn meaning(token: &str) -> Cow<'_, [u8]> {
    let spelled = &token.as_bytes()[1..token.len() - 1];
    if !spelled.contains(&b'\\') {
        return Cow::Borrowed(spelled);
    }
    let Decoded(bytes) = serde_json::from_str(token).expect("the grammar accepted this string");
    Cow::Owned(bytes)
}

/// A string as bytes, the only form in which halves of surrogate pairs can be read.
struct Decoded(Vec<u8>);

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Decoded;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Decoded, E> {
                Ok(Decoded(bytes.to_owned()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

fn shown(token: &str) -> String {
    let cut: String = token.chars().take(KEY_SHOWN_MAX).collect();
    if cut.len() < token.len() {
        format!("{cut}…")
    } else {
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn twice(text: &str) -> Option<usize> {
        check(text).err().map(|(offset, problem)| {
            assert!(problem.ends_with(" is there twice"), "{problem}");
            offset
        })
    }

    #[test]
    fn a_key_that_is_there_twice_is_found_where_it_is_there_again() {
        assert_eq!(twice(r#"{"a": 1, "b": 2, "a": 3}"#), Some(17));
        assert_eq!(twice(r#"[{"x": {"é": [], "é": 0}}]"#), Some(18));
        assert_eq!(
            twice(r#"{"a": {"a": ["a", "a", {"a": "a"}]}, "b": {"a": "a"}}"#),
            None
        );
        assert_eq!(twice(r#"{"a": {"b": 1}, "b": 2, "a": 3}"#), Some(24));
        assert_eq!(twice(r#"{"": 1, "": 2}"#), Some(8));
    }

    #[test]
    fn two_spellings_of_a_key_are_one_key() {
        assert_eq!(twice(r#"{"a/b": 1, "\u0061\/b": 2}"#), Some(11));
        assert_eq!(twice(r#"{"\ud83d\ude00": 1, "😀": 2}"#), Some(20));
        assert_eq!(twice(r#"{"\uD800": 1, "\ud800": 2}"#), Some(14));
        assert_eq!(twice(r#"{"\ud800": 1, "\ud801": 2}"#), None);
    }

    #[test]
    fn a_repeated_key_is_found_in_objects_of_any_size() {
        for size in [1, 2, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 100] {
            // Each member holds an object, whose keys must not mix with the keys around it.
            let member = |n: usize| format!("\"k{n}\":{{\"k0\":1,\"k1\":1}},");
            let members: String = (0..size).map(member).collect();
            assert_eq!(twice(&format!("{{{members}\"end\":0}}")), None);
            for repeated in [0, size / 2, size - 1] {
                let text = format!("{{{members}\"k{repeated}\":0}}");
                assert_eq!(twice(&text), Some(members.len() + 1));
                let text = format!("{{{members}\"k{repeated}\":0,{members}\"end\":0}}");
                assert_eq!(
                    twice(&text),
                    Some(members.len() + 1),
                    "the first of several"
                );
            }
        }
    }

    #[test]
    fn a_long_key_is_cut_in_the_message() {
        let key = "é".repeat(300);
        let (_, problem) = check(&format!("{{\"{key}\":1,\"{key}\":2}}")).unwrap_err();
        assert_eq!(
            problem,
            format!("the key \"{}… is there twice", "é".repeat(39))
        );
    }

    #[test]
    fn nesting_is_allowed_exactly_as_deep_as_values_can_be_read() {
        let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check(&nested(DEPTH_MAX)), Ok(()));
        assert!(serde_json::from_str::<Value>(&nested(DEPTH_MAX)).is_ok());
        let (offset, problem) = check(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(
            (offset, problem.as_str()),
            (127, "it is nested deeper than 127 levels")
        );
        assert!(serde_json::from_str::<Value>(&nested(DEPTH_MAX + 1)).is_err());
    }
}
