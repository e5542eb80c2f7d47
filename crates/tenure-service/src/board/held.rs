//! The claim of an issue, while a command runs.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tenure::{Class, Error, LockContext, Mode, Result};
use tenure_api::board::{NextIssue, ShownIssue};
use tenure_board::issue::IssueId;
use tenure_board::{BOARD_CLAIM_TTL, Board, Cancel};
use tenure_run::{Distrusted, Held, Outcome, Renewal, Renewed, RunsOut};

use super::next::Found;
use crate::waiting::blocking;
use crate::{Caller, Service};

/// The number that a shell adds to the signal that ended a command, to make its exit code.
const SIGNAL_BASE: i32 = 128;

/// The claim of an issue, renewed until it is released.
pub struct HeldIssue {
    board: Board,
    issue: IssueId,
    token: u64,
    renewal: Renewal,
}

impl Service {
    /// Claims the next issue and renews the claim until it is released. If the caller has cancelled
    /// the wait meanwhile, the issue is released at once.
    pub async fn hold_next_issue(
        &self,
        mut request: NextIssue,
        caller: &Caller,
    ) -> Result<(ShownIssue, HeldIssue)> {
        request.claim = true;
        let ttl = request.ttl.map_or(BOARD_CLAIM_TTL, |ttl| ttl.0);
        let (call, Found { issue, asked_ms }) = self.next_issue(request, caller).await?;
        let (board, token) = (
            call.untold(Cancel::default()),
            issue.claim.as_ref().map(|it| it.token),
        );
        if caller.cancel().is_cancelled() {
            let id = issue.id;
            blocking(caller, move || board.release(&id, token)).await?;
            return Err(Error::interrupted(call.resource()));
        }
        let shown = issue.shown();
        let held = HeldIssue::renewed(board, issue.id, token.unwrap_or(0), ttl, asked_ms);
        Ok((shown, held))
    }
}

impl HeldIssue {
    /// Begins to renew a claim that was asked for at `asked_ms`, in milliseconds since boot.
    fn renewed(board: Board, issue: IssueId, token: u64, ttl: Duration, asked_ms: u64) -> Self {
        let location = board.directory().display().to_string();
        let context = LockContext::new(issue.resource(), Mode::Write, "board:", location);
        let (shared, id) = (board.clone(), issue.clone());
        let renew = move || renew(&shared, &id, token, ttl);
        Self {
            board,
            issue,
            token,
            renewal: Renewal::start(Box::new(context), ttl, asked_ms, renew),
        }
    }
}

fn renew(board: &Board, id: &IssueId, token: u64, ttl: Duration) -> Renewed {
    let Err(error) = board.renew(id, Some(token), Some(ttl)) else {
        return Renewed::Held;
    };
    // The command itself may have marked the issue as done: then no claim is left to renew or lose.
    if board.is_done_under(id, token).is_ok_and(|is_done| is_done) {
        return Renewed::Over;
    }
    match error.class() {
        Class::NotAllowed | Class::NotFound | Class::Conflict => Renewed::Gone(error.to_string()),
        _ => Renewed::Failed(format!("the claim could not be renewed: {error}")),
    }
}

impl Held for HeldIssue {
    async fn distrusted(&self) -> Distrusted<'_> {
        self.renewal.distrusted().await
    }

    fn runs_out(&self) -> Option<RunsOut> {
        self.renewal.runs_out()
    }

    fn command_dies_with_us(&self) -> bool {
        // If this process is killed, no process renews the claim any more.
        true
    }

    /// Marks the issue as done if the command succeeded, else releases it with a note. An issue
    /// whose claim was lost is left alone: it may belong to another owner.
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
            // The command itself finished or released the issue.
            return Ok(());
        }
        if let Some(note) = failure_of(status) {
            return release(&note);
        }
        let done = board.done(&issue, Some(token)).map(drop);
        if let Err(error) = &done {
            let note = format!("the command ended well, but the issue is not done: {error}");
            // The error of `done` is reported, not one of the release.
            let _ = release(&note);
        }
        done
    }
}

/// Returns a sentence that says how a command failed, or `None` if it succeeded.
fn failure_of(status: ExitStatus) -> Option<String> {
    let signal = status.signal();
    let code = signal.map_or(status.code(), |signal| Some(SIGNAL_BASE + signal));
    match code.unwrap_or(1) {
        0 => None,
        code if code > SIGNAL_BASE => {
            let signal = code - SIGNAL_BASE;
            Some(format!("the command was ended by signal {signal}"))
        }
        code => Some(format!("the command ended with {code}")),
    }
}
