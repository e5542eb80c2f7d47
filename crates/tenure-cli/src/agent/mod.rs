//! The claims of an agent, remembered for its hooks.

mod claimed;

pub use claimed::{forget, remember};
