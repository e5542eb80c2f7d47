//! The runtimes of a command.

use std::process::ExitCode;

use tenure_run::signals::unavailable;

use crate::report::Failure;

/// Runs a command to its end, on this very thread: a process that `run` starts is a child of it, as
/// `--close` needs it.
pub fn block_on(
    command: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    // The future is boxed at once: the state of a command is large, and would be copied from call
    // to call.
    start()?.block_on(Box::pin(command))
}

/// Returns a runtime with another thread besides this one.
pub fn start_threads() -> tenure::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.map_err(unavailable)
}

/// Returns a runtime of one thread, with timers, descriptors and signals.
pub fn start() -> tenure::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(unavailable)
}

/// Returns a runtime for work on files, which blocks this thread; another thread has its timers.
/// The runtime has no descriptors, so this thread makes one sequence of system calls, whatever the
/// other thread does.
pub fn start_beside() -> tenure::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build();
    runtime.map_err(unavailable)
}
