//! The next issue: lowest priority number, then oldest, of those that wait for nothing and nobody has.

use std::time::Duration;

use tenure_core::{Class, Error, Result};

use super::Board;
use super::claiming::checked;
use super::decide::{ClaimStatus, Waits, claim_status};
use super::issue::{Issue, IssueId, IssueState};
use super::lock::BoardLocks;
use super::names::Part;
use super::read::Blocked;

/// The action on the next issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Only look.
    Look,
    /// Claim it, for 15 minutes or for this long.
    Claim(Option<Duration>),
}

/// The next issue, or why there is none.
#[derive(Debug)]
pub enum Next {
    /// The issue, claimed if that was asked for.
    Issue(Box<Issue>),
    /// Nothing is ready.
    Nothing(Unready),
}

/// The number of open issues, and the reasons why none of them is ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unready {
    /// Issues that are not done.
    pub open: usize,
    /// The number of issues that are claimed.
    pub claimed: usize,
    /// The number of issues that wait for others, or for a gate.
    pub blocked: usize,
    /// Issues whose file cannot be read.
    pub unreadable: usize,
    /// The time until the first claim ends, if there is one.
    pub first_end: Option<Duration>,
}

impl Board {
    /// Returns the next issue, of those with a label if one is given. Of all who claim it, one wins, and the others get
    /// the one after it.
    pub fn next(&self, label: Option<&str>, take: Take) -> Result<Next> {
        if let Take::Claim(ttl) = take {
            checked(ttl)?;
        }
        self.recover(self.deadline())?;
        self.settle(&BoardLocks::default())?;
        let likely = self.candidates(label)?;
        if let Some(issue) = self.take_first(likely.unwrap_or_default(), take)? {
            return Ok(Next::Issue(issue));
        }
        // Before anyone is told that there is nothing, everything is read.
        let before = self.last_lines()?;
        let held = self.share(Part::Index)?;
        let list = self.read_all()?;
        drop(held);
        self.write_ready(&list, &before);
        let has_label =
            |issue: &&Issue| label.is_none_or(|label| issue.labels.iter().any(|own| own == label));
        let open = list
            .issues
            .iter()
            .filter(|issue| issue.state == IssueState::Open);
        let open: Vec<&Issue> = open.filter(has_label).collect();
        let blocked = self.blocked(&list);
        let ready = open.iter().filter(|issue| !blocked.contains_key(&issue.id));
        let ids = ready.map(|issue| issue.id.clone()).collect();
        if let Some(issue) = self.take_first(ids, take)? {
            return Ok(Next::Issue(issue));
        }
        let claimed = |issue: &&&Issue| blocked.get(&issue.id) == Some(&Blocked::Claimed);
        let ends = open.iter().filter(|issue| claimed(issue));
        let ends = ends.filter_map(|issue| self.claim_ends_in(issue));
        let claimed = open.iter().filter(claimed).count();
        Ok(Next::Nothing(Unready {
            open: open.len(),
            claimed,
            blocked: open.len() - claimed,
            unreadable: list.unreadable.len(),
            first_end: ends.min(),
        }))
    }

    /// Returns the first that is ready, and claims it.
    fn take_first(&self, ids: Vec<IssueId>, take: Take) -> Result<Option<Box<Issue>>> {
        for id in ids {
            let issue = match self.load_issue(&id) {
                Ok((issue, _)) => issue,
                Err(Error::Corrupt { .. } | Error::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            if !self.is_ready(&issue) {
                continue;
            }
            let taken = match take {
                Take::Look => return Ok(Some(Box::new(issue))),
                Take::Claim(ttl) => self.claim(&id, ttl),
            };
            match taken {
                Ok(issue) => return Ok(Some(Box::new(issue))),
                // Another one was faster, or changed it.
                Err(Error::Claimed { .. } | Error::Corrupt { .. } | Error::NotFound(_)) => {}
                Err(error) if error.class() == Class::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn is_ready(&self, issue: &Issue) -> bool {
        let claim_status = claim_status(issue, "", self.moment());
        issue.state == IssueState::Open
            && matches!(claim_status, ClaimStatus::Unclaimed | ClaimStatus::Over(_))
            && Waits::of(issue, |on| self.is_done(on)).is_nothing()
    }

    fn claim_ends_in(&self, issue: &Issue) -> Option<Duration> {
        let claim = issue.claim.as_ref()?;
        let moment = self.moment();
        Some(match claim.boot_id == moment.boot_id {
            true => Duration::from_millis(claim.ends_boot_ms.saturating_sub(moment.boot_ms)),
            false => claim.expires_at.since(moment.now),
        })
    }
}
