//! Agents, locks, slots and the board on one page.

use std::collections::BTreeMap;

use tenure::{Class, Listing, Query, Result};
use tenure_api::status::{IssueCounts, SlotUse, Status, StatusPage};
use tenure_board::Board;
use tenure_board::issue::IssueState;
use tenure_os::blocking::blocking;
use tenure_work::agents::claim_notes::ClaimNotes;

use crate::agents::listed;
use crate::{Caller, Handle, Service, WAIT_DEFAULT};

impl Handle<Status> for Service {
    async fn handle(&self, _: Status, caller: &Caller) -> Result<StatusPage> {
        let mut page = StatusPage {
            agents: Vec::new(),
            listing: Listing::new(Vec::new(), None).with_waiting(Vec::new(), None),
            slots: self.slots_in_use(caller).await?,
            board: blocking(|| self.issue_counts())?,
        };
        // A look does not make a store.
        if self.missing_store().is_some() {
            return Ok(page);
        }
        let keeper = self.locks(caller).await?;
        let notes = ClaimNotes::new(&self.state_directory()?);
        page.listing = keeper.list(&Query::default()).await?;
        // A store without records has no agents.
        let slots = self.slots_if_made(caller).await?;
        page.agents = match listed(&keeper, slots.as_ref(), &notes, false).await {
            Err(error) if error.class() == Class::Configuration => Vec::new(),
            agents => agents?,
        };
        Ok(page)
    }
}

impl Service {
    async fn slots_in_use(&self, caller: &Caller) -> Result<Vec<SlotUse>> {
        let mut slots: BTreeMap<String, SlotUse> = BTreeMap::new();
        let Some(keeper) = self.slots_if_made(caller).await? else {
            return Ok(Vec::new());
        };
        let listing = keeper.list(&Query::default()).await?;
        let held = listing.held.iter().map(|lease| (lease.resource.id(), true));
        let waiting = listing.waiting.iter().flatten();
        let waiting = waiting.map(|waiter| (waiter.resource.id(), false));
        for (slot, is_held) in held.chain(waiting) {
            let used = slots.entry(slot.to_owned()).or_default();
            slot.clone_into(&mut used.slot);
            if is_held {
                used.held += 1;
            } else {
                used.waiting += 1;
            }
        }
        Ok(slots.into_values().collect())
    }

    /// Counts the issues, if there is a board.
    fn issue_counts(&self) -> Result<Option<IssueCounts>> {
        let directory = self.board_directory()?;
        if !directory.join("index.json").exists() {
            return Ok(None);
        }
        let board = Board::open(&directory, WAIT_DEFAULT)?;
        let list = board.list()?;
        let blocked = board.blocked(&list);
        let mut counts = IssueCounts::default();
        for issue in &list.issues {
            if issue.state == IssueState::Done {
                counts.done += 1;
                continue;
            }
            counts.open += 1;
            let is_claimed = issue.claim.is_some() && !board.is_claim_over(issue);
            match (is_claimed, blocked.contains_key(&issue.id)) {
                (true, _) => counts.claimed += 1,
                (false, true) => counts.blocked += 1,
                (false, false) => counts.ready += 1,
            }
        }
        Ok(Some(counts))
    }
}
