//! The claim of an issue while its command runs: renewed, and if it cannot be, the command is ended in time.
//!
//! | what happened | SIGTERM | SIGKILL |
//! |---|---|---|
//! | the claim could not be renewed for two thirds of its time | at once | at five sixths |
//! | it is somebody else's, or over | at once | 5 s later |
//! | the command said that the issue is done | never | never |

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tenure::{Class, LockContext, Mode, clock};
use tenure_core::poison::lock;
use tenure_files::{Board, Issue, IssueId};
use tokio::time::sleep;

use super::open_board::SharedBoard;
use crate::run::{Distrusted, Ending};

/// The interval of looks at the claim.
const LOOK: Duration = Duration::from_millis(50);
/// The time the command has to end by itself once its claim is lost.
const GRACE_MS: u64 = 5000;
/// The shortest pause between two tries to renew.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// A claim that is renewed by a thread until it is dropped.
pub struct Renewing {
    shared: Arc<Mutex<Shared>>,
    ttl: Duration,
    context: Box<LockContext>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread reports.
struct Shared {
    /// The time when the last good renewal was asked for, in milliseconds since boot.
    good_ms: u64,
    /// The error of the last try.
    problem: String,
    /// True if the claim is gone.
    is_lost: bool,
    /// True if the issue is done, so that no claim is needed.
    is_over: bool,
}

impl Renewing {
    /// Begins to renew a claim that was asked for at `asked_ms`.
    pub fn start(
        board: &SharedBoard,
        issue: &Issue,
        token: u64,
        ttl: Duration,
        asked_ms: u64,
    ) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            good_ms: asked_ms,
            problem: "it was not renewed".into(),
            is_lost: false,
            is_over: false,
        }));
        let (stop, stopped) = mpsc::channel();
        let (told, board, id) = (Arc::clone(&shared), Arc::clone(board), issue.id.clone());
        let context = LockContext::new(
            id.resource(),
            Mode::Write,
            "board:",
            board.directory().display().to_string(),
        );
        let renew = move || {
            let mut pause = ttl / 3;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                pause = match renew(&board, &id, token, ttl, &told) {
                    true => ttl / 3,
                    false => (ttl / 30).max(PAUSE_MIN),
                };
            }
        };
        let thread = thread::Builder::new().name("renewing".into());
        Self {
            shared,
            ttl,
            context: Box::new(context),
            stop: Some(stop),
            thread: thread.spawn(renew).ok(),
        }
    }

    /// Watches the claim of a command.
    pub fn ending(&self) -> Ending<'_> {
        Ending::when(self.distrusted())
    }

    /// Waits until the claim cannot be relied on.
    async fn distrusted(&self) -> Distrusted<'_> {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX / 6);
        let (reason, kill_at_ms) = loop {
            {
                let shared = lock(&self.shared);
                if shared.is_lost {
                    break (shared.problem.clone(), clock::boot_now() + GRACE_MS);
                }
                if !shared.is_over && clock::boot_now() >= shared.good_ms + ttl_ms * 2 / 3 {
                    let reason = format!("the claim could not be renewed: {}", shared.problem);
                    break (reason, shared.good_ms + ttl_ms * 5 / 6);
                }
            }
            sleep(LOOK).await;
        };
        let left_ms = kill_at_ms.saturating_sub(clock::boot_now());
        Distrusted {
            context: self.context.clone(),
            reason,
            grace: Duration::from_millis(left_ms),
            // The timer does not count sleep; the claim does.
            over: Box::pin(async move {
                while clock::boot_now() < kill_at_ms {
                    sleep(LOOK).await;
                }
            }),
        }
    }
}

/// Tries to renew. Returns true if that worked.
fn renew(board: &Board, id: &IssueId, token: u64, ttl: Duration, shared: &Mutex<Shared>) -> bool {
    let asked_ms = clock::boot_now();
    let renewed = board.renew(id, Some(token), Some(ttl));
    // The command may say itself that the issue is done: then there is nothing to renew, and nothing is lost.
    let is_done = renewed.is_err() && board.is_done_under(id, token).is_ok_and(|is_done| is_done);
    let mut shared = lock(shared);
    match renewed {
        Ok(_) => shared.good_ms = asked_ms,
        Err(error) if is_done => {
            shared.is_over = true;
            shared.problem = error.to_string();
        }
        Err(error) => {
            let gone = [Class::NotAllowed, Class::NotFound, Class::Conflict];
            shared.is_lost |= gone.contains(&error.class());
            shared.problem = error.to_string();
            return false;
        }
    }
    true
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
