//! Lock files from the outside, with real processes.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `locker` | the locker, as its users know it |
//! | `crash` | holders and waiters that are killed, stopped, or panic |
//! | `crowd` | hundreds of threads in ten processes |
//! | `fairness` | streams of readers and writers |
//! | `upgrade` | upgradeable locks |
//! | `cancel` | waits that are cancelled |
//! | `timeout` | waits that end in the instant of the grant |
//! | `task` | the store as tasks use it, and futures that are dropped |
//! | `store` | names, pages, and leases of the store |
//! | `look` | looking at locks, and the records of their holders |
//! | `garbage` | lock files full of nonsense |
//! | `tokens` | numbers that never go back |
//! | `trouble` | file systems that refuse |
//! | `paths` | the path of a lock file: links, replaced files, spellings, modes |
//! | `fork` | children that share open files, and programs that must not |
//! | `line` | the number of waits in the kernel that a process makes |
//! | `neighbours` | other programs that use `flock` |
//!
//! The other processes of a test are this binary again, in a role of `roles`; see `process`. A test
//! that needs something of the machine (root, faketime, flock, python3) fails and asks for it when
//! it is missing; nothing is skipped.

#![allow(
    clippy::unwrap_used,
    reason = "a test says by panicking what went wrong"
)]

mod cancel;
mod crash;
mod crowd;
mod fairness;
mod fork;
mod garbage;
mod line;
mod locker;
mod look;
mod neighbours;
mod paths;
mod process;
mod roles;
#[allow(dead_code, reason = "shared with the tests of documents")]
mod stage;
mod store;
mod task;
mod timeout;
mod tokens;
mod trouble;
mod upgrade;
