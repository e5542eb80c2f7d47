//! The owner of a lease.
//!
//! An owner is 1 to 200 bytes of printable text that neither begins nor ends
//! with a blank, such as `ana@desk`, `agent:42` or `job:7`.

use serde::{Deserialize, Serialize};

use crate::text::text_conversions;

/// The longest owner, in bytes.
pub const OWNER_BYTES_MAX: usize = 200;

/// The person, agent or job that a lease belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Owner(String);

/// The reason why a text is not an owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "bad owner {text:?}: {problem}; an owner is 1 to {OWNER_BYTES_MAX} bytes of printable text, such as agent:42"
)]
pub struct OwnerError {
    text: String,
    problem: &'static str,
}

impl Owner {
    /// Checks a text and makes it an owner.
    pub fn parse(text: &str) -> Result<Self, OwnerError> {
        let problem = if text.is_empty() {
            "it is empty"
        } else if text.len() > OWNER_BYTES_MAX {
            "it is too long"
        } else if text.chars().any(char::is_control) {
            "it holds a control character"
        } else if text.trim() != text {
            "it begins or ends with a blank"
        } else {
            return Ok(Self(text.to_owned()));
        };
        let text = text.chars().take(80).collect();
        Err(OwnerError { text, problem })
    }

    /// Returns the owner as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

text_conversions!(Owner, OwnerError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_is_an_owner() {
        for text in ["ana@desk", "agent:42", "Ana Lee", "é"] {
            assert_eq!(Owner::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn empty_long_blank_and_control_are_refused() {
        for text in ["", " a", "a ", "a\nb", "\u{1b}[31m", &"x".repeat(201)] {
            assert!(Owner::parse(text).is_err(), "{text:?}");
        }
    }
}
