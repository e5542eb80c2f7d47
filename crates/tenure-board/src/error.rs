//! Errors that only a board has, and the class of each.

use std::path::PathBuf;

use tenure_core::error::{Class, Fault, Remedy};

/// An error of a board.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// There is no board in the directory.
    #[error("there is no board in {}", path.display())]
    Missing {
        /// The directory in which a board was expected.
        path: PathBuf,
    },
    /// All that was asked for is done.
    #[error("nothing is left to do{which}")]
    NothingLeft {
        /// The issues that were asked for, and those that there are.
        which: String,
    },
    /// There are issues, but none of them can be had now.
    #[error("nothing is ready{which}")]
    Unready {
        /// The issues that were asked for, and the reason why none of them can be had.
        which: String,
    },
    /// No gate of this name is defined.
    #[error("there is no gate {gate}")]
    NoGate {
        /// The name that was asked for.
        gate: String,
    },
}

impl Fault for BoardError {
    fn class(&self) -> Class {
        match self {
            Self::Missing { .. } | Self::NothingLeft { .. } | Self::NoGate { .. } => {
                Class::NotFound
            }
            Self::Unready { .. } => Class::Busy,
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::Missing { .. } => {
                Remedy::from("make one with: {board.init}, or name another with {.board}")
            }
            Self::NothingLeft { .. } => Remedy::from("add something with: {board.add title=TITLE}"),
            Self::Unready { .. } => {
                Remedy::from("wait for it with {.wait}, or look with: {board.ls}")
            }
            Self::NoGate { gate } => {
                Remedy::of("define it with: {board.gate.define name}", &[gate])
            }
        }
    }
}
