//! Opens the ledger of a command, with its settings, its owner and its wait.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tenure::{Error, Result, SessionOptions};
use tenure_ledger::Ledger;
use tenure_lockfile::resource_of;

use crate::cli::LedgerTerms;
use crate::context::asked;
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::word;
use crate::report::Failure;
use crate::waiting::{FileWaits, WaitedFor};

/// A ledger that is open for a command that writes.
pub struct OpenLedger {
    ledger: Ledger,
    waits: FileWaits,
}

/// Opens a ledger that is only read.
pub fn to_read(directory: &Path) -> Result<Ledger, Failure> {
    let ledger = Ledger::open(directory, WAIT_DEFAULT);
    let ledger = ledger.map_err(about)?;
    Ok(ledger.with_messages(word))
}

impl OpenLedger {
    /// Opens a ledger to change it; `ttl` is how long a claim is to last.
    pub fn open(
        terms: &LedgerTerms,
        directory: &Path,
        ttl: Option<Duration>,
    ) -> Result<Self, Failure> {
        let context = Context::without_store()?;
        let settings = context.settings(WAIT_DEFAULT);
        let wait = asked(terms.no_wait, terms.wait);
        let asked = terms.owner.clone();
        let (owner, limit) = context.owner_and_limit(asked, wait, WAIT_DEFAULT, ttl)?;
        let limit = limit.whole();
        let asker = SessionOptions::new(owner)
            .with_command(context.own_command())
            .asker();
        let waits = FileWaits::new(&asker, limit)?;
        let mut ledger = Ledger::for_asker(directory, limit, asker).map_err(about)?;
        if settings.trust_flock {
            ledger = ledger.trusting_the_file_system();
        }
        let ledger = ledger.with_messages(word).on_locked(waits.on_locked());
        let ledger = ledger.cancelled_by(waits.cancel());
        Ok(Self { ledger, waits })
    }

    /// Does something that waits for the ledger. The wait is reported to people, and signals end it.
    pub fn wait<T>(&self, work: impl FnOnce(&Ledger) -> Result<T>) -> Result<T, Failure> {
        let queue = self.ledger.queue_lock();
        let place = queue.parent().unwrap_or(&queue).to_owned();
        let waited_for = WaitedFor {
            resource: resource_of(&place),
            files: vec![(place, queue)],
            inner_lock: Some(self.ledger.shared_lock()),
        };
        let done = self.waits.wait(waited_for, || work(&self.ledger));
        done.map_err(about)
    }
}

/// A failure of a command on a ledger, with what to do about it here.
pub fn about(error: Error) -> Failure {
    let remedy = match &error {
        Error::Corrupt { path, .. } if path.ends_with("meta.json") => "correct it",
        Error::Corrupt { .. } => "look at all of it with: tenure ledger verify DIR",
        Error::NotFound(_) => "correct the directory or the number",
        Error::Lost { .. } => "look with tenure ledger log whether the event is there, then decide",
        _ => return Failure::Error(error),
    };
    Failure::with_remedy(error, remedy)
}

/// The end of a command that added an event. A failure to print its number is one of which the number is told.
pub fn answered(
    answer: Result<ExitCode, Failure>,
    directory: &Path,
    sequence: u64,
) -> Result<ExitCode, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Output(source) => Failure::Error(Error::OutcomeUnknown {
            path: directory.to_owned(),
            sequence,
            source: Box::new(Error::io("write", "standard output", source)),
        }),
        other => other,
    })
}
