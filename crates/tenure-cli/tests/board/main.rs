//! The hard cases of the board, through the command and the library, with real processes.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `first` | the first commands of a board, which make it |
//! | `git` | a board under version control that git takes back |
//! | `waiting` | the files that `next` opens, and the issues that it passes over |
//! | `crowd` | many threads and processes that create, change, read and list |
//! | `agents` | many agents that race for the next issue |
//! | `properties` | dependencies, index and saves under random work of several processes |
//! | `campaign` | random operations of several processes under kills and stops |
//! | `killed_at` | SIGKILL at every system call of each operation |
//! | `power` | the board after a loss of power |
//! | `claims` | claims that are over, late writers, clocks that are wrong |
//! | `locked` | locks held by `flock` and Python for longer than the wait |
//! | `by_hand` | files edited, deleted and merged by hand; boards of another program |
//! | `running` | `board run`: done, failed, killed, lost |
//! | `commands` | the output of each command |
//! | `place` | a board that is checked when the test ends |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod agents;
mod by_hand;
mod campaign;
mod claims;
mod commands;
mod crowd;
mod first;
mod git;
mod killed_at;
mod locked;
mod odd_files;
mod place;
mod power;
#[path = "../../../tenure-lockfile/tests/lockfile/process.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod process;
mod properties;
mod roles;
mod running;
#[path = "../documents/site.rs"]
#[allow(dead_code, reason = "shared with the tests of documents")]
mod site;
#[path = "../../../tenure-lockfile/tests/lockfile/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod stage;
#[path = "../cli/strace.rs"]
#[allow(dead_code, reason = "shared with the tests of the ledger")]
mod strace;
#[path = "../cli/terminal.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod terminal;
mod waiting;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
