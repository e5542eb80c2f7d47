//! Parts that the crates of Tenure share and programs do not use. They may change with any version.
//!
//! | module | what it holds |
//! |---|---|
//! | [`loaded`] | the rows that a store has loaded, and the meaning of a decision for them |
//! | [`page`] | pages of a listing: cursors and the range of a query |
//! | [`written_order`] | the order that a store has written down, and a request with another one |
//! | [`OrCannot`], [`lock`], [`is_plain_name`] | errors of files, poisoned mutexes, names of files |

pub mod loaded;
mod or_cannot;
pub mod page;
mod plain_name;
mod poison;
pub mod written_order;

pub use or_cannot::OrCannot;
pub use page::Cursor;
pub use plain_name::is_plain_name;
pub use poison::lock;

pub use crate::retry::{Retry, jittered};
