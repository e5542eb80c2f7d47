//! The check for leftovers of earlier work, in stores of every kind.

use tenure::leases::Recovery;
use tenure::store::Examined;
use tenure::{Keeper, LeaseState, Query, Result};
use tenure_core::store::Found;

use super::counted;
use crate::waiting::is_run_unseen;
use crate::{Caller, Service};

const NAME: &str = "leftovers";

/// Checks for leases that no process can prove or needs, for waiters, and for leases whose `run` is
/// not seen.
pub async fn all(service: &Service, caller: &Caller, keeper: &Keeper) -> Examined {
    match found(caller, keeper).await {
        Ok(check) => check,
        Err(error) => service.failed(NAME, &error),
    }
}

async fn found(caller: &Caller, keeper: &Keeper) -> Result<Examined> {
    let counts = Counts::of(keeper).await?;
    let mut detail = counts.in_words();
    if keeper.keeps_leases() {
        let found = keeper.recover(caller.owner(), Recovery::DryRun).await?;
        let stale = found.iter().filter(|finding| finding.recoverable).count();
        detail += &format!(
            ", {}, {}",
            counted(counts.waiting, "waiter"),
            counted(stale, "stale lease")
        );
        if stale > 0 {
            detail += &caller.in_words(" ({recover} ends what is stale)");
        }
    }
    if counts.unknown > 0 {
        let detail = format!(
            "{detail}; {} of a session that is neither proved alive nor dead",
            counted(counts.unknown, "lease")
        );
        let remedy = "see STATE in {ls}; if its holder is gone, end it with: \
                      {break lease=LEASE reason=TEXT}";
        return Ok(Found::bad(detail, remedy).of(NAME));
    }
    Ok(Found::good(detail).of(NAME))
}

/// The numbers of leases and waiters.
#[derive(Default)]
struct Counts {
    held: usize,
    unseen: usize,
    unknown: usize,
    waiting: usize,
}

impl Counts {
    async fn of(keeper: &Keeper) -> Result<Self> {
        let mut query = Query::default();
        let mut counts = Self::default();
        loop {
            let page = keeper.list(&query).await?;
            counts.held += page.held.len();
            counts.unseen += page.held.iter().filter(|l| is_run_unseen(l)).count();
            let unknown = page.held.iter().filter(|l| l.state == LeaseState::Unknown);
            counts.unknown += unknown.count();
            counts.waiting += page.waiting.map_or(0, |waiting| waiting.len());
            if page.next.is_none() {
                return Ok(counts);
            }
            query.after = page.next;
        }
    }

    fn in_words(&self) -> String {
        format!(
            "{} held, {} whose run is not seen here",
            counted(self.held, "lease"),
            self.unseen
        )
    }
}
