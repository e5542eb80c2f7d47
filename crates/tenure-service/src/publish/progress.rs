//! Tells the observer how far a copy is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tenure_core::internal::lock;
use tenure_work::publish::Progress;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::Caller;
use crate::observer::CopyObserver;

/// A task that tells of a copy. It is a task of its own, as the copy blocks the one of the call.
pub(super) struct CopyTeller {
    observer: Arc<Mutex<Option<Box<dyn CopyObserver>>>>,
    task: Option<JoinHandle<()>>,
}

impl CopyTeller {
    /// Begins to tell the observer of the caller.
    pub(super) fn start(progress: &Arc<Progress>, caller: &Caller) -> Self {
        let observer = Arc::new(Mutex::new(caller.observer().begin_copy()));
        let is_wanted = lock(&observer).is_some();
        let told = (Arc::clone(&observer), Arc::clone(progress));
        let task = is_wanted.then(|| tokio::spawn(tell(told.0, told.1)));
        Self { observer, task }
    }

    /// Ends the task. When this returns, the observer is told nothing more.
    pub(super) fn end(self) {
        drop(lock(&self.observer).take());
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

async fn tell(observer: Arc<Mutex<Option<Box<dyn CopyObserver>>>>, progress: Arc<Progress>) {
    let began = Instant::now();
    for told in 0.. {
        let Some(when) = lock(&observer).as_ref().map(|it| it.when(told)) else {
            return;
        };
        sleep_until(began + when).await;
        let files = progress.files.load(Ordering::Relaxed);
        let bytes = progress.bytes.load(Ordering::Relaxed);
        if let Some(observer) = &mut *lock(&observer) {
            observer.show(files, bytes);
        }
    }
}
