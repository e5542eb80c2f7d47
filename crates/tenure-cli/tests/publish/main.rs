//! `tenure publish`, on SQLite and PostgreSQL: its promises, and its hard cases.
//!
//! | module | what it holds |
//! |---|---|
//! | `campaign` | publishes, kills and stops at random, readers, and a checker |
//! | `commands` | what is published, verified, shown and refused |
//! | `killed_at` | SIGKILL at every system call, and recovery after each |
//! | `left_over` | what crashes left over, and that the audit and `recover` tell of it |
//! | `machines` | manifests of other machines, which are left to them |
//! | `modes` | directories that an ordinary user may not write; devices |
//! | `mounts` | targets that something is mounted on, or in |
//! | `overtaken` | publishers that are stopped at a step while another takes over, or waits |
//! | `strangers` | programs that take no lock, and change what is published meanwhile |
//! | `trouble` | other devices, changed sources, full disks, databases that are gone |
//! | `watched` | a line for who watches, and a signal that ends it |
//! | `site` | a directory to publish, and what is in place |

// All of it is test code, helpers included.
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
