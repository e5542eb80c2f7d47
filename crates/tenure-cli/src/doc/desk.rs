//! What every command on documents begins with: the settings, in whose name, and how long to wait.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::{Error, Mode, Owner, Result, SessionId, SessionOptions};
use tenure_files::{Documents, Durability};

use super::failure;
use super::interrupt::Interrupt;
use super::tokens::Tokens;
use crate::cli::{Access, Compat, Global, Patience};
use crate::context::{Context, WAIT_DEFAULT, own_command, owner};
use crate::people::visible;
use crate::report::{Failure, Report, word};
use crate::waiting::{self, Telling};

/// With the lock of a dead Node program in the way, nothing shorter than its ten seconds helps.
const WAIT_WITH_NODE: Duration = Duration::from_secs(15);

/// The documents, open for one command.
pub struct Desk {
    pub documents: Documents,
    limit: Duration,
    session: SessionId,
    with_node: bool,
    interrupt: Interrupt,
}

/// A wait for documents that people are told of and that signals end.
pub struct Wait<'a> {
    telling: Arc<Telling>,
    pub interrupt: &'a Interrupt,
}

impl Wait<'_> {
    /// The documents are here: nothing more is told, and a signal does no longer end the command.
    fn is_over(&self) {
        self.interrupt.hold_off();
        self.telling.stop();
    }

    /// What is asked under the locks before anything is written: nobody waits any more, and no token is fenced.
    pub fn guard<'a>(&'a self, tokens: &'a Tokens<'_>) -> impl Fn() -> Result<()> + 'a {
        || {
            self.is_over();
            tokens.check()
        }
    }

    /// All is done, or failed: what follows may be interrupted as usual.
    pub fn ended(&self) {
        self.telling.stop();
        self.interrupt.end();
    }
}

impl Desk {
    /// For reading and writing.
    pub fn open(
        global: &Global,
        context: &Context,
        access: &Access,
        files: &[PathBuf],
    ) -> Result<Self> {
        let compat = access.compat;
        let default = match compat {
            Some(Compat::ProperLockfile) => WAIT_WITH_NODE,
            None => WAIT_DEFAULT,
        };
        let mut desk = Self::with(global, context, &access.patience, default, &access.owner)?;
        if compat == Some(Compat::ProperLockfile) {
            desk.with_node = true;
            let lock = match files {
                [file] => format!("the lock {}.lock", file.display()),
                _ => "a lock of proper-lockfile".into(),
            };
            let tell = move |why: &str| word(&format!("{lock} was lost: {}", visible(why)));
            desk.documents = desk.documents.shared_with_node(tell);
        }
        Ok(desk)
    }

    /// For cleaning up.
    pub fn to_clean(
        global: &Global,
        context: &Context,
        patience: &Patience,
        owner: &Option<Owner>,
    ) -> Result<Self> {
        Self::with(global, context, patience, WAIT_DEFAULT, owner)
    }

    fn with(
        global: &Global,
        context: &Context,
        patience: &Patience,
        wait_default: Duration,
        asked: &Option<Owner>,
    ) -> Result<Self> {
        let settings = context.settings(wait_default);
        let limit = match patience.no_wait {
            true => Duration::ZERO,
            false => patience.wait.unwrap_or(settings.wait),
        };
        let interrupt = Interrupt::listen(Report::new(global.json))?;
        let asker = SessionOptions {
            owner: owner(asked.clone())?,
            command: Some(own_command()),
            ancestors: Vec::new(),
        };
        let asker = asker.asker()?;
        let session = asker.session.clone();
        let mut documents = Documents::for_asker(limit, asker);
        if settings.trust_flock {
            documents = documents.trusting_the_file_system();
        }
        Ok(Self {
            documents,
            limit,
            session,
            with_node: false,
            interrupt,
        })
    }

    /// What is acknowledged when the command ends.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.documents = self.documents.durability(durability);
        self
    }

    /// Tells people about the wait that begins, and lets signals end it.
    pub fn wait(&self, files: &[&Path], mode: Mode) -> Result<Wait<'_>, Failure> {
        let mut known = Vec::with_capacity(files.len());
        for file in files {
            let lock = Documents::lock_file(file);
            let lock = lock.map_err(|error| failure::about(error.into(), files))?;
            known.push((document_of(&lock), lock));
        }
        let Some((first, _)) = known.first() else {
            return Err(Error::BadInput("there is no document to wait for".into()).into());
        };
        let first = waiting::name_of(first);
        let told = waiting::Documents {
            files: known,
            // Node's lock is taken inside of our exclusive one, by readers, too.
            mode: if self.with_node { Mode::Write } else { mode },
            limit: self.limit,
            session: self.session.clone(),
            with_node: self.with_node,
        };
        let telling = Arc::new(Telling::start(told));
        self.interrupt.wait(first, Arc::clone(&telling));
        Ok(Wait {
            telling,
            interrupt: &self.interrupt,
        })
    }
}

/// The document of a lock file, which is `.NAME.lock` beside it.
fn document_of(lock: &Path) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let name = lock.file_name().unwrap_or_default().as_bytes();
    let name = name.strip_prefix(b".").unwrap_or(name);
    let name = name.strip_suffix(b".lock").unwrap_or(name);
    lock.with_file_name(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_lock_file_is_beside_it() {
        let of = |lock: &str| document_of(Path::new(lock));
        assert_eq!(of("/d/.a.json.lock"), Path::new("/d/a.json"));
        assert_eq!(of("/d/..hidden.lock"), Path::new("/d/.hidden"));
    }
}
