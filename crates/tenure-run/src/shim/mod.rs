//! A command of a job: started for a worker, and supervised by a process that may outlive it.
//!
//! | module | what it holds |
//! |---|---|
//! | `attempt` | [`Attempt`], all that a shim is told of the command |
//! | `spawner` | [`Spawner`], the process that forks the shims |
//! | `handle` | [`Shim`], a shim as its worker sees it |
//! | `supervise` | the shim itself, from the attempt to its status |
//! | `command` | starts the command: its directory, its limits, what it inherits |
//! | `stopping` | when the command gets SIGTERM and SIGKILL: one pure function, a table |
//! | `descendants` | the end of all that the command has started |
//! | `output` | what the command prints: files of a bounded size |
//! | `status` | [`Status`], the end of an attempt, and the file that it is kept in |
//! | `lines`, `wait` | messages of JSON on a socket, one a line; the wait for them and for children |
//!
//! # Processes
//!
//! ```text
//! worker ─┬─ spawner ─┬─ shim ─── command ─── whatever it starts
//!         │  (one)    └─ shim ─── command
//!         └─ any threads
//! ```
//!
//! The spawner is a copy of the worker from before it had threads or anything open, and it never
//! has a second thread. So a shim, and its command, inherit what they are given and nothing else,
//! whatever the worker opens meanwhile. Spawner and shims are in sessions of their own and block
//! all signals: keys, a closed terminal and a SIGTERM to all of a service do not reach them.
//!
//! The session's descriptor is what keeps the lease of the attempt. The shim has it until its end,
//! and the command and all that it starts inherit it. On PostgreSQL there is none; the deadline
//! stands for it.
//!
//! # One attempt, step by step
//!
//! | step | who | dies here |
//! |---|---|---|
//! | 1. Sends the session's descriptors and one end of a new pair of sockets, the control | worker | nothing has begun |
//! | 2. Forks the shim, which has these and nothing else; keeps a copy of the control | spawner | worker: the control ends, or 1 fails |
//! | 3. Writes the attempt to the control, all of it | worker | shim: an attempt that is not whole is not begun |
//! | 4. Makes the status file, blank and as large as it will ever be | shim | as 6; a full disk is met here, before the command |
//! | 5. Becomes a subreaper, and starts the command | shim | the kernel kills the command; see 6 |
//! | 6. Supervises: output, limits, deadline, the control | shim | the kernel kills the command, the spawner all else; only then does the control end: [`Shim::ended`] is None |
//! | | worker | the control ends: see [`Lifetime`] |
//! | 7. The command has ended: kills all that it left, until no child is left | shim | as 6 |
//! | 8. Writes the status file | shim | as 6 before the one write, as 9 after it |
//! | 9. Sends the status over the control | shim | the worker sees no status; the file has it |
//! | 10. Ends, which closes the session's descriptor | shim | |
//!
//! Whoever takes the lease after the kernel has freed it comes after 10, or after the death of the
//! shim and of all that had inherited the descriptor. So [`read_status`] tells the truth then: a
//! status, or an attempt that was lost.
//!
//! Nothing is synced. After a power loss nothing of the attempt runs; if its status has reached the
//! disk, that is its end, and else the attempt was lost. The file is for a worker that died while
//! the machine did not, and a sync for it would be a third durable write for each job.
//!
//! # Races
//!
//! - **A worker that gives up.** Dropped before 3 is done, the attempt is not begun. After that it
//!   may have begun at any moment, and nothing but a status or the end of the control tells: so
//!   there is no time limit for an answer, and no answer but the status.
//! - **Shim killed, worker alive.** The kernel kills the command alone; what that has started
//!   becomes children of the spawner, which is a subreaper, too, and kills them. The worker sees
//!   the end of the control after that, since the spawner has a copy until then. So a lease that is
//!   released, or an attempt that is begun again, meets nothing that still runs.
//! - **All killed at once, by name.** The kernel kills the command. What that has started goes on
//!   for as long as it likes, and has the descriptor: the lease is held, and no second attempt
//!   begins. It gets an error when it prints.
//! - **Deadline and renewal.** A deadline is moved by a message. If it is over before the message
//!   is read, the command is killed, however soon after that the message comes.
//! - **A number that is used again.** The shim reaps the command last, after all others, so its
//!   number and that of its group are its own until then. All others are killed as children that
//!   are not reaped.
//! - **A process that forks faster than it is killed.** A signal to a group reaches all of it, and
//!   a fork that it interrupts does not take place. Outside of the command's group only children
//!   are killed, one by one; the time for that is bounded, and what is left is told.
//! - **A sleep of the machine.** All stood still. The worker may find that its lease is good, so it
//!   has two seconds for that before the deadline counts.
//!
//! # Limitations
//!
//! - A shim that is stopped ends nothing, and its command may go on beyond the deadline.
//! - What has become another user's (`sudo`) cannot be killed. After 2 s the status says that
//!   something still runs.
//! - Limits of memory and CPU time are those of the kernel: each process has them for itself. The
//!   memory is `RLIMIT_DATA`, what a process can write to and shares with none: `RLIMIT_AS` would
//!   end what only reserves addresses, as Go, Java and node do. A command that is refused memory
//!   ends as it likes, and the status cannot tell why; nor can it for one that handles the signal
//!   of its CPU time, and is killed 5 s of it later.
//! - The shim writes the output itself, so a disk that stands still is as a shim that is stopped.
//! - On a file system that copies what it overwrites (btrfs, ZFS) a disk that has become full
//!   since 4 can lose the status file. The worker is told in 9 all the same.
//! - Paths and words are UTF-8.

mod attempt;
mod command;
mod descendants;
mod handle;
mod lines;
mod output;
mod spawner;
mod status;
mod stopping;
mod supervise;
mod wait;

pub use attempt::{Attempt, Lifetime, Limits};
pub use handle::Shim;
pub use output::Output;
pub use spawner::Spawner;
pub use status::{End, NotStarted, Status, Stopped, Used, read_status};
