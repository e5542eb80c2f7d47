//! A command that runs under a hold: locks, a claim, or anything else that can be lost.
//!
//! | module | what it holds |
//! |---|---|
//! | `held` | [`Held`], the hold under which a command runs: when it is lost, how it is released |
//! | `supervise` | [`run()`], from the start of the command to the release |
//! | `spawn` | starts the command in a process group of its own |
//! | `ending` | when the command gets SIGTERM and SIGKILL, because something is lost |
//! | `renewal` | [`Renewal`], something held that a thread renews, and how long it is trusted |
//! | `watchdog` | [`Watchdog`], a process that ends the command while this one stands still |
//! | [`signals`] | the signals to this process |
//! | `terminal` | the terminal, which this process has or lends to the command |
//! | [`shim`] | a command of a job, under a process that may outlive the one that asked for it |
//! | `call` | [`call()`], a command that is given text and answers with text, within limits |
//!
//! # Guarantees
//!
//! - The hold is released once: after the command has ended, or could not be started.
//! - A command whose lock is lost gets SIGTERM, and SIGKILL when its grace is over. All of its
//!   process group is killed before it is reaped.
//! - Signals that ask for the end reach the whole process group of the command, and are not lost
//!   between the call of [`Signals::listen`] and the start of the command.
//! - A command that dies with this process does so however this process ends, by SIGKILL, too. A
//!   command that is called always dies with it.
//! - A command whose hold runs out by time is dead before another holder takes over, even if this
//!   process is stopped. If its watchdog is killed, the command is ended.
//!
//! # Limitations
//!
//! - The kernel kills a command when the *thread* that started it ends. So the future of [`run()`]
//!   cannot be sent to another thread, and the thread must live as long as the command. Processes
//!   that the command itself has started are not killed with it then.
//! - Dropping the future of [`run()`] does not end the command. The hold is then dropped, not
//!   released.
//! - A program that another thread starts while a command starts inherits the command's
//!   descriptors, too: one thread must start all programs.
//! - A command can leave its process group, and is no longer ended with it then.
//! - If this process and its watchdog are both stopped, no process ends the command in time.

mod call;
mod ending;
mod held;
mod renewal;
pub mod shim;
pub mod signals;
mod spawn;
mod supervise;
mod terminal;
mod watchdog;

pub use call::{CallError, CallLimits, call};
pub use held::{Distrusted, GRACE, Held, Outcome, RunsOut};
pub use renewal::{Renewal, Renewed};
pub use signals::Signals;
pub use spawn::SpawnError;
pub use supervise::{Ended, KeyboardSignal, run};
pub use watchdog::Watchdog;
