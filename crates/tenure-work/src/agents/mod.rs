//! Coding agents: who they are, what their hooks say, and what is kept from happening twice.
//!
//! | module | what it holds |
//! |---|---|
//! | [`identity`] | the owner that an agent asks as |

pub mod identity;
