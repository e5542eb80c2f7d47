//! The remedy for each error.

use std::io;
use std::path::Path;

use super::{Error, LockContext};
use crate::Lease;
use crate::request::quoted;

impl Error {
    /// Returns what to do next, in one sentence.
    pub fn remedy(&self) -> String {
        match self {
            Error::Busy { context, holders } => {
                format!("wait for it with --wait, or {}", look(context, holders))
            }
            Error::Timeout {
                context, holders, ..
            } => {
                format!("wait longer with --wait, or {}", look(context, holders))
            }
            Error::TooWeak { context, .. } => {
                format!(
                    "start the outer run with {}={}",
                    context.resource, context.mode
                )
            }
            Error::Reentry { .. } => "use the lease already held (tenure run --reuse)".into(),
            Error::Order { asked, held } => {
                format!("take both in one set, or {asked} first and {held} after it")
            }
            Error::Deadlock { circle, .. } => {
                let asked = circle.links.first().map(|link| &link.waiter.owner);
                let own = asked.map(|owner| circle.leases_of(owner));
                let own = own
                    .unwrap_or_default()
                    .iter()
                    .map(|lease| lease.as_str())
                    .collect::<Vec<_>>();
                match own.is_empty() {
                    true => "release what you hold of it, then ask again".into(),
                    false => format!(
                        "release {}, then ask again for all of it in one set",
                        own.join(", ")
                    ),
                }
            }
            Error::Conflict { .. } => "look at its state with: tenure ls".into(),
            Error::OtherVersion { .. } | Error::RecordChanged { .. } => {
                "read it again, and repeat the change on what is there now".into()
            }
            Error::SequenceMismatch { .. } => {
                "read what was added, decide anew, and append with its sequence".into()
            }
            Error::OutcomeUnknown { path, sequence, .. } => format!(
                "look before you repeat it: tenure ledger show {} {sequence}",
                quoted(&path.to_string_lossy())
            ),
            Error::Claimed { resource, .. } => format!(
                "wait until it is released or over, or work on another {}",
                resource.kind()
            ),
            Error::Unready { .. } => {
                "wait for it with --wait, or look with: tenure board ls".into()
            }
            Error::ForeignLock { .. } => {
                "wait longer with --wait; if its maker is gone, it is removed by: tenure ledger \
                 verify DIR --repair --yes"
                    .into()
            }
            Error::HalfWay { .. } => "do not repeat it: look first at what is there now".into(),
            Error::OtherFence { .. } => {
                "if it is to be guarded by this lock from now on, add --rebind".into()
            }
            Error::LeaseOver { .. } => "take the lock again, then repeat the work".into(),
            Error::Fenced { last, .. } => format!(
                "take the lock again, then repeat the work; if the store never granted token \
                 {last}, add --rebind"
            ),
            Error::Lost { .. } => "check the work done since, then take the lock again".into(),
            Error::BadInput(_) => "correct it and try again; --help shows examples".into(),
            Error::Corrupt { .. } => "run: tenure doctor".into(),
            Error::Stuck { remedy, .. } => {
                format!("{remedy}; or remove the journal, to keep all documents as they are")
            }
            Error::NotFound(_) => "look at what there is with: tenure ls".into(),
            Error::UnknownResource { .. } => {
                "name the lock as it was taken, and the store it was taken in (--store)".into()
            }
            Error::Configuration { remedy, .. }
            | Error::NotAllowed { remedy, .. }
            | Error::Contradiction { remedy, .. } => remedy.clone(),
            Error::TooMany { .. } => "wait until some of them end; tenure ls shows them".into(),
            Error::Io { path, source, .. } => remedy_for_io(path, source),
            Error::Unreachable { .. } => {
                "see that the server runs and can be reached from here, then: tenure doctor".into()
            }
            Error::Exhausted { .. } => {
                "hold fewer locks at once, or allow more connections in the settings".into()
            }
            Error::TooManyRetries { last, .. } => last.remedy(),
            Error::Interrupted { .. } => "start it again when it suits".into(),
            Error::Internal(_) => "please report it, with this message".into(),
        }
    }
}

/// The additional remedy for a `.git` that cannot be written.
const SANDBOXED: &str = "if this is the sandbox of a coding agent, set store = \"user:\" in tenure.toml for all \
                         who share these locks (tenure agent install --write does); else ";

fn remedy_for_io(path: &Path, source: &io::Error) -> String {
    let usual = usual_remedy_for_io(source);
    let refused = matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    );
    let in_git = path.components().any(|part| part.as_os_str() == ".git");
    match refused && in_git {
        true => format!("{SANDBOXED}{usual}"),
        false => usual.into(),
    }
}

fn usual_remedy_for_io(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "give this user write access to it, or choose another place, the same one for all who \
             share these locks, with --store or TENURE_STORE=sqlite:PATH"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "create the directory above it, or choose another place with --store"
        }
        _ => "run: tenure doctor",
    }
}

/// Returns how to see the holder. A lock on a path of its own is in no store that `ls` could show.
fn look(context: &LockContext, holders: &[Lease]) -> String {
    if context.is_nodes() {
        return "end the program that holds it; 10s after a program died its lock is taken over"
            .into();
    }
    if context.location.starts_with("advisory lock") {
        return "look with: tenure advisory ls".into();
    }
    match (context.without_record(), holders) {
        (Some(see), []) => format!("look with: {see}"),
        (_, [holder, ..]) if context.store == "file:" => {
            format!("look what it does with: ps -fp {}", holder.pid)
        }
        _ => "look with: tenure ls".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Class, Mode, Resource};

    fn context(store: &str, location: &str) -> Box<LockContext> {
        Box::new(LockContext {
            resource: Resource::new("name", "x").unwrap(),
            mode: Mode::Write,
            store: store.into(),
            location: location.into(),
        })
    }

    fn timeout(context: Box<LockContext>) -> Error {
        Error::Timeout {
            context,
            waited: Duration::from_millis(301),
            limit: Duration::from_millis(300),
            attempts: 1,
            holders: Vec::new(),
        }
    }

    #[test]
    fn a_holder_without_a_record_is_looked_for_by_its_file() {
        let error = timeout(context("file:/s", "/s/locks/x.lock"));
        assert_eq!(
            error.to_string(),
            "name:x (write) at /s/locks/x.lock was not free within 300ms; \
             held by a program that leaves no record"
        );
        assert!(error.remedy().ends_with("look with: fuser /s/locks/x.lock"));
        let elsewhere = timeout(context("memory:", "name:x"));
        assert!(elsewhere.to_string().ends_with("within 300ms; held"));
        assert!(elsewhere.remedy().ends_with("look with: tenure ls"));
    }

    #[test]
    fn a_holder_that_speaks_proper_lockfile_is_called_so() {
        let error = timeout(context("node:", "/d/a.json.lock"));
        assert_eq!(
            error.to_string(),
            "name:x (write) at /d/a.json.lock was not free within 300ms; \
             held by a program that speaks proper-lockfile"
        );
        assert!(error.remedy().contains("10s after a program died"));
    }

    #[test]
    fn a_lease_too_weak_to_reuse_says_how_to_start_the_outer_run() {
        let error = Error::TooWeak {
            context: context("file:/s", "/s/x"),
            held: Mode::Read,
        };
        assert_eq!(error.class(), Class::Conflict);
        assert!(
            error
                .to_string()
                .starts_with("the outer run holds name:x for read")
        );
        assert_eq!(error.remedy(), "start the outer run with name:x=write");
    }
}
