//! The requests to a store.

use std::ffi::OsStr;
use std::sync::Arc;

use serde_json::Value;

use crate::circles::Standing;
use crate::decide::Wait;
use crate::secret::without_secrets;
use crate::{Lease, LeaseId, Mode, Owner, Resource, SessionId, Timestamp, Token};

/// The longest purpose, in bytes.
pub const PURPOSE_BYTES_MAX: usize = 500;
/// The longest metadata, in bytes of compact JSON.
pub const METADATA_BYTES_MAX: usize = 4096;
/// The longest command line, in bytes. A longer one is cut, since it is for people.
pub const COMMAND_BYTES_MAX: usize = 1000;

/// The session that asks. It is the same for all requests of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The session that will hold the lease.
    pub session: SessionId,
    /// The owner it works for.
    pub owner: Owner,
    /// The process id of the asker.
    pub pid: u32,
    /// The name of its machine.
    pub host: String,
    /// Its command line, cut to [`COMMAND_BYTES_MAX`].
    pub command: String,
    /// The coding agent that it runs under, if one was detected.
    pub agent: Option<Owner>,
}

impl Asker {
    /// Returns the asker for the audit: the coding agent, whatever owner it names, else the owner.
    pub fn actor(&self) -> &Owner {
        self.agent.as_ref().unwrap_or(&self.owner)
    }
}

/// A request for one lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The id the lease will have.
    pub lease: LeaseId,
    /// The resource to lock.
    pub resource: Resource,
    /// The mode to lock it in.
    pub mode: Mode,
    /// The session that asks.
    pub asker: Arc<Asker>,
    /// The reason, for people.
    pub purpose: Option<String>,
    /// Data that the asker wants stored with the lease.
    pub metadata: Option<Value>,
    /// The time when the asker gives up, for people. The keeper enforces it: it drops the future.
    pub deadline: Option<Timestamp>,
    /// The wait: none, or until a deadline. The deadline is on a clock that counts sleep and cannot
    /// be set, so a store grants nothing too late to a waiter that was stopped.
    pub wait: Wait,
    /// The number of holders that the resource may have at once, for this request; `None` if the
    /// modes decide.
    pub capacity: Option<u32>,
    /// The relation to the other work of its owner, for the search of circles.
    pub standing: Arc<Standing>,
}

impl Request {
    /// Returns the lease for this request, held from `at` on by its session.
    pub fn granted(&self, token: Token, at: Timestamp) -> Lease {
        let asker = Asker::clone(&self.asker);
        let (id, resource) = (self.lease.clone(), self.resource.clone());
        let mut lease = Lease::granted(id, resource, self.mode, token, at, asker);
        lease.purpose = self.purpose.clone();
        lease.metadata = self.metadata.clone();
        lease
    }
}

/// An upgrade that may have to wait.
#[derive(Debug, Clone, PartialEq)]
pub struct UpgradeRequest {
    /// The lease to upgrade.
    pub lease: LeaseId,
    /// The session that asks, which need not be the session that took the lease.
    pub asker: Arc<Asker>,
    /// The time when the asker gives up, for people.
    pub deadline: Option<Timestamp>,
    /// The wait; see [`Request::wait`].
    pub wait: Wait,
    /// The relation to the other work of its owner, for the search of circles.
    pub standing: Arc<Standing>,
}

/// The goal of a request that waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Awaited {
    /// A new lease.
    Lease(Request),
    /// An upgrade to write of a lease of this resource.
    Upgrade(UpgradeRequest, Resource),
}

impl Awaited {
    /// Returns the id of the lease, which the waiter has, too.
    pub fn lease(&self) -> &LeaseId {
        match self {
            Awaited::Lease(request) => &request.lease,
            Awaited::Upgrade(request, _) => &request.lease,
        }
    }

    /// Returns the resource that is asked for.
    pub fn resource(&self) -> &Resource {
        match self {
            Awaited::Lease(request) => &request.resource,
            Awaited::Upgrade(_, resource) => resource,
        }
    }

    /// Returns the session that asks.
    pub fn asker(&self) -> &Arc<Asker> {
        match self {
            Awaited::Lease(request) => &request.asker,
            Awaited::Upgrade(request, _) => &request.asker,
        }
    }

