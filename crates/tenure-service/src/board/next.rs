//! Finds the next issue that is ready, and claims it if the request says so.

use std::time::{Duration, Instant};

use tenure::{Error, Result, clock};
use tenure_api::board::{Issues, NextIssue, Unreadable};
use tenure_board::issue::Issue;
use tenure_board::{BoardError, Next, Take, Unready};

use super::call::BoardCall;
use crate::{Caller, Handle, Service};

/// The largest number of unreadable issues that one message names.
const NAMED_MAX: usize = 3;
/// The longest time between two looks at a board on which nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Handle<NextIssue> for Service {
    async fn handle(&self, request: NextIssue, caller: &Caller) -> Result<Issues> {
        let (call, found) = self.next_issue(request.clone(), caller).await?;
        if request.claim {
            call.remember_claim(&found.issue).await;
        }
        Ok(Issues::one(found.issue.shown()))
    }
}

/// The next issue, as it was found.
pub(super) struct Found {
    pub(super) issue: Issue,
    /// The time when it was asked for, in milliseconds since boot.
    pub(super) asked_ms: u64,
}

impl Service {
    /// Waits for the next issue to become ready, and claims it, as the request says.
    pub(super) async fn next_issue<'a>(
        &'a self,
        request: NextIssue,
        caller: &'a Caller,
    ) -> Result<(BoardCall<'a>, Found)> {
        let [wait, ttl] = [request.wait, request.ttl].map(|span| span.map(|span| span.0));
        let call = self.on_board_to_claim(request.board.as_deref(), wait, ttl, caller)?;
        let take = if request.claim {
            Take::Claim(ttl)
        } else {
            Take::Look
        };
        let mut waiting = NextWait::new(wait, request.label.clone());
        loop {
            let (asked_ms, label) = (clock::boot_now(), request.label.clone());
            let next = call.work(None, move |board| {
                let length = board.events_length()?;
                Ok((length, board.next(label.as_deref(), take)?))
            });
            let (length, unready) = match next.await? {
                (_, Next::Issue(issue)) => {
                    let issue = *issue;
                    return Ok((call, Found { issue, asked_ms }));
                }
                (length, Next::Nothing(unready)) => (length, unready),
            };
            let pause = waiting.left(&unready, caller)?;
            call.idle(move |board| board.wait_for_events(length, pause))
                .await?;
        }
    }
}

/// A wait for an issue that is ready.
struct NextWait {
    deadline: Option<Instant>,
    label: Option<String>,
    is_told: bool,
}

impl NextWait {
    fn new(wait: Option<Duration>, label: Option<String>) -> Self {
        let begun = Instant::now();
        Self {
            deadline: wait.and_then(|wait| begun.checked_add(wait)),
            label,
            is_told: false,
        }
    }

    /// Returns how long to wait before the next look. Fails if no open issue is left, if an
    /// unreadable issue leaves that unknown, or if the wait is over.
    fn left(&mut self, unready: &Unready, caller: &Caller) -> Result<Duration> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let counts = counts(unready);
        let label = self.label.as_ref();
        let label = label.map_or(String::new(), |label| format!(" with the label {label}"));
        match &unready.unreadable[..] {
            _ if unready.open > 0 => {}
            [] => {
                let which = format!("{label}: {counts}");
                return Err(BoardError::NothingLeft { which }.into());
            }
            // An issue that cannot be read may be open or done.
            [broken, others @ ..] => {
                let more = match others {
                    [] => String::new(),
                    others => format!("; nor can {}", some_of(others)),
                };
                let problem = format!("it cannot be read: {}{more}", broken.problem);
                return Err(Error::corrupt(&broken.file, problem));
            }
        }
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            let which = format!("{label}: {counts}");
            return Err(BoardError::Unready { which }.into());
        };
        if !self.is_told {
            self.is_told = true;
            let limit = tenure::duration::show(left);
            caller.observer().word(&format!(
                "waiting for an issue to become ready, up to {limit}: {counts}"
            ));
        }
        // The end of a claim makes no event, so look again then.
        let end = unready.first_end.unwrap_or(LOOK_EVERY) + Duration::from_millis(1);
        Ok(left.min(LOOK_EVERY).min(end))
    }
}

/// Returns a text such as `a, b, c and 14 more`.
fn some_of(unreadable: &[Unreadable]) -> String {
    let (shown, more) = unreadable.split_at(unreadable.len().min(NAMED_MAX));
    let shown: Vec<&str> = shown.iter().map(|one| one.id.as_str()).collect();
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns a text such as `5 open, 2 claimed, 3 blocked`.
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
