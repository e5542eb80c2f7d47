//! Coding agents: who they are, what their hooks say, and what is kept from happening twice.
//!
//! | module | what it holds |
//! |---|---|
//! | [`identity`] | the owner that an agent asks as |
//! | `process` | the process of the agent around this one |

pub mod identity;
mod process;
