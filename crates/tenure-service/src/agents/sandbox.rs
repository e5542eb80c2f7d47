//! The sandboxes of coding agents: the directory that one must let us write, and how its program is
//! told so.
//!
//! A program mostly runs its hooks outside of the sandbox of its commands. So what a hook can write
//! says nothing of what a command can: a hook tells of a directory that even it cannot write, and a
//! command that is refused tells of it by its error.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tenure::store_choice::{self, Environment};
use tenure::{Error, Remedy, Result};
use tenure_api::agents::Program;
use tenure_work::agents::identity;
use tenure_work::agents::install::ProgramSettings;

/// Returns the remedy for an error that is about a directory of the user which this process may not
/// write.
pub fn remedy(error: &Error, environment: &Environment) -> Option<Remedy> {
    let Error::Io { path, source, .. } = error else {
        return None;
    };
    let own = [
        store_choice::state_directory(environment),
        slots(environment),
    ];
    let own = own.into_iter().flatten().find(|own| path.starts_with(own));
    let directory = own.filter(|_| is_refusal(source))?;
    let program = identity::program_around(|name| environment.variable(name).map(str::to_owned));
    Some(how_to_allow(program, &directory))
}

/// Returns the directory of the slots, if this process cannot write there.
pub(super) fn slots_out_of_reach(environment: &Environment) -> Option<PathBuf> {
    let slots = slots(environment).ok()?;
    (!is_writable(&slots)).then_some(slots)
}

/// Says what a person has to do so that a program lets its commands write a directory.
pub(super) fn how_to_allow(program: Option<Program>, directory: &Path) -> Remedy {
    let shown = directory.display();
    match program {
        Some(program) => format!(
            "a person has to allow {shown} to the sandbox of {}: {}",
            program,
            program.allowing(&shown.to_string())
        )
        .into(),
        None => Remedy::of(
            "give this user write access to {}; in the sandbox of a coding agent, allow it as \
             {agent.plan} shows",
            &[&shown.to_string()],
        ),
    }
}

fn slots(environment: &Environment) -> Result<PathBuf> {
    let url = store_choice::slots(environment)?;
    let path = Path::new(url.split_once(':').map_or(&*url, |(_, path)| path));
    Ok(path.parent().unwrap_or(path).to_owned())
}

/// Returns true if a file can be made in a directory, or where it would be made. A file without a
/// name is tried, which leaves nothing: rights and mounts do not tell what a sandbox refuses.
fn is_writable(directory: &Path) -> bool {
    let there = directory.ancestors().find(|it| it.is_dir());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let tried = there.map(|there| rustix::fs::open(there, flags, Mode::RUSR | Mode::WUSR));
    !matches!(tried, Some(Err(error)) if is_refusal(&error.into()))
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}
