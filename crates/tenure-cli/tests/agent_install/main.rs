//! `tenure agent install` and `uninstall`: what they change, and what they leave.
//!
//! | module | what it holds |
//! |---|---|
//! | `commands` | every program, from nothing to nothing |
//! | `kept` | files that are there, broken, linked, or of others |
//! | `place` | worktrees, `tenure.toml`, and directories without git |
//! | `really_run` | what doctor says of hooks that do not run |
//! | `project` | a git repository and its files |

// All of it is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod commands;
mod kept;
mod place;
mod project;
mod really_run;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
