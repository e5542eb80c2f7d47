//! The remedy for each error.

use std::io;
use std::path::Path;

use super::{Error, LockContext, Remedy};
use crate::Lease;
use crate::circles::Circle;

impl Error {
    /// Returns the next step for the caller, in one sentence.
    pub fn remedy(&self) -> Remedy {
        match self {
            Error::Busy { context, holders } => {
                Remedy::from("wait for it with {.wait}, or ").then(look(context, holders))
            }
            Error::Timeout {
                context, holders, ..
            } => Remedy::from("wait longer with {.wait}, or ").then(look(context, holders)),
            Error::TooWeak { context, .. } => {
                let LockContext { resource, mode, .. } = &**context;
                format!("start the outer run with {resource}={mode}").into()
            }
            Error::Reentry { .. } => Remedy::from("use the lease already held ({.reuse})"),
            Error::Order { asked, held } => {
                format!("take both in one set, or {asked} first and {held} after it").into()
            }
            Error::Deadlock { circle, .. } => end(circle).into(),
            Error::RecordChanged { .. } => {
                "read it again, and repeat the change on what is there now".into()
            }
            Error::HalfWay { .. } => "do not repeat it: look first at what is there now".into(),
            Error::LeaseOver { .. } => "take the lock again, then repeat the work".into(),
            Error::Lost { .. } => "check the work done since, then take the lock again".into(),
            Error::BadInput(_) => Remedy::from("correct it and try again; {$help} shows examples"),
            Error::Corrupt { .. } => Remedy::doctor(),
            Error::NotFound(_) => Remedy::from("look at what there is with: {ls}"),
            Error::UnknownResource { .. } => Remedy::from(
                "name the lock as it was taken, and the store it was taken in ({.store})",
            ),
            Error::Configuration { remedy, .. }
            | Error::NotAllowed { remedy, .. }
            | Error::Conflict { remedy, .. } => remedy.clone(),
            Error::TooMany { .. } => Remedy::from("wait until some of them end; {ls} shows them"),
            Error::Io { path, source, .. } => remedy_for_io(path, source),
            Error::Unreachable { .. } => Remedy::from(
                "see that the server runs and can be reached from here, then: {doctor}",
            ),
            Error::Exhausted { .. } => {
                "hold fewer locks at once, or allow more connections in the settings".into()
            }
            Error::TooManyRetries { last, .. } => last.remedy(),
            Error::Interrupted { .. } => "start it again when it suits".into(),
            Error::Of(fault) => fault.remedy(),
            Error::Internal(_) => "please report it, with this message".into(),
        }
    }
}

impl Remedy {
    /// Returns the advice to examine everything.
    fn doctor() -> Self {
        Remedy::from("run: {doctor}")
    }
}

/// Returns the step by which the owner that closed a circle ends it.
fn end(circle: &Circle) -> String {
    let asked = circle.links.first().map(|link| &link.waiter.owner);
    let own = asked.map(|owner| circle.leases_of(owner));
    let own: Vec<&str> = own.iter().flatten().map(|lease| lease.as_str()).collect();
    if own.is_empty() {
        return "release what you hold of it, then ask again".into();
    }
    let own = own.join(", ");
    format!("release {own}, then ask again for all of it in one set")
}

fn remedy_for_io(path: &Path, source: &io::Error) -> Remedy {
    let refused = matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    );
    let usual = match source.kind() {
        _ if refused => Remedy::from(
            "give this user write access to it, or choose another place, the same one for all who \
             share these locks, with {$store}=sqlite:PATH",
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some disk space".into(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Remedy::from("create the directory above it, or choose another place with {.store}")
        }
        _ => Remedy::doctor(),
    };
    if !refused || path.components().all(|part| part.as_os_str() != ".git") {
        return usual;
    }
    let sandboxed = "if this is the sandbox of a coding agent, set store = \"user:\" in \
                     tenure.toml for all who share these locks ({agent.apply} does); else ";
    Remedy::from(sandboxed).then(usual)
}

/// Returns the step that shows the holder. A lock on a path of its own is in no store that `ls`
/// could show.
fn look(context: &LockContext, holders: &[Lease]) -> Remedy {
    if context.is_nodes() {
        return "end the program that holds it; 10s after a program died its lock is taken over"
            .into();
    }
    if context.location.starts_with("advisory lock") {
        return "look with: {advisory.ls}".into();
    }
    match (context.without_record(), holders) {
        (Some(see), []) => format!("look with: {see}").into(),
        (_, [holder, ..]) if context.store == "file:" => {
            format!("look what it does with: ps -fp {}", holder.pid).into()
        }
        _ => "look with: {ls}".into(),
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
        let said = error.remedy().to_string();
        assert!(said.ends_with("look with: fuser /s/locks/x.lock"));
        let elsewhere = timeout(context("memory:", "name:x"));
        assert!(elsewhere.to_string().ends_with("within 300ms; held"));
        let said = elsewhere.remedy().to_string();
        assert!(said.ends_with("look with: ls"), "{said}");
    }

    #[test]
    fn a_holder_that_speaks_proper_lockfile_is_called_so() {
        let error = timeout(context("node:", "/d/a.json.lock"));
        assert_eq!(
            error.to_string(),
            "name:x (write) at /d/a.json.lock was not free within 300ms; \
             held by a program that speaks proper-lockfile"
        );
        let said = error.remedy().to_string();
        assert!(said.contains("10s after a program died"), "{said}");
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
        assert_eq!(
            error.remedy(),
            "start the outer run with name:x=write".into()
        );
    }
}
