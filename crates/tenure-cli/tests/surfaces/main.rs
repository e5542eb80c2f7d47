//! Surfaces: the command and a program that speaks JSON over a pipe call one set of operations, and
//! the answers of both have the form that their schemas say.

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod checks;
mod pipe;
mod schemas;
mod words;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the tests of the command")]
mod world;
