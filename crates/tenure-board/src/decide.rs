//! The one decision on claims, dependencies and gates.
//!
//! | asked for | done | unclaimed | its owner has it | over | another has it |
//! |---|---|---|---|---|---|
//! | claim | refused | acquired, unless blocked | refused: renew it | as unclaimed | busy |
//! | renew | refused | refused | renewed | renewed by its owner | refused |
//! | release | refused | refused | released | released by its owner | refused |
//! | done | refused | done, unless blocked | done, unless blocked | as unclaimed | refused |
//!
//! An issue is blocked while it waits for an issue that is not done, or for a gate that is not
//! passed. A token that is given must be the newest of its issue, even after the issue passed to
//! another owner. A claim that is over, and that no other owner took since, is still its owner's to
//! renew, release or complete.

use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tenure_core::error::Claimed;

use tenure_core::{Error, Owner, Remedy, Result, Timestamp};

use super::claim::BOARD_CLAIM_TTL_MAX;
use super::issue::{GateState, Issue, IssueClaim, IssueId, IssueState};

/// A request about the claim of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimRequest {
    Claim(Duration),
    Renew(Option<u64>, Duration),
    Release(Option<u64>),
    Done(Option<u64>),
}

/// The time by the clock on the wall and by the clock of the boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) now: Timestamp,
    pub(super) boot_ms: u64,
    pub(super) boot_id: &'a str,
}

/// The issues and gates that an issue waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// The issues that are not done.
    pub(super) issues: Vec<IssueId>,
    /// The gates that are not passed.
    pub(super) gates: Vec<(String, GateState)>,
}

/// The state of the claim of an issue, as one owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimStatus {
    Unclaimed,
    Own,
    /// Its time is over; true if it was this owner's.
    Over(bool),
    Others,
}

/// The reason why a claim request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IssueRefusal {
    Done,
    Blocked(Waits),
    Claimed(IssueClaim),
    OwnClaim(IssueClaim),
    NotOwner(IssueClaim),
    NotClaimed,
    /// The token given, and the newest.
    OtherToken(u64, u64),
}

impl Waits {
    /// Returns what an issue waits for; `is_done` tells if another issue is done.
    pub(super) fn of(issue: &Issue, mut is_done: impl FnMut(&IssueId) -> bool) -> Self {
        let issues = issue.depends_on.iter().filter(|id| !is_done(id));
        let gates = issue.gates.iter();
        let gates = gates.filter(|(_, state)| **state != GateState::Passed);
        Self {
            issues: issues.cloned().collect(),
            gates: gates.map(|(name, state)| (name.clone(), *state)).collect(),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.issues.is_empty() && self.gates.is_empty()
    }
}

/// Returns true if a claim is over.
pub(super) fn is_over(claim: &IssueClaim, moment: Moment<'_>) -> bool {
    if claim.boot_id == moment.boot_id {
        return claim.ends_boot_ms <= moment.boot_ms;
    }
    // A claim that lasts longer than any may was made by a clock that was wrong.
    claim.expires_at <= moment.now || claim.expires_at.since(moment.now) > BOARD_CLAIM_TTL_MAX
}

/// Returns the state of an issue's claim, as an owner sees it.
pub(super) fn claim_status(issue: &Issue, owner: &str, moment: Moment<'_>) -> ClaimStatus {
    match &issue.claim {
        None => ClaimStatus::Unclaimed,
        Some(claim) if is_over(claim, moment) => ClaimStatus::Over(claim.owner == owner),
        Some(claim) if claim.owner == owner => ClaimStatus::Own,
        Some(_) => ClaimStatus::Others,
    }
}

/// Decides a claim request, and returns the issue as it is after it.
pub(super) fn decide(
    issue: &Issue,
    waits: impl FnOnce() -> Waits,
    owner: &Owner,
    request: ClaimRequest,
    moment: Moment<'_>,
) -> Result<Issue, IssueRefusal> {
    if issue.state == IssueState::Done {
        return Err(IssueRefusal::Done);
    }
    let claim_status = claim_status(issue, owner.as_str(), moment);
    let claim = || issue.claim.clone().ok_or(IssueRefusal::NotClaimed);
    match (request, claim_status) {
        (ClaimRequest::Claim(_), ClaimStatus::Others) => {
            return Err(IssueRefusal::Claimed(claim()?));
        }
        (ClaimRequest::Claim(_), ClaimStatus::Own) => return Err(IssueRefusal::OwnClaim(claim()?)),
        (ClaimRequest::Claim(_), _) => {}
        (_, ClaimStatus::Others) => return Err(IssueRefusal::NotOwner(claim()?)),
        (ClaimRequest::Done(_), _) => {}
        (_, ClaimStatus::Unclaimed) => return Err(IssueRefusal::NotClaimed),
        (_, ClaimStatus::Over(false)) => return Err(IssueRefusal::NotOwner(claim()?)),
        (_, ClaimStatus::Own | ClaimStatus::Over(true)) => {}
    }
    if let ClaimRequest::Renew(Some(token), _)
    | ClaimRequest::Release(Some(token))
    | ClaimRequest::Done(Some(token)) = request
        && token != issue.last_token
    {
        return Err(IssueRefusal::OtherToken(token, issue.last_token));
    }
    if let ClaimRequest::Claim(_) | ClaimRequest::Done(_) = request {
        let waits = waits();
        if !waits.is_nothing() {
            return Err(IssueRefusal::Blocked(waits));
        }
    }
    let mut issue = issue.clone();
    match request {
        ClaimRequest::Claim(ttl) => {
            let clock = u64::try_from(moment.now.as_millis()).unwrap_or(0);
            issue.last_token = clock.max(issue.last_token + 1);
            let token = issue.last_token;
            issue.claim = Some(lasting(owner, token, moment.now, ttl, moment));
        }
        ClaimRequest::Renew(_, ttl) => {
            if let Some(claim) = &mut issue.claim {
                *claim = lasting(owner, claim.token, claim.acquired_at, ttl, moment);
            }
        }
        ClaimRequest::Release(_) => issue.claim = None,
        ClaimRequest::Done(_) => {
            issue.claim = None;
            issue.state = IssueState::Done;
        }
    }
    Ok(issue)
}

fn lasting(
    owner: &Owner,
    token: u64,
    acquired_at: Timestamp,
    ttl: Duration,
    moment: Moment<'_>,
) -> IssueClaim {
    IssueClaim {
        owner: owner.to_string(),
        token,
        acquired_at,
        expires_at: moment.now.after(ttl),
        boot_id: moment.boot_id.to_owned(),
        ends_boot_ms: moment.boot_ms + u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX / 2),
    }
}

