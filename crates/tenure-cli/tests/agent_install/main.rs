//! `tenure agent install` and `uninstall`: the files they change, and the files they leave.
//!
//! | module | what it holds |
//! |---|---|
//! | `commands` | install and uninstall for every program, from nothing to nothing |
//! | `kept` | files that exist already, are broken, are links, or belong to others |
//! | `place` | worktrees, `tenure.toml`, and directories without git |
//! | `really_run` | the findings of doctor about hooks that do not run |
//! | `project` | a git repository and its files |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod commands;
mod kept;
mod place;
mod project;
mod really_run;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
