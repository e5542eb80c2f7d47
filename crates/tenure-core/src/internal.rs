//! What the crates of Tenure share with each other, and programs do not use. It may change with any
//! version.

pub use crate::or_cannot::OrCannot;
