//! What a store is asked for.

use std::ffi::OsStr;
use std::sync::Arc;

use serde_json::Value;

use crate::decide::Millis;
use crate::{
    Binding, Lease, LeaseId, LeaseState, Mode, Owner, Resource, SessionId, Timestamp, Token,
};

/// The longest purpose, in bytes.
pub const PURPOSE_BYTES_MAX: usize = 500;
/// The longest metadata, in bytes of compact JSON.
pub const METADATA_BYTES_MAX: usize = 4096;
/// A longer command line is cut to this many bytes: it is for people.
pub const COMMAND_BYTES_MAX: usize = 1000;

/// Who asks: the same for all requests of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The session that will hold what is granted.
    pub session: SessionId,
    /// On whose behalf.
    pub owner: Owner,
    /// Process id.
    pub pid: u32,
    /// Name of the machine.
    pub host: String,
    /// Command line, cut to [`COMMAND_BYTES_MAX`].
    pub command: String,
}

/// One lock asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id the lease will have.
    pub lease: LeaseId,
    /// What is asked for.
    pub resource: Resource,
    /// How.
    pub mode: Mode,
    /// By whom.
    pub asker: Arc<Asker>,
    /// Why, for people.
    pub purpose: Option<String>,
    /// Whatever the asker wants kept with the lease.
    pub metadata: Option<Value>,
    /// When the asker gives up, for people. The keeper enforces it by dropping the wait.
    pub deadline: Option<Timestamp>,
    /// The same in milliseconds of a clock that nobody sets and that counts sleep: a store
    /// grants nothing after it to a waiter that was stopped.
    pub until: Option<Millis>,
    /// How many may hold it at once, as this asker sees it; None is up to the modes.
    pub capacity: Option<u32>,
}

impl Request {
    /// The lease it becomes, held from `at` on by its session.
    pub fn granted(&self, token: Token, at: Timestamp) -> Lease {
        let asker = &self.asker;
        Lease {
            lease: self.lease.clone(),
            resource: self.resource.clone(),
            mode: self.mode,
            owner: asker.owner.clone(),
            session: asker.session.clone(),
            token,
            acquired_at: at,
            expires_at: None,
            heartbeat_at: at,
            binding: Binding::Session,
            state: LeaseState::Held,
            pid: asker.pid,
            host: asker.host.clone(),
            command: asker.command.clone(),
            purpose: self.purpose.clone(),
            metadata: self.metadata.clone(),
        }
    }
}

/// An upgrade that may have to wait.
#[derive(Debug, Clone)]
pub struct UpgradeRequest {
    /// The lease to become exclusive.
    pub lease: LeaseId,
    /// Who waits for it: not always the session that took the lease.
    pub asker: Arc<Asker>,
    /// When the asker gives up, for people.
    pub deadline: Option<Timestamp>,
    /// The same on the clock that decides; see [`Request::until`].
    pub until: Option<Millis>,
}

/// Who asks, if what it asks for may be granted or queued.
#[derive(Debug, Clone, Copy)]
pub enum Newcomer<'a> {
    /// For a new lease.
    Lease(&'a Request),
    /// For an upgrade.
    Upgrade(&'a UpgradeRequest),
    /// Nobody new.
    None,
}

/// What is wrong with a purpose or metadata from outside.
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

/// Checks what people and programs want kept with a lease.
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

/// A command as a person would type it, quoted where a shell needs it.
pub fn command_line(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words = words.into_iter();
    let words: Vec<_> = words
        .map(|word| quoted(&word.as_ref().to_string_lossy()))
        .collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=./:,@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Cuts a command line to what is kept of it; control characters become blanks.
pub fn cut_command(command: &str) -> String {
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
        assert_eq!(cut_command("make\n-j2"), "make -j2");
        let cut = cut_command(&"é".repeat(COMMAND_BYTES_MAX));
        assert!(cut.len() <= COMMAND_BYTES_MAX && cut.ends_with('…'));
    }
}
