//! The report of a wait to people. On a terminal: the holder, once, and below it one live line.
//! Elsewhere: sparse lines that say both.

mod document;
mod files;
mod interruption;
mod screen;
mod words;

pub use document::{DocumentWait, WaitReporter};
pub use files::{FileWaits, WaitedFor};
pub use interruption::Interruption;
pub use screen::Screen;
