//! The three modes and the one conflict matrix.
//!
//! | held \ asked  | read  | upgradeable | write |
//! |---|---|---|---|
//! | read          | share | share       | –     |
//! | upgradeable   | share | –           | –     |
//! | write         | –     | –           | –     |
//!
//! The matrix is symmetric, so the order of arrival does not matter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The mode in which a resource is held. Modes are ordered by strength: a stronger mode allows
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Shared with other readers and one upgradeable holder.
    Read,
    /// Shared with readers. There is one at a time, and it may become write.
    Upgradeable,
    /// Exclusive.
    Write,
}

impl Mode {
    /// All modes, weakest first.
    pub const ALL: [Mode; 3] = [Mode::Read, Mode::Upgradeable, Mode::Write];

    /// Returns true if a holder in one mode keeps out the other. This is the only conflict matrix.
    pub const fn conflicts_with(self, other: Mode) -> bool {
        !matches!(
            (self, other),
            (Mode::Read, Mode::Read | Mode::Upgradeable) | (Mode::Upgradeable, Mode::Read)
        )
    }

    /// Returns true if a grant of this mode draws a new token.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Mode::Write)
    }

    /// The word used on the command line, in JSON and in SQL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Read => "read",
            Mode::Upgradeable => "upgradeable",
            Mode::Write => "write",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad mode {0:?}; a mode is read, write or upgradeable")]
pub struct ModeError(pub String);

impl FromStr for Mode {
    type Err = ModeError;
    fn from_str(text: &str) -> Result<Self, ModeError> {
        let named = |mode: &Mode| mode.as_str() == text;
        let mode = Mode::ALL.into_iter().find(named);
        mode.ok_or_else(|| ModeError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Read, Upgradeable, Write};

    #[test]
    fn the_matrix_is_what_the_table_says() {
        let sharing = [(Read, Read), (Read, Upgradeable), (Upgradeable, Read)];
        for held in Mode::ALL {
            for asked in Mode::ALL {
                let shares = sharing.contains(&(held, asked));
                assert_eq!(held.conflicts_with(asked), !shares, "{held} {asked}");
            }
        }
    }

    #[test]
    fn the_matrix_is_symmetric() {
        for a in Mode::ALL {
            for b in Mode::ALL {
                assert_eq!(a.conflicts_with(b), b.conflicts_with(a));
            }
        }
    }

    #[test]
    fn the_strongest_mode_is_write() {
        assert!(Read < Upgradeable && Upgradeable < Write);
    }

    #[test]
    fn words_round_trip_and_others_are_refused() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert!("exclusive".parse::<Mode>().is_err());
    }
}
