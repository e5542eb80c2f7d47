//! Agents, locks, slots and issues, on one page.

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

/// The agents, the locks, the slots and the board.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StatusPage {
    /// The agents that are at work.
    pub agents: Vec<Listed>,
    /// The leases that are held, and the waiters.
    #[serde(flatten)]
    pub listing: Listing,
    /// The slots of which places are taken or waited for.
    pub slots: Vec<SlotUse>,
    /// The numbers of issues on the board; null if there is no board.
    pub board: Option<IssueCounts>,
}

/// The use of a slot.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SlotUse {
    /// The name of the slot.
    pub slot: String,
    /// The number of places that are taken.
    pub held: usize,
    /// The number of callers that wait for a place.
    pub waiting: usize,
}

/// The numbers of issues on a board.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct IssueCounts {
    /// The issues that are not done: ready, claimed or blocked.
    pub open: usize,
    /// The open issues that can be claimed now.
    pub ready: usize,
    /// The open issues that an owner has claimed.
    pub claimed: usize,
    /// The open issues that wait for another issue or for a gate.
    pub blocked: usize,
    /// The issues that are done.
    pub done: usize,
}
