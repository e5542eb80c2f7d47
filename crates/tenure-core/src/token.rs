//! Fencing tokens: numbers that tell a lock's newest holder from earlier ones.
//!
//! # Invariants
//!
//! - Only an exclusive grant draws a token. It is higher than all tokens drawn for the resource
//!   before.
//! - A token is below 2^53, so that every JSON reader sees it exactly.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Resource};

/// A fencing token of a resource.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "u64", try_from = "u64")]
pub struct Token(u64);

/// The number is too large for a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad token {0}: a token is a whole number below 2^53")]
pub struct TokenError(String);

impl Token {
    /// The largest token: 2^53 - 1.
    pub const MAX: Token = Token((1 << 53) - 1);
    /// The token before the first exclusive grant.
    pub const NONE: Token = Token(0);

    /// Checks a number and makes it a token.
    pub fn new(number: u64) -> Result<Self, TokenError> {
        if number <= Self::MAX.0 {
            Ok(Self(number))
        } else {
            Err(TokenError(number.to_string()))
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next token to draw: above this one and not below `floor`. Returns `None` if the
    /// numbers are used up, which takes 285,000 years at one a millisecond.
    pub fn next(self, floor: u64) -> Option<Token> {
        // A floor beyond the range comes from a broken clock and is ignored.
        let floor = if floor < Self::MAX.0 / 2 { floor } else { 0 };
        let next = self.0.checked_add(1)?.max(floor);
        Self::new(next).ok()
    }
}

/// Returns the error for a token that is not the newest of its resource.
pub fn fenced(resource: &Resource, token: Token, newest: Token, store: &str) -> Error {
    let (problem, remedy) = match token < newest {
        true => (
            format!("token {token} of {resource} is fenced: a later grant has token {newest}"),
            "write nothing more under it; take the lock again, then repeat the work",
        ),
        false => (
            format!(
                "token {token} of {resource} was never granted in {store}: the newest is {newest}"
            ),
            "write nothing under it; use the token of a lock that was taken in this store",
        ),
    };
    Error::not_allowed(problem, remedy)
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        token.0
    }
}

impl TryFrom<u64> for Token {
    type Error = TokenError;
    fn try_from(number: u64) -> Result<Self, TokenError> {
        Self::new(number)
    }
}

impl FromStr for Token {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let number = text.parse().map_err(|_| TokenError(text.into()))?;
        Self::new(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_token_is_higher_whatever_the_floor() {
        let five = Token::new(5).unwrap();
        assert_eq!(five.next(0).unwrap().get(), 6);
        assert_eq!(five.next(100).unwrap().get(), 100);
        assert_eq!(five.next(u64::MAX).unwrap().get(), 6);
    }

    #[test]
    fn tokens_stay_below_two_to_the_53() {
        assert!(Token::new(1 << 53).is_err());
        assert_eq!(Token::MAX.next(0), None);
        assert!("9007199254740992".parse::<Token>().is_err());
        assert!("-1".parse::<Token>().is_err());
    }
}
