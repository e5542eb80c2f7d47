//! Agents with what each holds, waits for and has claimed.

use std::collections::{BTreeSet, HashMap};

use tenure::records::RecordQuery;
use tenure::{Keeper, Owner, Query, Result, Timestamp, Waiting, clock};
use tenure_api::agents::{Agents, Listed, Ls};
use tenure_work::agents::claim_notes::{ClaimNotes, ClaimedIn};
use tenure_work::agents::decide::Decision;
use tenure_work::agents::state::{AGENT, Agent, AgentState, read};
use tenure_work::all_records::all_records;

use crate::{Caller, Handle, Service};

/// The largest number of leases on a page.
const PAGE: usize = 1000;

impl Handle<Ls> for Service {
    async fn handle(&self, request: Ls, caller: &Caller) -> Result<Agents> {
        let notes = ClaimNotes::new(&self.state_directory()?);
        // A listing does not make a store.
        if self.missing_store().is_some() {
            return Ok(Agents::default());
        }
        let keeper = self.locks(caller).await?;
        let slots = self.slots_if_made(caller).await?;
        let agents = listed(&keeper, slots.as_ref(), &notes, request.all).await?;
        Ok(Agents { agents, next: None })
    }
}

/// Returns the agents, the most recently seen first. `slots` is the store of the slots, if there is
/// one.
pub async fn listed(
    keeper: &Keeper,
    slots: Option<&Keeper>,
    notes: &ClaimNotes,
    all: bool,
) -> Result<Vec<Listed>> {
    let records = keeper.records("agents")?;
    let mut agents: Vec<Agent> = Vec::new();
    for record in all_records(&records, RecordQuery::new(AGENT)).await? {
        agents.push(shown(read(&record)?, clock::now()));
    }
    agents.retain(|agent| all || !matches!(agent.state, AgentState::Done | AgentState::Gone));
    agents.sort_by_key(|agent| std::cmp::Reverse(agent.last_seen));
    let owners: BTreeSet<Owner> = agents.iter().map(|agent| agent.owner.clone()).collect();
    let mut locks = LocksOf::default();
    for keeper in [Some(keeper), slots].into_iter().flatten() {
        locks.add(keeper, &owners).await?;
    }
    let listed = agents.into_iter().map(|agent| {
        let claimed = notes
            .of(&agent.owner)
            .into_iter()
            .map(|note| match note.kind {
                ClaimedIn::Board => format!("issue {}", note.id),
                ClaimedIn::Ledger => format!("node {}", note.id),
            });
        let of_agent = |locks: &HashMap<Owner, Vec<String>>| locks.get(&agent.owner).cloned();
        Listed {
            holds: of_agent(&locks.held).unwrap_or_default(),
            waits_for: of_agent(&locks.awaited).unwrap_or_default(),
            claims: claimed.collect(),
            agent,
        }
    });
    Ok(listed.collect())
}

/// The resources that owners hold and wait for. A store is asked once for all owners.
#[derive(Default)]
struct LocksOf {
    held: HashMap<Owner, Vec<String>>,
    awaited: HashMap<Owner, Vec<String>>,
}

impl LocksOf {
    async fn add(&mut self, keeper: &Keeper, owners: &BTreeSet<Owner>) -> Result<()> {
        let all = Query::default()
            .with_limit(PAGE)
            .with_owners(owners.clone());
        let mut page = keeper.list(&all).await?;
        let mut waiting_next = page.waiting_next.take();
        self.add_waiting(page.waiting.take());
        loop {
            for lease in page.held {
                let of_owner = self.held.entry(lease.owner).or_default();
                of_owner.push(lease.resource.to_string());
            }
            let Some(next) = page.next else { break };
            page = keeper
                .list(&all.clone().held_only().with_after(next))
                .await?;
        }
        while let Some(next) = waiting_next {
            let page = keeper.list(&all.clone().with_after(next)).await?;
            self.add_waiting(page.waiting);
            waiting_next = page.waiting_next;
        }
        Ok(())
    }

    fn add_waiting(&mut self, waiting: Option<Vec<Waiting>>) {
        for waiter in waiting.into_iter().flatten() {
            let of_owner = self.awaited.entry(waiter.owner).or_default();
            of_owner.push(waiter.resource.to_string());
        }
    }
}

/// Returns an agent as it is now: a stop that is due counts, although no process has written it
/// yet.
fn shown(agent: Agent, now: Timestamp) -> Agent {
    let mut decision = Decision::new(agent, None);
    decision.stop_if_due(now);
    decision.agent
}
