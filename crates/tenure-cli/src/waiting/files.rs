//! Waits for locks on files: told to people, and ended by signals.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Asker, Error, Mode, Resource, Result, SessionId};
use tenure_core::poison::lock;
use tenure_os::cancel::Cancel;

use super::document::{DocumentWait, WaitReporter};
use super::interruption::Interruption;

/// The waits of one command.
pub struct FileWaits {
    limit: Duration,
    session: SessionId,
    interruption: Arc<Interruption>,
    /// Reports the wait, while there is one.
    reporter: Arc<Mutex<Option<Arc<WaitReporter>>>>,
}

/// The subject of the wait.
pub struct WaitedFor {
    /// The resource that the message about an interrupted wait names.
    pub resource: Resource,
    /// The files, each with its lock.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The lock of other programs that is waited for inside of ours, if there is one.
    pub inner_lock: Option<PathBuf>,
}

impl FileWaits {
    /// Begins to listen to signals.
    pub fn new(asker: &Asker, limit: Duration) -> Result<Self> {
        Ok(Self {
            limit,
            session: asker.session.clone(),
            interruption: Arc::new(Interruption::listen()?),
            reporter: Arc::default(),
        })
    }

    /// Returns what a signal cancels.
    pub fn cancel(&self) -> Cancel {
        self.interruption.cancel()
    }

    /// Returns what is to be called when the locks are held: nothing more is reported, and signals wait until the work is done.
    pub fn on_locked(&self) -> impl Fn() + Send + Sync + 'static {
        let (interruption, stop) = (Arc::clone(&self.interruption), self.on_locked_to_read());
        move || {
            interruption.hold_off();
            stop();
        }
    }

    /// Does the same for work that only reads: nothing more is reported, and signals go on to cancel it.
    pub fn on_locked_to_read(&self) -> impl Fn() + Send + Sync + 'static {
        let reporter = Arc::clone(&self.reporter);
        move || {
            let reporter = lock(&reporter).take();
            if let Some(reporter) = reporter {
                reporter.stop();
            }
        }
    }

    /// Does something that waits for locks.
    pub fn wait<T>(&self, waited_for: WaitedFor, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = self.wait_in_turn(waited_for, work);
        self.end();
        done
    }

    /// Does the same for one of several waits: a signal that comes before the next wait ends that one.
    pub fn wait_in_turn<T>(
        &self,
        waited_for: WaitedFor,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let reporter = Arc::new(WaitReporter::start(DocumentWait {
            files: waited_for.files,
            mode: Mode::Write,
            limit: self.limit,
            session: self.session.clone(),
            with_node: false,
            inner_lock: waited_for.inner_lock,
        }));
        *lock(&self.reporter) = Some(Arc::clone(&reporter));
        let done = self.idle_in_turn(waited_for.resource, work);
        reporter.stop();
        *lock(&self.reporter) = None;
        done
    }

    /// Does something that waits for other than locks, and that a signal ends; one of several waits.
    pub fn idle_in_turn<T>(
        &self,
        resource: Resource,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.interruption.wait();
        if self.interruption.is_interrupted() {
            return Err(Error::interrupted(resource));
        }
        let done = work();
        self.interruption.hold_off();
        done.map_err(|error| match error {
            Error::Interrupted { .. } => Error::interrupted(resource),
            error => error,
        })
    }

    /// Ends the last wait: a signal ends the process as usual.
    pub fn end(&self) {
        self.interruption.end();
    }
}
