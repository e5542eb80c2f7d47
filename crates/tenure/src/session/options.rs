//! What sessions and requests are told from outside.

use std::time::Duration;

use serde_json::Value;
use tenure_core::{Asker, LeaseId, Mode, Owner, Resource, Result};

use super::asker;

/// Who begins a session, and what counts as held by it.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// On whose behalf.
    pub owner: Owner,
    /// What people see as its command; the command line of this process if None.
    pub command: Option<String>,
    /// What counts as held although the session did not take it.
    pub ancestors: Vec<Held>,
}

impl SessionOptions {
    /// A session of this process with nothing held around it.
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            command: None,
            ancestors: Vec::new(),
        }
    }

    /// Who asks, for locks that are in no store, such as those of documents.
    pub fn asker(&self) -> Result<Asker> {
        asker::asker(self.owner.clone(), self.command.clone())
    }
}

/// What a session counts as held although it did not take it: a lease of a
/// `tenure run` around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The address of the store it is held in.
    pub store: String,
    /// What is held.
    pub resource: Resource,
    /// How.
    pub mode: Mode,
    /// As which lease.
    pub lease: LeaseId,
}

/// How a lock is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// How long to wait; zero does not wait, None waits as long as the settings say.
    pub wait: Option<Duration>,
    /// Why, for people.
    pub purpose: Option<String>,
    /// Whatever is to be kept with the lease.
    pub metadata: Option<Value>,
    /// How many may hold it at once, as this request sees it; None is up to the modes.
    /// It goes for every lock of a set. Not all stores can count.
    pub capacity: Option<u32>,
}
