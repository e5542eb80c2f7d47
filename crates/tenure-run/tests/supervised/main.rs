//! Commands that run under something held, with real processes.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `run` | starts that fail, losses, releases that never end |
//! | `renewal` | renewals in time, too late, or not at all |
//! | `call` | commands that read nothing, print much, take too long, leave others behind |
//! | `shim` | commands of jobs, whose worker, spawner or shim is killed |

#![allow(clippy::unwrap_used)]

mod call;
mod renewal;
mod run;
mod shim;