/// Returns the circle that a dependency of `id` on `on` would close, beginning and ending with
/// `id`.
pub(super) fn cycle(
    id: &IssueId,
    on: &IssueId,
    mut depends_on: impl FnMut(&IssueId) -> Result<Vec<IssueId>>,
) -> Result<Option<Vec<IssueId>>> {
    let mut from: HashMap<IssueId, IssueId> = HashMap::new();
    let mut seen = HashSet::from([on.clone()]);
    let mut open = vec![on.clone()];
    while let Some(at) = open.pop() {
        if at == *id {
            let mut circle = vec![at.clone()];
            let mut step = &at;
            while let Some(before) = from.get(step) {
                circle.push(before.clone());
                step = before;
            }
            circle.push(id.clone());
            circle.reverse();
            return Ok(Some(circle));
        }
        for next in depends_on(&at)? {
            if seen.insert(next.clone()) {
                from.insert(next.clone(), at.clone());
                open.push(next);
            }
        }
    }
    Ok(None)
}

/// Returns the error of a refusal.
pub(super) fn refused(id: &IssueId, owner: &Owner, refusal: IssueRefusal) -> Error {
    match refusal {
        IssueRefusal::Done => Error::conflict(
            format!("{id} is done already"),
            Remedy::of(
                "if it is to be done again: {board.set issue state=open}",
                &[id.as_str()],
            ),
        ),
        IssueRefusal::Blocked(waits) => {
            let remedy = match waits.issues.first() {
                Some(first) => Remedy::of(
                    "see what is left to do there: {board.show issue}",
                    &[first.as_str()],
                ),
                None => Remedy::from("have it passed: ").then(judged(
                    id,
                    &waits.gates[0].0,
                    GateState::Passed,
                )),
            };
            Error::conflict(format!("{id} is blocked: {waits}"), remedy)
        }
        IssueRefusal::Claimed(claim) => Claimed {
            preface: "",
            resource: id.resource(),
            owner: claim.owner,
            expires_at: claim.expires_at,
        }
        .into(),
        IssueRefusal::OwnClaim(claim) => Error::conflict(
            format!(
                "{id} is claimed by {owner} itself, with token {}, until {}",
                claim.token, claim.expires_at
            ),
            Remedy::of(
                "give it more time with: {board.renew issue}; agents that share an owner need one each: {.owner}",
                &[id.as_str()],
            ),
        ),
        IssueRefusal::NotOwner(claim) => Error::not_allowed(
            format!(
                "{id} is claimed by {} until {}, not by {owner}",
                claim.owner, claim.expires_at
            ),
            "only its owner may do this: {$owner}",
        ),
        IssueRefusal::NotClaimed => Error::not_allowed(
            format!("{id} is not claimed: it was released, or never claimed"),
            Remedy::of("claim it: {board.claim issue}", &[id.as_str()]),
        ),
        IssueRefusal::OtherToken(token, last) if token > last => Error::not_allowed(
            format!("token {token} of {id} was never granted; the newest is {last}"),
            "use the token that claim printed",
        ),
        IssueRefusal::OtherToken(token, last) => Error::not_allowed(
            format!("token {token} of {id} is older than the newest, {last}: it was claimed again"),
            "stop the work under the old token",
        ),
    }
}

/// Returns the remedy that names the call to pass or fail a gate.
pub(super) fn judged(id: &IssueId, gate: &str, verdict: GateState) -> Remedy {
    let verdict = match verdict {
        GateState::Passed => "pass",
        _ => "fail",
    };
    Remedy::of(
        "{board.gate.judge verdict issue gate}",
        &[verdict, id.as_str(), gate],
    )
}

impl std::fmt::Display for Waits {
    /// `it waits for a, b and for the gate review (pending)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let issues: Vec<&str> = self.issues.iter().map(IssueId::as_str).collect();
        let gate = |(name, state): &(String, GateState)| format!("{name} ({state})");
        let gates: Vec<String> = self.gates.iter().map(gate).collect();
        f.write_str("it waits for ")?;
        f.write_str(&issues.join(", "))?;
        if !issues.is_empty() && !gates.is_empty() {
            f.write_str(" and for ")?;
        }
        if !gates.is_empty() {
            let what = if gates.len() == 1 { "gate" } else { "gates" };
            write!(f, "the {what} {}", gates.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
