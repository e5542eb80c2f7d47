//! Who asks.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::Asker;
use tenure::{Automated, Owner, Remedy, SessionOptions};
use tenure_core::error::{Part, Words};
use tenure_core::setters;
use tenure_lockfile::FileCaller;
use tenure_os::cancel::Cancel;

use crate::around::Outers;
use crate::observer::{Observer, Silent};
use crate::waiting::WaitTeller;

/// Who asks, as a surface has found out; given to every call.
#[derive(Clone)]
#[must_use]
pub struct Caller {
    owner: Owner,
    is_named: bool,
    agent: Option<Owner>,
    trusts_file_systems: bool,
    may_block: bool,
    command: String,
    around: Outers,
    cancel: Cancel,
    observer: Arc<dyn Observer>,
    words: Words,
}

impl Caller {
    /// Returns a caller that nobody named, and whose waits nothing ends early. `command` is what
    /// listings show.
    pub fn new(owner: Owner, command: impl Into<String>) -> Self {
        Self {
            owner,
            is_named: false,
            agent: None,
            trusts_file_systems: false,
            may_block: false,
            command: command.into(),
            around: Outers::default(),
            cancel: Cancel::default(),
            observer: Arc::new(Silent),
            words: Part::to_string,
        }
    }

    setters! {
        /// The owner was named: a lease of another owner is not this caller's to change.
        named(is_named: bool) => is_named = is_named;
        /// Sets the coding agent that asks, whatever owner is named. It is automated in everything.
        under_agent(agent: Option<Owner>) => agent = agent;
        /// The caller itself says that locks hold on every file system.
        trusting_file_systems(trusts: bool) => trusts_file_systems = trusts;
        /// Sets the leases that are held around it.
        within(around: Outers) => around = around;
        /// Sets what ends its waits early.
        cancelled_by(cancel: Cancel) => cancel = cancel;
        /// Sets who is told what it waits for.
        observed_by(observer: Arc<dyn Observer>) => observer = observer;
        /// Sets the words of its surface, for sentences that name operations.
        told_in(words: Words) => words = words;
    }

    /// The thread that calls may block: work on files is done on it. Its runtime has other threads,
    /// for what goes on meanwhile.
    pub fn that_may_block(mut self) -> Self {
        self.may_block = true;
        self
    }

    /// Returns the owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns the owner if it was named. Without one, whoever has the id of a lease may change it.
    pub fn named_owner(&self) -> Option<&Owner> {
        self.is_named.then_some(&self.owner)
    }

    /// Returns the coding agent that asks.
    pub fn agent(&self) -> Option<&Owner> {
        self.agent.as_ref()
    }

    /// Returns true if the caller itself says that locks hold on every file system.
    pub fn trusts_file_systems(&self) -> bool {
        self.trusts_file_systems
    }

    /// Returns true if the thread that calls may block.
    pub fn may_block(&self) -> bool {
        self.may_block
    }

    /// Returns what listings show as its command.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the leases that are held around it.
    pub fn around(&self) -> &Outers {
        &self.around
    }

    /// Returns what ends its waits early.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Returns who is told what it waits for.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Returns a sentence in the words of its surface.
    pub fn in_words(&self, remedy: impl Into<Remedy>) -> String {
        remedy.into().in_words(self.words)
    }

    /// Tells its observer something that people should know.
    pub fn tell(&self, word: impl Into<Remedy>) {
        self.observer.word(&self.in_words(word));
    }

    /// Returns the options of a session of its own.
    pub fn session(&self) -> SessionOptions {
        SessionOptions::new(self.owner.clone()).with_command(&self.command)
    }

    /// Returns the asker, for locks that are in no store, such as those of documents.
    pub fn asker(&self) -> Asker {
        self.session().asker()
    }

    /// Returns it as a caller of something on files, whose waits end after `wait`. `teller` is told
    /// when the locks are held.
    pub(crate) fn of_files(
        &self,
        wait: Duration,
        is_automated: bool,
        teller: &WaitTeller,
    ) -> FileCaller {
        let teller = teller.clone();
        let mut caller = FileCaller::new(self.asker(), wait);
        caller.is_automated = is_automated;
        caller.cancel = self.cancel.clone();
        caller.on_locked = Arc::new(move || teller.end());
        caller
    }

    /// Returns what the settings say about automated owners, for this caller.
    pub(crate) fn automated(&self, automated: Automated) -> Automated {
        automated.under_agent(self.agent.clone())
    }
}
