//! The claim of an issue, while its command runs.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Class, LockContext, Mode, Result};
use tenure_board::Board;
use tenure_board::issue::{Issue, IssueId};
use tenure_run::{Distrusted, Held, Outcome, Renewal, Renewed, RunsOut};

use super::open_board::SharedBoard;
use crate::exit;

/// An issue that was claimed for a command.
pub struct Claimed {
    pub issue: Issue,
    pub token: u64,
    /// The time when it was asked for, in milliseconds since boot.
    pub asked_ms: u64,
}

/// A claim that is renewed until it is released.
pub struct IssueClaim {
    board: SharedBoard,
    issue: IssueId,
    token: u64,
    renewal: Renewal,
}

impl IssueClaim {
    /// Begins to renew a claim.
    pub fn renewed(board: SharedBoard, claimed: Claimed, ttl: Duration) -> Self {
        let (issue, token) = (claimed.issue.id, claimed.token);
        let location = board.directory().display().to_string();
        let context = LockContext::new(issue.resource(), Mode::Write, "board:", location);
        let (shared, id) = (Arc::clone(&board), issue.clone());
        let renew = move || renew(&shared, &id, token, ttl);
        Self {
            board,
            issue,
            token,
            renewal: Renewal::start(Box::new(context), ttl, claimed.asked_ms, renew),
        }
    }
}

fn renew(board: &Board, id: &IssueId, token: u64, ttl: Duration) -> Renewed {
    let Err(error) = board.renew(id, Some(token), Some(ttl)) else {
        return Renewed::Held;
    };
    // The command may say itself that the issue is done: then nothing is left to renew or to lose.
    if board.is_done_under(id, token).is_ok_and(|is_done| is_done) {
        return Renewed::Over;
    }
    match error.class() {
        Class::NotAllowed | Class::NotFound | Class::Conflict => Renewed::Gone(error.to_string()),
        _ => Renewed::Failed(format!("the claim could not be renewed: {error}")),
    }
}

impl Held for IssueClaim {
    async fn distrusted(&self) -> Distrusted<'_> {
        self.renewal.distrusted().await
    }

    fn runs_out(&self) -> Option<RunsOut> {
        self.renewal.runs_out()
    }

    fn command_dies_with_us(&self) -> bool {
        // If we are killed, nobody renews the claim any more.
        true
    }

    /// Says what became of the issue. One whose claim was lost is somebody else's.
    async fn release(self, outcome: Outcome) -> Result<()> {
        // Nothing is renewed after this.
        drop(self.renewal);
        let (board, issue, token) = (self.board, self.issue, self.token);
        let release = |note: &str| board.release_with_note(&issue, token, note).map(drop);
        let status = match outcome {
            Outcome::NotStarted => return release("the command could not be started"),
            Outcome::Lost => return Ok(()),
            Outcome::Ended(status) => status,
        };
        if board.is_ended(&issue, token).is_ok_and(|is_ended| is_ended) {
            // The command itself said what becomes of it.
            return Ok(());
        }
        let code = exit::of_command(status);
        if code != 0 {
            return release(&match i32::from(code) - exit::SIGNAL_BASE {
                signal if signal > 0 => format!("the command was ended by signal {signal}"),
                _ => format!("the command ended with {code}"),
            });
        }
        let done = board.done(&issue, Some(token)).map(drop);
        if let Err(error) = &done {
            let note = format!("the command ended well, but the issue is not done: {error}");
            // The error that is reported is the one that kept it from being done.
            let _ = release(&note);
        }
        done
    }
}
