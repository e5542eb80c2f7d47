//! The caller: the owner who asks, and all that a surface knows about it.

use std::sync::Arc;

use tenure::store::Asker;
use tenure::{Automated, Owner, Remedy, SessionOptions};
use tenure_core::error::{Part, Words};
use tenure_core::setters;
use tenure_os::cancel::Cancel;

use crate::around::Outers;
use crate::observer::{Observer, Silent};

/// The owner who asks, with the facts that a surface has found out. Every call gets one.
#[derive(Clone)]
#[must_use]
pub struct Caller {
    owner: Owner,
    is_named: bool,
    agent: Option<Owner>,
    pub(crate) trusts_file_systems: bool,
    pub(crate) may_block: bool,
    command: String,
    around: Outers,
    cancel: Cancel,
    observer: Arc<dyn Observer>,
    words: Words,
}

impl Caller {
    /// Returns a caller whose owner was found out, not named, and whose waits nothing ends early.
    /// Listings show `command`.
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
        /// Sets whether the owner was named, not found out by the surface. A named owner may not
        /// change leases of another owner.
        named(is_named: bool) => is_named = is_named;
        /// Sets the coding agent that asks, whatever owner is named. It is automated in everything.
        under_agent(agent: Option<Owner>) => agent = agent;
        /// Sets whether the caller itself trusts locks on every file system.
        trusting_file_systems(trusts: bool) => trusts_file_systems = trusts;
        /// Sets the leases that are held around it.
        within(around: Outers) => around = around;
        /// Sets the cancellation that ends its waits early.
        cancelled_by(cancel: Cancel) => cancel = cancel;
        /// Sets the observer, which is told what it waits for.
        observed_by(observer: Arc<dyn Observer>) => observer = observer;
        /// Sets the words of its surface, for sentences that name operations.
        told_in(words: Words) => words = words;
    }

    /// Lets work on files block the calling thread. Its runtime must have other threads, for the
    /// tasks that go on meanwhile.
    pub fn that_may_block(mut self) -> Self {
        self.may_block = true;
        self
    }

    /// Returns the owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns the owner if it was named. For a caller without a named owner, the id of a lease
    /// suffices to change it.
    pub fn named_owner(&self) -> Option<&Owner> {
        self.is_named.then_some(&self.owner)
    }

    /// Returns the leases that are held around it.
    pub fn around(&self) -> &Outers {
        &self.around
    }

    /// Returns the cancellation that ends its waits early.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Returns the observer, which is told what it waits for.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Returns a sentence in the words of its surface.
    pub fn in_words(&self, remedy: impl Into<Remedy>) -> String {
        remedy.into().in_words(self.words)
    }

    /// Tells its observer a sentence that people should know.
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

    /// Returns the rules for automated owners, as they apply to this caller.
    pub(crate) fn automated(&self, automated: Automated) -> Automated {
        automated.under_agent(self.agent.clone())
    }
}
