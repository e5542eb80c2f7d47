//! The next issue: of the issues that wait for nothing and have no owner, the one with the lowest
//! priority number, then the oldest.

use std::time::{Duration, Instant};
use tenure_core::error::Claimed;

use tenure_api::board::{Blocked, Unreadable};
use tenure_core::{Class, Error, Result};

use super::Board;
use super::claim::checked;
use super::decide::{ClaimStatus, Waits, claim_status};
use super::issue::{Issue, IssueId, IssueState};
use super::lock::BoardLocks;
use super::names::Part;

/// The action on the next issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Returns it unclaimed.
    Look,
    /// Claims it, for 15 minutes or for this long.
    Claim(Option<Duration>),
}

/// The next issue, or the reason why there is none.
#[derive(Debug)]
pub enum Next {
    /// The next issue, claimed if that was asked for.
    Issue(Box<Issue>),
    /// Nothing is ready.
    Nothing(Unready),
}

/// The number of open issues, and the reasons why none of them is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unready {
    /// The number of issues that are not done.
    pub open: usize,
    /// The number of issues that are claimed.
    pub claimed: usize,
    /// The number of issues that wait for others, or for a gate.
    pub blocked: usize,
    /// The issues that cannot be read, whatever their labels.
    pub unreadable: Vec<Unreadable>,
    /// The time until the first claim ends, if there is a claim.
    pub first_end: Option<Duration>,
}

impl Board {
    /// Returns the next issue, of those with a label if one is given. If several callers claim it,
    /// one wins, and the others get the one after it.
    pub fn next(&self, label: Option<&str>, take: Take) -> Result<Next> {
        if let Take::Claim(ttl) = take {
            checked(ttl)?;
        }
        let deadline = self.deadline();
        self.recover(deadline)?;
        self.settle(&BoardLocks::default())?;
        if let Some(likely) = self.candidates()?
            && let Ok(Some(issue)) = self.take_first(likely.ids(self, label), take, None)?
        {
            return Ok(Next::Issue(issue));
        }
        // Everything is read before a caller is told that no issue is ready.
        let before = self.last_lines()?;
        let held = self.share(Part::Index, deadline)?;
        let list = self.read_all()?;
        drop(held);
        self.write_ready(&list, &before);
        let has_label =
            |issue: &&Issue| label.is_none_or(|label| issue.labels.iter().any(|own| own == label));
        let open = list.in_state(IssueState::Open).filter(has_label);
        let open: Vec<&Issue> = open.collect();
        let blocked = self.blocked(&list);
        let ready = open.iter().filter(|issue| !blocked.contains_key(&issue.id));
        let ids: Vec<IssueId> = ready.map(|issue| issue.id.clone()).collect();
        let ids = || ids.iter().cloned();
        let mut taken = self.take_first(ids(), take, None)?;
        if taken.is_err() {
            taken = self.take_first(ids(), take, Some(deadline))?;
        }
        if let Some(issue) = taken? {
            return Ok(Next::Issue(issue));
        }
        let claimed = |issue: &&&Issue| blocked.get(&issue.id) == Some(&Blocked::Claimed);
        let ends = open.iter().filter(|issue| claimed(issue));
        let ends = ends.filter_map(|issue| self.claim_ends_in(issue));
        let waits = |issue: &&&Issue| matches!(blocked.get(&issue.id), Some(Blocked::Waiting(..)));
        let waiting = open.iter().filter(waits).count();
        Ok(Next::Nothing(Unready {
            open: open.len(),
            // An issue that was ready a moment ago is claimed by now.
            claimed: open.len() - waiting,
            blocked: waiting,
            first_end: ends.min(),
            unreadable: list.unreadable,
        }))
    }

    /// Returns the first issue that is ready, and claims it if `take` says so, waiting for its lock
    /// until the deadline, if there is one. An issue that is locked or cannot be claimed is
    /// skipped; if no other is left, its error is the inner one.
    fn take_first(
        &self,
        ids: impl Iterator<Item = IssueId>,
        take: Take,
        deadline: Option<Instant>,
    ) -> Result<Result<Option<Box<Issue>>>> {
        let mut refused = None;
        for id in ids {
            let issue = match self.find_issue(&id) {
                Ok(Some((issue, _))) => issue,
                Ok(None) | Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            if !self.is_ready(&issue) {
                continue;
            }
            let taken = match take {
                Take::Look => return Ok(Ok(Some(Box::new(issue)))),
                Take::Claim(ttl) => {
                    self.claim_until(deadline.unwrap_or_else(Instant::now), &id, ttl)
                }
            };
            let error = match taken {
                Ok(issue) => return Ok(Ok(Some(Box::new(issue)))),
                Err(error) => error,
            };
            match error {
                // Another caller was faster, or changed it.
                error if error.fault::<Claimed>().is_some() => {}
                error if matches!(error.class(), Class::Conflict | Class::NotFound) => {}
                Error::Timeout { .. } | Error::Busy { .. } | Error::Corrupt { .. } => {
                    refused.get_or_insert(error);
                }
                Error::BadInput(problem) => {
                    refused.get_or_insert(Error::corrupt(self.names.issue(&id), problem));
                }
                error => return Err(error),
            }
        }
        Ok(refused.map_or(Ok(None), Err))
    }

    fn is_ready(&self, issue: &Issue) -> bool {
        let claim_status = claim_status(issue, "", self.moment());
        issue.state == IssueState::Open
            && matches!(claim_status, ClaimStatus::Unclaimed | ClaimStatus::Over(_))
            && Waits::of(issue, |on| self.is_done(on)).is_nothing()
    }

    fn claim_ends_in(&self, issue: &Issue) -> Option<Duration> {
        Some(issue.claim.as_ref()?.left_at(self.moment()))
    }
}
