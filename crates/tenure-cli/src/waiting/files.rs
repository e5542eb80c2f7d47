//! Waits for locks on files: told to people, and ended by signals.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Asker, Mode, Resource, Result, SessionId};
use tenure_core::poison::lock;

use super::document::{DocumentWait, WaitReporter};
use crate::cli::Global;
use crate::doc::Interrupt;
use crate::report::Report;

/// The waits of one command.
pub struct FileWaits {
    limit: Duration,
    session: SessionId,
    interrupt: Arc<Interrupt>,
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
    pub fn new(global: &Global, asker: &Asker, limit: Duration) -> Result<Self> {
        let interrupt = Interrupt::listen(Report::new(global.json))?;
        Ok(Self {
            limit,
            session: asker.session.clone(),
            interrupt: Arc::new(interrupt),
            reporter: Arc::default(),
        })
    }

    /// Returns how long a wait may be.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns what is to be called when the locks are held: nothing more is reported, and signals wait until the work is done.
    pub fn on_locked(&self) -> impl Fn() + Send + Sync + 'static {
        let (interrupt, reporter) = (Arc::clone(&self.interrupt), Arc::clone(&self.reporter));
        move || {
            interrupt.hold_off();
            let reporter = lock(&reporter).take();
            if let Some(reporter) = reporter {
                reporter.stop();
            }
        }
    }

    /// Does something that waits for locks. `give_up` is called before a signal ends the process.
    pub fn wait<T>(
        &self,
        waited_for: WaitedFor,
        give_up: impl Fn() + Send + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        let done = self.wait_in_turn(waited_for, give_up, work);
        self.end();
        done
    }

    /// Does the same for one of several waits: a signal that comes before the next wait ends that one.
    pub fn wait_in_turn<T>(
        &self,
        waited_for: WaitedFor,
        give_up: impl Fn() + Send + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        let reporter = Arc::new(WaitReporter::start(DocumentWait {
            files: waited_for.files,
            mode: Mode::Write,
            limit: self.limit,
            session: self.session.clone(),
            with_node: false,
            inner_lock: waited_for.inner_lock,
        }));
        *lock(&self.reporter) = Some(Arc::clone(&reporter));
        let told = Arc::clone(&reporter);
        self.interrupt.wait(waited_for.resource, move || {
            told.stop();
            give_up();
        });
        let done = work();
        self.interrupt.hold_off();
        reporter.stop();
        *lock(&self.reporter) = None;
        done
    }

    /// Does something that waits for other than locks, and that a signal ends; one of several waits.
    pub fn idle_in_turn<T>(&self, resource: Resource, work: impl FnOnce() -> T) -> T {
        self.interrupt.wait(resource, || ());
        let done = work();
        self.interrupt.hold_off();
        done
    }

    /// Ends the last wait: a signal ends the process as usual.
    pub fn end(&self) {
        self.interrupt.end();
    }
}
