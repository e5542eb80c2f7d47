//! `tenure board next`, `claim`, `renew`, `release` and `done`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tenure::{Error, Result};
use tenure_board::issue::Issue;
use tenure_board::{Board, Next, Take, Unreadable, Unready};
use tenure_work::agents::claim_notes::ClaimedIn;

use super::open_board::OpenBoard;
use super::{Issues, answer};
use crate::agent::{forget, remember};
use crate::cli::{BoardClaim, BoardEnd, BoardNext, Global};
use crate::context::owner;
use crate::output::{self, word};
use crate::report::Failure;

/// How many issues that cannot be read are named in one message.
const NAMED_MAX: usize = 3;
/// The longest time between two looks at a board on which nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Prints the next issue.
pub fn next(global: &Global, options: &BoardNext) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open_to_claim(&options.terms, options.wait, options.ttl)?;
    let take = match options.claim {
        true => Take::Claim(options.ttl),
        false => Take::Look,
    };
    let mut waiting = NextWait::new(options.wait, options.label.clone());
    let next = |board: &Board| {
        Ok(match board.next(options.label.as_deref(), take)? {
            Next::Issue(issue) => Ok(issue),
            Next::Nothing(unready) => Err(unready),
        })
    };
    let issue = opened.wait_until(next, |unready| waiting.left(&unready))?;
    if options.claim {
        remember_claim(opened.board(), &issue);
    }
    if let Some(claim) = issue
        .claim
        .as_ref()
        .filter(|_| options.claim && !global.json)
    {
        let (token, until) = (claim.token, claim.expires_at);
        word(&format!(
            "claimed {} with token {token}, until {until}",
            issue.id
        ));
    }
    output::answer(global.json, &Issues::one(&issue), || {
        output::text(&format!("{}\n", issue.id))
    })
}

/// A wait for an issue that is ready.
pub struct NextWait {
    deadline: Option<Instant>,
    label: Option<String>,
    is_told: bool,
}

impl NextWait {
    pub fn new(wait: Option<Duration>, label: Option<String>) -> Self {
        let begun = Instant::now();
        Self {
            deadline: wait.and_then(|wait| begun.checked_add(wait)),
            label,
            is_told: false,
        }
    }

    /// Returns how long to wait before the next look. Fails if nothing is left to do, if that cannot be said, or if the wait
    /// is over.
    pub fn left(&mut self, unready: &Unready) -> Result<Duration> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let counts = counts(unready);
        let label = self.label.as_ref();
        let label = label.map_or(String::new(), |label| format!(" with the label {label}"));
        match &unready.unreadable[..] {
            _ if unready.open > 0 => {}
            [] => {
                let problem = format!("nothing is left to do{label}: {counts}");
                return Err(Error::NotFound(problem));
            }
            // Nobody knows whether it is done.
            [broken, others @ ..] => {
                let more = match others {
                    [] => String::new(),
                    others => format!("; nor can {}", some_of(others)),
                };
                let problem = format!("it cannot be read: {}{more}", broken.problem);
                return Err(Error::corrupt(&broken.path, problem));
            }
        }
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            let problem = format!("nothing is ready{label}: {counts}");
            return Err(Error::Unready { problem });
        };
        if !self.is_told {
            self.is_told = true;
            let limit = tenure::duration::show(left);
            word(&format!(
                "waiting for an issue to become ready, up to {limit}: {counts}"
            ));
        }
        // A claim may end without a word.
        let end = unready.first_end.unwrap_or(LOOK_EVERY) + Duration::from_millis(1);
        Ok(left.min(LOOK_EVERY).min(end))
    }
}

/// `a, b, c and 14 more`.
fn some_of(unreadable: &[Unreadable]) -> String {
    let (shown, more) = unreadable.split_at(unreadable.len().min(NAMED_MAX));
    let shown: Vec<&str> = shown.iter().map(|one| one.id.as_str()).collect();
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `5 open, 2 claimed, 3 blocked`.
fn counts(unready: &Unready) -> String {
    let Unready {
        open,
        claimed,
        blocked,
        unreadable,
        ..
    } = unready;
    let broken = match unreadable.len() {
        0 => String::new(),
        broken => format!(", and {broken} that cannot be read"),
    };
    format!("{open} open, {claimed} claimed, {blocked} blocked{broken}")
}

/// Claims an issue, and prints the token.
pub fn claim(global: &Global, options: &BoardClaim) -> Result<ExitCode, Failure> {
    match options.token {
        Some(_) => renew(global, options),
        None => claimed(global, options, |board| {
            board.claim(&options.id, options.ttl)
        }),
    }
}

/// Gives a claim more time.
pub fn renew(global: &Global, options: &BoardClaim) -> Result<ExitCode, Failure> {
    let BoardClaim { id, token, ttl, .. } = options;
    claimed(global, options, |board| board.renew(id, *token, *ttl))
}

fn claimed(
    global: &Global,
    options: &BoardClaim,
    work: impl FnOnce(&Board) -> Result<Issue>,
) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open_to_claim(&options.terms, None, options.ttl)?;
    let issue = opened.wait(Some(&options.id), work)?;
    remember_claim(opened.board(), &issue);
    output::answer(global.json, &Issues::one(&issue), || {
        let token = issue.claim.as_ref().map_or(0, |claim| claim.token);
        output::text(&format!("{token}\n"))
    })
}

/// Lets the hooks of an agent renew its claim.
fn remember_claim(board: &Board, issue: &Issue) {
    if let Some(claim) = &issue.claim {
        let place = (ClaimedIn::Board, board.directory());
        let id = issue.id.as_str();
        remember(place, id, &claim.owner, claim.token, claim.expires_at);
    }
}

fn forget_claim(board: &Board, options: &BoardEnd) -> Result<()> {
    let owner = owner(options.terms.owner.clone())?;
    let place = (ClaimedIn::Board, board.directory());
    forget(place, options.id.as_str(), &owner);
    Ok(())
}

/// Ends a claim.
pub fn release(global: &Global, options: &BoardEnd) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let (id, token) = (&options.id, options.token);
    let issue = opened.wait(Some(id), |board| board.release(id, token))?;
    forget_claim(opened.board(), options)?;
    answer(global, &issue, &format!("released {id}"))
}

/// Says that an issue is done.
pub fn done(global: &Global, options: &BoardEnd) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open(&options.terms)?;
    let (id, token) = (&options.id, options.token);
    let issue = opened.wait(Some(id), |board| board.done(id, token))?;
    forget_claim(opened.board(), options)?;
    answer(global, &issue, &format!("{id} is done"))
}
