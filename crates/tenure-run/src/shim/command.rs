//! Starts the command.

use std::env::set_current_dir;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use tenure_os::platform::{before_exec, die_with_parent, set_of, with_blocked_signals};

use super::attempt::{Attempt, Limits};
use super::status::{End, NotStarted, short};
use crate::held::GRACE;

/// Starts the command in a process group of its own, whose number is its own. It inherits the
/// descriptors of the session, prints to a pipe, and dies with the thread that calls this.
pub fn start(attempt: &Attempt, printed: PipeWriter) -> Result<Pid, End> {
    let [program, arguments @ ..] = &attempt.command[..] else {
        return Err(End::NotStarted(
            NotStarted::NotFound,
            "there is no command".into(),
        ));
    };
    let cannot_run = |why, error| refused(why, format!("cannot run {program}: {error}"));
    let errors = printed.try_clone();
    let errors = errors.map_err(|error| cannot_run(NotStarted::Shim, error))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null());
    command.stdout(printed).stderr(errors);
    for (name, value) in &attempt.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    die_with_parent(&mut command);
    // The shim has them all blocked.
    with_blocked_signals(&mut command, set_of([]));
    limit(&mut command, attempt.limits);
    // The error of the start does not tell a missing directory from a missing program.
    set_current_dir(&attempt.directory).map_err(|error| {
        let directory = attempt.directory.display();
        refused(
            NotStarted::Directory,
            format!("cannot enter {directory}: {error}"),
        )
    })?;
    let started = command.spawn();
    // A directory is not kept in use by the shim.
    let _ = set_current_dir("/");
    let child = started.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => cannot_run(NotStarted::NotFound, error),
        _ => cannot_run(NotStarted::NotExecutable, error),
    })?;
    Ok(Pid::from_child(&child))
}

fn refused(why: NotStarted, reason: String) -> End {
    End::NotStarted(why, short(reason))
}

/// Limits the command and each process that it starts.
fn limit(command: &mut Command, limits: Limits) {
    let cpu = limits.cpu_seconds;
    let set = move || {
        lower(Resource::Core, Some(0), Some(0))?;
        lower(Resource::Data, limits.memory_bytes, limits.memory_bytes)?;
        // The signal of the first can be handled, the second kills.
        lower(
            Resource::Cpu,
            cpu,
            cpu.map(|cpu| cpu.saturating_add(GRACE.as_secs())),
        )
    };
    // SAFETY: only system calls are made.
    unsafe { before_exec(command, set) };
}

/// Lowers a limit of this process. One that is lower stays.
fn lower(resource: Resource, current: Option<u64>, maximum: Option<u64>) -> io::Result<()> {
    let lower = |now: Option<u64>, new: Option<u64>| now.into_iter().chain(new).min();
    let now = getrlimit(resource);
    let new = Rlimit {
        current: lower(now.current, current),
        maximum: lower(now.maximum, maximum),
    };
    Ok(setrlimit(resource, new)?)
}