    /// Returns the request for a new lease, or `None` if it is for an upgrade.
    pub fn request(&self) -> Option<&Request> {
        match self {
            Awaited::Lease(request) => Some(request),
            Awaited::Upgrade(..) => None,
        }
    }

    /// Returns the word for it in the tables of a store.
    pub fn want(&self) -> &'static str {
        match self {
            Awaited::Lease(_) => "lease",
            Awaited::Upgrade(..) => "upgrade",
        }
    }

    /// Returns its relation to the other work of its owner.
    pub fn standing(&self) -> &Standing {
        match self {
            Awaited::Lease(request) => &request.standing,
            Awaited::Upgrade(request, _) => &request.standing,
        }
    }

    /// Returns the wait of the request: none, or until a deadline.
    pub fn wait(&self) -> Wait {
        match self {
            Awaited::Lease(request) => request.wait,
            Awaited::Upgrade(request, _) => request.wait,
        }
    }

    /// Returns the time when the asker gives up, for people.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self {
            Awaited::Lease(request) => request.deadline,
            Awaited::Upgrade(request, _) => request.deadline,
        }
    }

    /// Returns the mode that is asked for.
    pub fn mode(&self) -> Mode {
        match self {
            Awaited::Lease(request) => request.mode,
            Awaited::Upgrade(..) => Mode::Write,
        }
    }
}

/// The problem with a purpose or metadata from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The purpose is too long or cannot be shown.
    #[error("bad purpose: {0}; a purpose is at most {PURPOSE_BYTES_MAX} bytes of printable text")]
    Purpose(&'static str),
    /// The metadata is too long.
    #[error(
        "metadata of {0} bytes is too long; at most {METADATA_BYTES_MAX} bytes of JSON are kept"
    )]
    Metadata(usize),
}

/// Checks the purpose and the metadata of a lease.
pub fn check_notes(purpose: Option<&str>, metadata: Option<&Value>) -> Result<(), NoteError> {
    if let Some(purpose) = purpose {
        if purpose.len() > PURPOSE_BYTES_MAX {
            return Err(NoteError::Purpose("it is too long"));
        }
        if purpose.chars().any(char::is_control) {
            return Err(NoteError::Purpose("it holds a control character"));
        }
    }
    let length = metadata.map_or(0, |metadata| metadata.to_string().len());
    if length > METADATA_BYTES_MAX {
        return Err(NoteError::Metadata(length));
    }
    Ok(())
}

/// Returns a command as a person would type it, quoted where a shell needs it.
pub fn command_line(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words = words.into_iter();
    let words: Vec<_> = words
        .map(|word| quoted(&word.as_ref().to_string_lossy()))
        .collect();
    words.join(" ")
}

/// Returns a word, quoted if a shell would not read it as one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=./:,@%^…".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a command line as it is stored for others to see: without secrets, cut to the limit,
/// and with blanks in place of control characters.
pub fn kept_command(command: &str) -> String {
    let command = without_secrets(command);
    let visible = command
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut cut = String::new();
    for c in visible {
        if cut.len() + c.len_utf8() > COMMAND_BYTES_MAX - '…'.len_utf8() {
            cut.push('…');
            break;
        }
        cut.push(c);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_or_unprintable_notes_are_refused() {
        assert!(check_notes(Some("nightly build"), None).is_ok());
        assert!(check_notes(Some("a\u{1b}[2J"), None).is_err());
        assert!(check_notes(Some(&"x".repeat(501)), None).is_err());
        let metadata = Value::String("x".repeat(METADATA_BYTES_MAX));
        assert!(check_notes(None, Some(&metadata)).is_err());
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        assert_eq!(command_line(["cargo", "test", "-j2"]), "cargo test -j2");
        assert_eq!(command_line(["--wait=5s", ""]), "--wait=5s ''");
        assert_eq!(
            command_line(["sh", "-c", "echo it's"]),
            r"sh -c 'echo it'\''s'"
        );
        assert_eq!(command_line(["$(x)"]), "'$(x)'");
    }

    #[test]
    fn commands_are_cut_between_characters_and_made_visible() {
        assert_eq!(kept_command("make\n-j2"), "make -j2");
        let cut = kept_command(&"é".repeat(COMMAND_BYTES_MAX));
        assert!(cut.len() <= COMMAND_BYTES_MAX && cut.ends_with('…'));
    }
}
