//! The report of a wait to people. On a terminal: the holder, once, and below it one live line.
//! Elsewhere: sparse lines that say both.

mod interruption;
mod screen;
mod words;

pub use interruption::Interruption;
pub use screen::Screen;
