//! A fault of a ledger or a board.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::Remedy;

/// One thing that is wrong with a ledger or a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The name of the file in the directory.
    pub file: String,
    /// The problem.
    pub problem: String,
    /// The action of a repair, or the remedy instead.
    pub repair: Remedy,
    /// True if it was repaired.
    #[serde(skip)]
    pub repaired: bool,
}
