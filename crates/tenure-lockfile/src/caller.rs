//! Who asks for the locks of files, and what ends its waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::request::{command_line, kept_command};
use tenure_core::{Asker, Owner, SessionId};
use tenure_os::cancel::Cancel;
use tenure_os::{platform, random};

/// What differs from call to call of something on files that is opened once.
#[derive(Clone)]
#[must_use]
pub struct FileCaller {
    /// Who asks, as records and errors show it.
    pub asker: Asker,
    /// How long each wait may be.
    pub wait: Duration,
    /// True if a program asks, which may not do what is for people.
    pub is_automated: bool,
    /// Ends waits.
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

    /// Returns a caller whose waits nothing ends early, and who is a person as far as is known.
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
