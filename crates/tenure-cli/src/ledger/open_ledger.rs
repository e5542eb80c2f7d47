//! Opens the ledger of a command, with its settings, its owner and its wait.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure::{Error, Mode, Result, SessionId, SessionOptions};
use tenure_files::{Ledger, resource_of};

use crate::cli::{Global, LedgerTerms};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::doc::Interrupt;
use crate::limit::Limit;
use crate::output::word;
use crate::report::{Failure, Report};
use crate::waiting::{self, WaitReporter};

/// A ledger that is open for a command that writes.
pub struct OpenLedger {
    ledger: Arc<Ledger>,
    limit: Duration,
    session: SessionId,
    interrupt: Arc<Interrupt>,
    /// Reports the wait, while there is one.
    reporter: Arc<Mutex<Option<Arc<WaitReporter>>>>,
}

/// Opens a ledger that is only read.
pub fn to_read(directory: &Path) -> Result<Ledger, Failure> {
    let ledger = Ledger::open(directory, WAIT_DEFAULT);
    let ledger = ledger.map_err(about)?;
    Ok(ledger.telling(word))
}

impl OpenLedger {
    pub fn open(global: &Global, terms: &LedgerTerms, directory: &Path) -> Result<Self, Failure> {
        let context = Context::without_store()?;
        let settings = context.settings(WAIT_DEFAULT);
        let limit = Limit::chosen(terms.no_wait, terms.wait, settings.wait).whole();
        let interrupt = Arc::new(Interrupt::listen(Report::new(global.json))?);
        let asker = SessionOptions::new(owner(terms.owner.clone())?)
            .with_command(context.own_command())
            .asker();
        let session = asker.session.clone();
        let mut ledger = Ledger::for_asker(directory, limit, asker).map_err(about)?;
        if settings.trust_flock {
            ledger = ledger.trusting_the_file_system();
        }
        let reporter = Arc::<Mutex<Option<Arc<WaitReporter>>>>::default();
        let (held_off, reported) = (Arc::clone(&interrupt), Arc::clone(&reporter));
        let ledger = ledger.telling(word).on_locked(move || {
            held_off.hold_off();
            let reporter = reported
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(reporter) = reporter {
                reporter.stop();
            }
        });
        Ok(Self {
            ledger: Arc::new(ledger),
            limit,
            session,
            interrupt,
            reporter,
        })
    }

    /// Does something that waits for the ledger. The wait is reported to people, and signals end it.
    pub fn wait<T>(&self, work: impl FnOnce(&Ledger) -> Result<T>) -> Result<T, Failure> {
        let queue = self.ledger.queue_lock();
        let place = queue.parent().unwrap_or(&queue).to_owned();
        let name = resource_of(&place);
        let reporter = Arc::new(WaitReporter::start(waiting::DocumentWait {
            files: vec![(place, queue)],
            mode: Mode::Write,
            limit: self.limit,
            session: self.session.clone(),
            with_node: false,
            inner_lock: Some(self.ledger.shared_lock()),
        }));
        let shared = || self.reporter.lock().unwrap_or_else(PoisonError::into_inner);
        *shared() = Some(Arc::clone(&reporter));
        let (ledger, told) = (Arc::clone(&self.ledger), Arc::clone(&reporter));
        self.interrupt.wait(name, move || {
            told.stop();
            ledger.abandon();
        });
        let done = work(&self.ledger);
        reporter.stop();
        *shared() = None;
        self.interrupt.end();
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
    Failure::Adjusted {
        error,
        code: None,
        remedy: Some(remedy.into()),
    }
}
