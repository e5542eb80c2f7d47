//! The one runtime of a command.

use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use tenure_run::signals::unavailable;

use crate::report::Failure;

/// Runs a command to its end, on this very thread: what `run` starts is a child of it, as
/// `--close` needs it.
pub fn block_on(
    command: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    start()?.block_on(command)
}

/// Runs a command that works on files for long, while its leases are renewed on another thread.
pub fn block_on_threads<T>(
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    require_descriptors()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.map_err(unavailable)?.block_on(command)
}

/// Returns a runtime of one thread, with timers, descriptors and signals.
pub fn start() -> tenure::Result<tokio::runtime::Runtime> {
    require_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(unavailable)
}

/// Returns a runtime for work on files, which blocks this thread: another one has its timers. It
/// has no descriptors, so this thread makes the same system calls whatever the other one does.
pub fn start_beside() -> tenure::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build();
    runtime.map_err(unavailable)
}

/// The runtime panics where it finds no descriptors for itself; it needs five.
fn require_descriptors() -> tenure::Result<()> {
    let spare = [UnixStream::pair(), UnixStream::pair(), UnixStream::pair()];
    for pair in spare {
        pair.map_err(unavailable)?;
    }
    Ok(())
}
