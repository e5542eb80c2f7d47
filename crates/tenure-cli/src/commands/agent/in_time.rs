//! The answer of a hook in time, even if the hook fails or hangs.
//!
//! The hook works on a thread of its own. If that thread panics, or stands still (a file system
//! that hangs) when all its waits are over, this process ends without it, and gives the answer that
//! was set for this case. Only the first answer is printed.

use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure::duration;
use tenure_core::internal::lock;

use crate::output::{self, word};
use crate::report::Failure;

/// The time that a hook gets before its settings are known.
const START: Duration = Duration::from_secs(5);
/// The stack of the thread, in bytes: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// The state of a hook while it works.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<Known>>);

struct Known {
    end: Instant,
    /// The answer in case the hook gives none.
    otherwise: Option<Value>,
    is_answered: bool,
}

impl Progress {
    /// Sets the time that the hook may take from now on.
    pub fn allow(&self, time: Duration) {
        lock(&self.0).end = Instant::now() + time;
    }

    /// Sets the answer in case the hook gives none.
    pub fn otherwise(&self, answer: Option<Value>) {
        lock(&self.0).otherwise = answer;
    }

    /// Prints an answer, unless one was printed before.
    pub fn answer(&self, answer: Option<&Value>) -> Result<(), Failure> {
        let mut known = lock(&self.0);
        match answer.filter(|_| !known.is_answered) {
            Some(answer) => {
                known.is_answered = true;
                output::json(answer)
            }
            None => Ok(()),
        }
    }

    /// Answers in place of the hook, with the answer for this case.
    fn give_up(&self, problem: &str) {
        word(&format!("agent hook: {problem}"));
        let otherwise = lock(&self.0).otherwise.clone();
        if self.answer(otherwise.as_ref()).is_err() {
            word("agent hook: the answer could not be printed");
        }
    }
}

/// Does the work of a hook. Returns success in every case.
pub fn in_time(work: impl FnOnce(&Progress) + Send + 'static) -> ExitCode {
    let progress = Progress(Arc::new(Mutex::new(Known {
        end: Instant::now() + START,
        otherwise: None,
        is_answered: false,
    })));
    let begun = Instant::now();
    let (ended, ending) = mpsc::channel();
    let inner = progress.clone();
    let worker = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            work(&inner);
            let _ = ended.send(());
        });
    if let Err(error) = worker {
        progress.give_up(&format!("it cannot begin: {error}"));
        return ExitCode::SUCCESS;
    }
    loop {
        let left = lock(&progress.0)
            .end
            .saturating_duration_since(Instant::now());
        match ending.recv_timeout(left) {
            Ok(()) => break,
            Err(RecvTimeoutError::Disconnected) => {
                progress.give_up("it ended before its time, which is an error in tenure");
                break;
            }
            Err(RecvTimeoutError::Timeout) if lock(&progress.0).end > Instant::now() => {}
            Err(RecvTimeoutError::Timeout) => {
                let waited = duration::show(begun.elapsed());
                progress.give_up(&format!("it was not done within {waited}"));
                break;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does some work, with an answer in case it gives none. Returns the time it took, and true if
    /// it was answered by then.
    fn done(work: impl FnOnce(&Progress) + Send + 'static) -> (Duration, bool) {
        let (told, known) = mpsc::channel();
        let begun = Instant::now();
        in_time(move |progress| {
            told.send(progress.clone()).unwrap();
            progress.otherwise(Some(Value::Null));
            work(progress);
        });
        let progress = known.recv().unwrap();
        let is_answered = lock(&progress.0).is_answered;
        (begun.elapsed(), is_answered)
    }

    #[test]
    fn a_hook_that_stands_still_or_panics_is_answered_without_it_and_in_time() {
        let (took, is_answered) = done(|progress| {
            progress.allow(Duration::from_millis(200));
            thread::sleep(Duration::from_secs(600));
        });
        assert!(is_answered && took < Duration::from_secs(60), "{took:?}");
        let (_, is_answered) = done(|_| panic!("as it is told"));
        assert!(is_answered);
        let (_, is_answered) = done(|_| {});
        assert!(!is_answered, "it had nothing to answer");
    }
}
