//! An issue that is done, and what became of a claim.

use tenure_core::{Error, Result};

use super::Board;
use super::decide::ClaimRequest;
use super::issue::{Issue, IssueId, IssueState};

impl Board {
    /// Says that an issue is done, which ends its claim.
    pub fn done(&self, id: &IssueId, token: Option<u64>) -> Result<Issue> {
        self.request(self.deadline(), id, ClaimRequest::Done(token), None)
    }

    /// Returns true if an issue is done, and nobody claimed it after this token.
    pub fn is_done_under(&self, id: &IssueId, token: u64) -> Result<bool> {
        let issue = self.issue(id)?;
        Ok(issue.state == IssueState::Done && issue.last_token == token)
    }

    /// Returns true if the claim with this token was ended by its owner, and nobody claimed the
    /// issue after it: it is done, released or deleted.
    pub fn is_ended(&self, id: &IssueId, token: u64) -> Result<bool> {
        match self.issue(id) {
            Err(Error::NotFound(_)) => Ok(true),
            issue => issue.map(|issue| issue.claim.is_none() && issue.last_token == token),
        }
    }
}
