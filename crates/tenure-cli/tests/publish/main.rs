//! `tenure publish`, on SQLite and PostgreSQL: its promises, and its hard cases.
//!
//! | module | what it holds |
//! |---|---|
//! | `campaign` | publishes, kills and stops at random, readers, and a checker |
//! | `commands` | the output of publish, verify and history, and their refusals |
//! | `killed_at` | SIGKILL at every system call, and recovery after each |
//! | `left_over` | leftovers of crashes, and that the audit and `recover` tell of them |
//! | `machines` | manifests of other machines, each of which is left to its own |
//! | `modes` | directories that an ordinary user may not write; devices |
//! | `mounts` | targets that something is mounted on, or in |
//! | `overtaken` | publishers that are stopped at a step while another takes over, or waits |
//! | `strangers` | programs that take no lock, and change the target meanwhile |
//! | `trouble` | other devices, changed sources, full disks, databases that are gone |
//! | `watched` | the line that a person sees, and a signal that ends the copy |
//! | `site` | a directory to publish, and the directory in place |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod campaign;
mod commands;
mod killed_at;
mod left_over;
mod machines;
mod modes;
mod mounts;
mod overtaken;
mod site;
mod stopped;
mod strangers;
#[path = "../cli/terminal.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod terminal;
mod trouble;
mod watched;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
