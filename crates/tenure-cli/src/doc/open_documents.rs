//! Opens the documents of a command, with its settings, its owner and its wait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{Error, Mode, Resource, Result, SessionId, SessionOptions};
use tenure_files::document::{Content, Documents, Terms, Version};
use tenure_lockfile::resource_of;

use super::failure;
use super::token_check::TokenCheck;
use crate::cli::{Access, Compat, WaitArguments, WriteTerms};
use crate::context::asked;
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::report::Failure;
use crate::waiting::{self, Interruption, WaitReporter};

/// The default wait with Node: a lock of a dead Node program blocks for ten seconds.
const WAIT_WITH_NODE: Duration = Duration::from_secs(15);

/// The documents, open for one command.
pub struct OpenDocuments {
    pub documents: Documents,
    limit: Duration,
    session: SessionId,
    with_node: bool,
    interruption: Interruption,
}

/// A wait for documents that people are told of and that signals end.
pub struct Wait<'a> {
    reporter: WaitReporter,
    /// The resource that the message about an interrupted wait names.
    resource: Resource,
    pub interruption: &'a Interruption,
}

impl Wait<'_> {
    /// Ends the wait: nothing more is reported, and a signal no longer ends the command. Fails if
    /// one came before this.
    fn end(&self) -> Result<()> {
        self.reporter.stop();
        if self.interruption.is_interrupted() {
            return Err(Error::interrupted(self.resource.clone()));
        }
        self.interruption.hold_off();
        Ok(())
    }

    /// Returns the guard that runs under the locks before a write: it ends the wait and checks
    /// every token.
    pub fn guard<'a>(&'a self, tokens: &'a TokenCheck<'_>) -> impl Fn() -> Result<()> + 'a {
        || {
            self.end()?;
            tokens.check()
        }
    }

    /// Marks the work as done or failed: a signal ends the process as usual again.
    pub fn conclude<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
        self.reporter.stop();
        self.interruption.end();
        done.map_err(|failure| match failure {
            Failure::Error(Error::Interrupted { .. }) => {
                Error::interrupted(self.resource.clone()).into()
            }
            failure => failure,
        })
    }
}

impl OpenDocuments {
    /// Opens the documents.
    pub fn open(context: &Context, access: &Access, files: &[PathBuf]) -> Result<Self> {
        let with_node = access.compat == Some(Compat::ProperLockfile);
        let default = if with_node {
            WAIT_WITH_NODE
        } else {
            WAIT_DEFAULT
        };
        let settings = context.settings(default);
        let WaitArguments { no_wait, wait } = access.wait_arguments;
        let interruption = Interruption::listen()?;
        let wait = asked(no_wait, wait);
        let asked = access.owner.clone();
        let (owner, limit) = context.owner_and_limit(asked, wait, default, None)?;
        let limit = limit.whole();
        let asker = SessionOptions::new(owner).with_command(context.own_command());
        let asker = asker.asker();
        let session = asker.session.clone();
        let mut documents = Documents::for_asker(limit, asker).cancelled_by(interruption.cancel());
        if settings.trust_flock {
            documents = documents.trusting_the_file_system();
        }
        if with_node {
            let lock = match files {
                [file] => format!("the lock {}.lock", file.display()),
                _ => "a lock of proper-lockfile".into(),
            };
            let tell = move |why: &str| word(&format!("{lock} was lost: {why}"));
            documents = documents.shared_with_node(tell);
        }
        Ok(Self {
            documents,
            limit,
            session,
            with_node,
            interruption,
        })
    }

    /// Starts a wait that is reported to people and that signals end.
    pub fn wait(&self, files: &[&Path], mode: Mode) -> Result<Wait<'_>, Failure> {
        let mut known = Vec::with_capacity(files.len());
        for file in files {
            let lock = Documents::lock_file(file);
            let lock = lock.map_err(|error| failure::about(error.into(), files))?;
            // The document itself, where the file is a link to it.
            let document = Documents::document_of(&lock);
            known.push((document.unwrap_or_else(|| file.to_path_buf()), lock));
        }
        let Some((first, _)) = known.first() else {
            return Err(Error::BadInput("there is no document to wait for".into()).into());
        };
        let resource = resource_of(first);
        let told = waiting::DocumentWait {
            files: known,
            // Node's lock is taken inside of our exclusive one, by readers, too.
            mode: if self.with_node { Mode::Write } else { mode },
            limit: self.limit,
            session: self.session.clone(),
            inner_lock: None,
            with_node: self.with_node,
        };
        let reporter = WaitReporter::start(told);
        self.interruption.wait();
        Ok(Wait {
            reporter,
            resource,
            interruption: &self.interruption,
        })
    }

    /// Changes documents under their locks, with the tokens that the command names. `work` gets the
    /// old ones.
    pub fn edit(
        &self,
        files: &[&Path],
        tokens: &TokenCheck<'_>,
        (given, existing): (&WriteTerms, bool),
        work: impl FnOnce(&[Option<Content>], &Interruption) -> Result<Vec<String>, Failure>,
    ) -> Result<Vec<Version>, Failure> {
        let wait = self.wait(files, Mode::Write)?;
        let guard = wait.guard(tokens);
        let overridden = |document: &Path, last: &str| tokens.tell_overridden(document, last);
        let mut terms = Terms::default().with_guard(&guard);
        terms.existing = existing;
        terms.expect = given.expect;
        terms.fence = tokens.fence(given.rebind);
        terms.overridden = Some(&overridden);
        let work = |old: &[Option<Content>]| Ok((work(old, wait.interruption)?, ()));
        let edited = wait.conclude(self.documents.edit(files, &terms, work));
        let edited = edited.map_err(|failure| failure::about(failure, files));
        Ok(edited?.0)
    }
}
