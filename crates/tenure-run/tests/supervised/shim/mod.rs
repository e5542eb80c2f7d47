//! Commands of jobs, with real workers, spawners and shims, and real kills.
//!
//! | module | what it tries to break |
//! |---|---|
//! | `worker` | nothing: a process that is a worker, and does what it is told |
//! | `ends` | ends, output, environment, commands that cannot be run |
//! | `limits` | limits, deadlines, commands that do not want to end |
//! | `deaths` | workers, spawners and shims that are killed |

mod deaths;
mod ends;
mod limits;
mod worker;
