//! The hard cases of documents, through the command: writers killed and paused, Node programs,
//! full and read-only disks, and files that are no documents.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `killed`, `killed_at` | SIGKILL at random instants, and at every system call that changes something |
//! | `live_writer`, `together` | a writer in the middle of its write; many documents at once |
//! | `foreign_edit` | a commit over several files that crashed, and a file edited since |
//! | `renamed_over` | editors that rename their file over a document, or write into it, while it is updated |
//! | `node`, `node_paused` | programs with the real `proper-lockfile` |
//! | `odd` | large, empty, broken and deep documents, and files of other kinds |
//! | `rights`, `full_disk` | disks that cannot be written |
//! | `links`, `creating`, `expect`, `follow` | several names, several creators, several versions |
//! | `fencing` | tokens, named and inherited |
//! | `lock_log` | the lines of the lock log |
//! | `seed` | the seven examples of seed 3 |

// The whole crate is test code, helpers included.
#![allow(clippy::unwrap_used)]

mod creating;
mod expect;
mod fencing;
mod follow;
mod foreign_edit;
mod full_disk;
#[path = "../cli/holder.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod holder;
mod killed;
mod killed_at;
mod links;
mod live_writer;
mod lock_log;
mod node;
mod node_paused;
mod odd;
#[path = "../../../tenure-lockfile/tests/lockfile/process.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod process;
mod renamed_over;
mod rights;
mod roles;
mod seed;
mod site;
#[path = "../../../tenure-lockfile/tests/lockfile/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of kernel locks")]
mod stage;
mod together;
#[path = "../cli/world.rs"]
#[allow(dead_code, reason = "shared with the other tests of the command")]
mod world;
