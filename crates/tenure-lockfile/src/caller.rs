//! The caller of locks on files, and what ends its waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::request::{command_line, kept_command};
use tenure_core::{Asker, Owner, SessionId};
use tenure_os::cancel::Cancel;
use tenure_os::{platform, random};

/// The part of a request that differs from call to call, for files that are opened once.
#[derive(Clone)]
#[must_use]
pub struct FileCaller {
    /// The asker, as records and errors show it.
    pub asker: Asker,
    /// The longest that each wait may last.
    pub wait: Duration,
    /// True if a program asks: it may not do what only people may.
    pub is_automated: bool,
    /// The handle that ends waits.
    pub cancel: Cancel,
    /// Called when the waiting for locks is over and the work begins.
    pub on_locked: Arc<dyn Fn() + Send + Sync>,
}

impl FileCaller {
    /// Returns a caller in the name of this process.
    pub fn this_process(wait: Duration) -> Self {
        let pid = std::process::id();
        let owner = Owner::parse(&format!("pid:{pid}")).expect("digits make an owner");
        let asker = Asker {
            session: SessionId::from_random(random::bytes()),
            owner,
            pid,
            host: platform::host_name(),
            command: kept_command(&command_line(std::env::args_os())),
            agent: None,
        };
        Self::new(asker, wait)
    }

    /// Returns a caller who counts as a person, and whose waits are not ended early.
    pub fn new(asker: Asker, wait: Duration) -> Self {
        Self {
            asker,
            wait,
            is_automated: false,
            cancel: Cancel::default(),
            on_locked: Arc::new(|| ()),
        }
    }
}

impl fmt::Debug for FileCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileCaller({}, {:?})", self.asker.owner, self.wait)
    }
}
