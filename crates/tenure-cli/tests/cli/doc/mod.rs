//! `tenure doc`.

mod clean;
mod commands;
mod node;
mod read;
mod several;
mod tokens;
mod update;
mod waiting;
mod write;
