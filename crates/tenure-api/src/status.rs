//! Everything on one page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_core::Listing;

use crate::agents::Listed;
use crate::operation::operation;

/// Shows the agents, the locks, the slots and the board.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {}
operation!("status", Status, StatusPage);

/// Everything on one page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StatusPage {
    /// The agents that are at work.
    pub agents: Vec<Listed>,
    /// What is held, and who waits.
    #[serde(flatten)]
    pub listing: Listing,
    /// The slots that are used.
    pub slots: Vec<SlotUse>,
    /// The issues of the board; `null` if there is none.
    pub board: Option<IssueCounts>,
}

/// The use of a slot.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SlotUse {
    /// Its name.
    pub slot: String,
    /// How many places are taken.
    pub held: usize,
    /// How many wait for one.
    pub waiting: usize,
}

/// The numbers of issues on a board.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct IssueCounts {
    /// Those that are not done.
    pub open: usize,
    /// Those that may be claimed.
    pub ready: usize,
    /// Those that are claimed.
    pub claimed: usize,
    /// Those that wait for others, or for a gate.
    pub blocked: usize,
    /// Those that are done.
    pub done: usize,
}
