//! Claim, renew, release and done: each is one change of its issue.

use std::time::{Duration, Instant};

use tenure_core::{Error, Result, duration};

use super::Board;
use super::decide::{ClaimRequest, Waits, decide, refused};
use super::issue::{Issue, IssueId, IssueState};
use super::log::NewEvent;

/// The default duration of a claim.
pub const BOARD_CLAIM_TTL: Duration = Duration::from_secs(15 * 60);
/// The shortest claim.
pub const BOARD_CLAIM_TTL_MIN: Duration = Duration::from_secs(1);
/// The longest claim.
pub const BOARD_CLAIM_TTL_MAX: Duration = Duration::from_secs(24 * 3600);

impl Board {
    /// Claims an issue, for 15 minutes or as long as `ttl` says. Exactly one of several owners that
    /// ask wins.
    ///
    /// # Errors
    ///
    /// [`Claimed`](tenure_core::error::Claimed) if another owner has it; a conflict if this owner
    /// has it already, or if it is blocked or done.
    pub fn claim(&self, id: &IssueId, ttl: Option<Duration>) -> Result<Issue> {
        self.claim_until(self.deadline(), id, ttl)
    }

    /// Claims an issue, waiting for locks until the deadline.
    pub(super) fn claim_until(
        &self,
        deadline: Instant,
        id: &IssueId,
        ttl: Option<Duration>,
    ) -> Result<Issue> {
        let ttl = checked(ttl)?;
        self.request(deadline, id, ClaimRequest::Claim(ttl), None)
    }

    /// Extends a claim: its time starts again now, and it keeps its token.
    pub fn renew(&self, id: &IssueId, token: Option<u64>, ttl: Option<Duration>) -> Result<Issue> {
        let ttl = checked(ttl)?;
        self.request(self.deadline(), id, ClaimRequest::Renew(token, ttl), None)
    }

    /// Ends a claim of this owner.
    pub fn release(&self, id: &IssueId, token: Option<u64>) -> Result<Issue> {
        self.request(self.deadline(), id, ClaimRequest::Release(token), None)
    }

    /// Ends a claim of this owner, and leaves a note for the next owner, unless the issue is full.
    pub fn release_with_note(&self, id: &IssueId, token: u64, note: &str) -> Result<Issue> {
        let request = ClaimRequest::Release(Some(token));
        self.request(self.deadline(), id, request, Some(note))
    }

    /// Marks an issue as done, which ends its claim.
    pub fn done(&self, id: &IssueId, token: Option<u64>) -> Result<Issue> {
        self.request(self.deadline(), id, ClaimRequest::Done(token), None)
    }

    /// Returns true if an issue is done, and was not claimed after this token.
    pub fn is_done_under(&self, id: &IssueId, token: u64) -> Result<bool> {
        let issue = self.issue(id)?;
        Ok(issue.state == IssueState::Done && issue.last_token == token)
    }

    /// Returns true if the owner of this token ended its claim and no later claim followed: the
    /// issue is done, released or deleted.
    pub fn is_ended(&self, id: &IssueId, token: u64) -> Result<bool> {
        match self.issue(id) {
            Err(Error::NotFound(_)) => Ok(true),
            issue => issue.map(|issue| issue.claim.is_none() && issue.last_token == token),
        }
    }

    /// Carries out a request, if `decide` allows it.
    pub(super) fn request(
        &self,
        deadline: Instant,
        id: &IssueId,
        request: ClaimRequest,
        note: Option<&str>,
    ) -> Result<Issue> {
        self.edit_until(deadline, id, &[], |issue| {
            let waits = || Waits::of(issue, |on| self.is_done(on));
            let decided = decide(issue, waits, &self.owner, request, self.moment());
            let mut after = decided.map_err(|refusal| refused(id, &self.owner, refusal))?;
            if let Some(note) = note {
                self.add_note(&mut after, note);
                if after.check_size().is_err() {
                    after.notes.pop();
                }
            }
            *issue = after;
            Ok(Some(event(id, request, issue)))
        })
    }
}

fn event(id: &IssueId, request: ClaimRequest, after: &Issue) -> NewEvent {
    let kind = match request {
        ClaimRequest::Claim(_) => "issue_claimed",
        ClaimRequest::Renew(..) => "claim_renewed",
        ClaimRequest::Release(_) => "claim_released",
        ClaimRequest::Done(_) => "issue_done",
    };
    let event = NewEvent::new(kind, id);
    match &after.claim {
        Some(claim) => event
            .with("token", claim.token)
            .with("expires_at", claim.expires_at.to_string()),
        None => event,
    }
}

/// Returns the duration of a claim, or an error if it is out of bounds.
pub(super) fn checked(ttl: Option<Duration>) -> Result<Duration> {
    let ttl = ttl.unwrap_or(BOARD_CLAIM_TTL);
    match (BOARD_CLAIM_TTL_MIN..=BOARD_CLAIM_TTL_MAX).contains(&ttl) {
        true => Ok(ttl),
        false => Err(Error::BadInput(format!(
            "a claim lasts from 1s to 24h, not {}",
            duration::show(ttl)
        ))),
    }
}
