//! Ids of leases and sessions.
//!
//! Both are 1 to 64 bytes of `a-z`, `0-9` and `-`. The caller that opens the session or asks for
//! the lease makes them, since this crate draws no random numbers.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::text::text_conversions;

/// The reason why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad {what} id {text:?}; an id is 1 to 64 of a-z, 0-9 and '-', as listings show it")]
pub struct IdError {
    what: &'static str,
    text: String,
}

/// Spells 80 random bits as 16 characters without look-alikes.
fn spell(random: [u8; 10]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bits = random
        .iter()
        .fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let digit = |place: u32| char::from(ALPHABET[(bits >> (5 * place) & 31) as usize]);
    (0..16).rev().map(digit).collect()
}

/// Puts a time into the first 30 bits, in steps of four seconds, which last for 136 years.
fn begin_with(now: Timestamp, mut random: [u8; 10]) -> [u8; 10] {
    let steps = (now.as_millis() / 4000).cast_unsigned() & ((1 << 30) - 1);
    let bits = steps << 34 | u64::from(random[3] & 3) << 32;
    random[..4].copy_from_slice(&bits.to_be_bytes()[..4]);
    random
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks a text and makes it an id.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
                if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
                    return Ok(Self(text.to_owned()));
                }
                let text = text.chars().take(80).collect();
                Err(IdError { what: $what, text })
            }

            /// Makes an id of 80 random bits.
            pub fn from_random(random: [u8; 10]) -> Self {
                Self(spell(random))
            }

            /// Makes an id of a time and 50 random bits. Ids made one after the other are close
            /// together in an index.
            pub fn new_at(now: Timestamp, random: [u8; 10]) -> Self {
                Self(spell(begin_with(now, random)))
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        text_conversions!($name, IdError);
    };
}

id!(
    /// The id of a lease.
    LeaseId,
    "lease"
);
id!(
    /// The id of a session, which is one unit of work of an owner.
    SessionId,
    "session"
);

/// A caller's own name for a request, so that a repeated call is not a second request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct IdempotenceKey(String);

/// The text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad key {text:?}; a key is 1 to 200 bytes of printable text")]
pub struct KeyError {
    text: String,
}

impl IdempotenceKey {
    /// The longest key, in bytes.
    pub const BYTES_MAX: usize = 200;

    /// Checks a text and makes it a key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len());
        if fits && !text.chars().any(char::is_control) {
            return Ok(Self(text.to_owned()));
        }
        let text = text.chars().take(80).collect();
        Err(KeyError { text })
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

text_conversions!(IdempotenceKey, KeyError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bits_are_spelled_without_loss() {
        assert_eq!(LeaseId::from_random([0; 10]).as_str(), "0000000000000000");
        assert_eq!(LeaseId::from_random([255; 10]).as_str(), "zzzzzzzzzzzzzzzz");
        let mut one = [0; 10];
        one[9] = 1;
        assert_eq!(LeaseId::from_random(one).as_str(), "0000000000000001");
    }

    #[test]
    fn ids_of_a_later_time_are_greater_and_those_of_one_time_differ() {
        let at = |seconds: i64, random| {
            LeaseId::new_at(Timestamp::from_millis(seconds * 1000), [random; 10])
        };
        let early = at(1_794_000_000, 255);
        assert!(early < at(1_794_000_008, 0));
        assert_ne!(early, at(1_794_000_000, 254));
        assert_eq!(early.as_str().len(), 16);
        assert_eq!(early.as_str()[..6], at(1_794_000_000, 0).as_str()[..6]);
    }

    #[test]
    fn odd_ids_are_refused() {
        for text in ["", "A", "a b", "a/b", "é", &"x".repeat(65)] {
            assert!(SessionId::parse(text).is_err(), "{text:?}");
        }
    }
}
