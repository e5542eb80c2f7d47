//! The calls to the Linux kernel, and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | `files` | lock files, and which file a name means |
//! | `locks` | `flock`, and locks on single bytes |
//! | `threads` | waits in the kernel that a signal ends |
//! | `processes` | this machine, forks, whether a process is gone |
//! | `children`, `signals` | children, started and ended; signals, sent and received |

#[cfg(not(target_os = "linux"))]
compile_error!("tenure-os needs Linux: its locks rest on flock and open-file-description locks");

mod children;
mod files;
mod locks;
mod processes;
mod signals;
mod threads;

pub use children::*;
pub use files::*;
pub use locks::*;
pub use processes::*;
pub use signals::*;
pub use threads::*;
