//! Patterns for locks, as calls that programs need again and again: those of
//! [`tenure_core::patterns`], and [`edit_file()`].

mod edit_file;

pub use edit_file::edit_file;
pub use tenure_core::patterns::*;
