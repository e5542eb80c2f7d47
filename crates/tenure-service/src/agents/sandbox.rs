//! The sandboxes of coding agents: the directories that they must let us write, and how a person
//! allows them.
//!
//! Most programs run hooks outside of the sandbox of their commands, so a directory that a hook can
//! write may be closed to a command. A hook reports a directory only if it cannot write there
//! itself; a command that is refused reports it by its error.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tenure::store_choice::{self, Environment};
use tenure::{Error, Remedy, Result};
use tenure_api::agents::Program;
use tenure_work::agents::identity;
use tenure_work::agents::install::ProgramSettings;

/// Returns the remedy for an error about a directory of the user in which this process may not
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

/// Returns the steps by which a person lets the commands of a program write in a directory.
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

/// Returns true if a file can be made in a directory, or in the nearest one above it that exists.
/// It tries with a file without a name, which leaves nothing: rights and mounts do not show what a
/// sandbox refuses.
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
