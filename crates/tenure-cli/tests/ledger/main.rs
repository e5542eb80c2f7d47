//! The hard cases of the ledger and its claims, through the command and beside other programs.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `killed_at` | SIGKILL at every system call that changes something |
//! | `crowd` | many processes that append, and that claim the same nodes |
//! | `campaign` | random operations under kills and stops |
//! | `strangers` | the script of the protocol for external tools; locks that others make |
//! | `stalled` | an appender that stands still while its lock is taken away |
//! | `claims` | one winner, late writers, release and reap at once |
//! | `clocks` | clocks and events that are wrong |
//! | `broken` | gaps, torn and foreign files, a full disk; verify and repair |
//! | `unknown` | steps that fail once an event is in place, answers that cannot be printed |
//! | `snapshot` | the claims without replaying everything |
//! | `commands` | the output of each command |
//! | `defaults` | the default wait of an append, and how often it tries the lock of a stranger |
//! | `place` | a ledger that is replayed as other programs do when the test ends |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod broken;
mod campaign;
mod claims;
mod clocks;
mod commands;
mod crowd;
mod defaults;
mod killed_at;
mod place;
#[path = "../../../tenure-lockfile/tests/lockfile/process.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod process;
mod roles;
#[path = "../documents/site.rs"]
#[allow(dead_code, reason = "shared with the tests of documents")]
mod site;
mod snapshot;
#[path = "../../../tenure-lockfile/tests/lockfile/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod stage;
mod stalled;
#[path = "../cli/strace.rs"]
mod strace;
mod strangers;
mod unknown;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
