//! A fault of a ledger or a board.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::Remedy;

/// One thing that is wrong with a ledger or a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The name of the file with the fault, below the directory.
    pub file: String,
    /// A sentence that says what is wrong with the file.
    pub problem: String,
    /// The repair that can be made, or the remedy where a program cannot make one.
    pub repair: Remedy,
    /// True if it was repaired.
    #[serde(skip)]
    pub repaired: bool,
}
