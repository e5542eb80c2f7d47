//! Agents with what each holds, waits for and has claimed.

use serde::Serialize;
use tenure::records::RecordQuery;
use tenure::{Keeper, Query, Result, Timestamp, clock};
use tenure_work::agents::claim_notes::{ClaimNotes, ClaimedIn};
use tenure_work::agents::decide::Decision;
use tenure_work::agents::state::{AGENT, Agent, AgentState, read};

use crate::people::ago;
use crate::table::Table;

/// An agent, as JSON shows it.
#[derive(Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub agent: Agent,
    /// The resources it holds.
    pub holds: Vec<String>,
    /// The resources it waits for.
    pub waits_for: Vec<String>,
    /// The issues and nodes it has claimed.
    pub claims: Vec<String>,
}

/// Returns the agents, those that were seen last first. `slots` is the store of the slots, if there is one.
pub async fn agents(
    keeper: &Keeper,
    slots: Option<&Keeper>,
    notes: &ClaimNotes,
    all: bool,
) -> Result<Vec<Listed>> {
    let records = keeper.records("agents")?;
    let mut query = RecordQuery::new(AGENT);
    let mut agents: Vec<Agent> = Vec::new();
    loop {
        let page = records.list(&query).await?;
        for record in &page.records {
            agents.push(shown(read(record)?, clock::now()));
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    agents.retain(|agent| all || !matches!(agent.state, AgentState::Done | AgentState::Gone));
    agents.sort_by_key(|agent| std::cmp::Reverse(agent.last_seen));
    let mut listed = Vec::new();
    for agent in agents {
        let query = Query::default().with_owner(agent.owner.clone());
        let (mut holds, mut waits_for) = (Vec::new(), Vec::new());
        for keeper in [Some(keeper), slots].into_iter().flatten() {
            let page = keeper.list(&query).await?;
            holds.extend(page.held.iter().map(|lease| lease.resource.to_string()));
            let waiting = page.waiting.iter().flatten();
            waits_for.extend(waiting.map(|waiter| waiter.resource.to_string()));
        }
        let claimed = notes
            .of(&agent.owner)
            .into_iter()
            .map(|note| match note.kind {
                ClaimedIn::Board => format!("issue {}", note.id),
                ClaimedIn::Ledger => format!("node {}", note.id),
            });
        listed.push(Listed {
            holds,
            waits_for,
            claims: claimed.collect(),
            agent,
        });
    }
    Ok(listed)
}

/// Returns an agent as it is now: a stop that is due counts, although nobody has written it yet.
fn shown(agent: Agent, now: Timestamp) -> Agent {
    let mut decision = Decision::new(agent, None);
    decision.stop_if_due(now);
    decision.agent
}

/// Returns the table of agents.
pub fn table(agents: &[Listed]) -> Table {
    let headings = vec![
        "AGENT",
        "STATE",
        "SEEN",
        "DOING",
        "HOLDS",
        "WAITS FOR",
        "CLAIMED",
    ];
    let mut table = Table::new(headings).with_colours(1, colour);
    for listed in agents {
        let agent = &listed.agent;
        let doing = agent.doing.clone().or(agent.reason.clone());
        table.push([
            agent.owner.to_string(),
            agent.state.as_str().to_owned(),
            ago(agent.last_seen),
            doing.unwrap_or_default(),
            listed.holds.join(" "),
            listed.waits_for.join(" "),
            listed.claims.join(", "),
        ]);
    }
    table
}

fn colour(state: &str) -> &'static str {
    match state {
        "running" => "\u{1b}[32m",
        "waiting" => "\u{1b}[33m",
        "gone" => "\u{1b}[31m",
        _ => "",
    }
}
