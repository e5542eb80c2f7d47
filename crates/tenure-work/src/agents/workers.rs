//! The background work on agents.
//!
//! All workers share one loop, [`for_each_unlocked`]. It skips an agent whose lock is held, and
//! tries it again in the next cycle. Else it takes the lock, reads the agent anew, works on it and
//! commits inside the lock, and gives the lock and its connection back before the next agent.
//!
//! | worker | task |
//! |---|---|
//! | spool | processes events that hooks could not |
//! | stops | carries out stops that are due |
//! | reaper | calls agents gone that were not seen for long. This is a label: the next event lifts it, and no lease ends by it |
//! | ledgers | reaps the ledgers that agents have claimed in |
//! | reconciler | adds the turns that only the transcript has, see `reconcile` |
//! | poller | reads the number of tokens that were used, from the transcript, too |
//! | watchdog | calls agents gone whose tmux pane is gone |
//! | settler | marks agents that are done or gone, some time after they were seen last: the other workers leave them alone from then on |

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;
use tenure::patterns::{EntityLocks, for_each_unlocked};
use tenure::records::{Column, RecordQuery};
use tenure::{Error, Result, Timestamp};
use tenure_os::blocking::blocking;

use super::decide::Decision;
use super::processor::{HOOK_WAIT, Named, Processor};
use super::reconcile::transcript_of;
use super::state::{AGENT, Agent, AgentState, UNSETTLED, agent_key, read};
use crate::all_records::all_records;

/// The default time after which an agent that was not seen is called gone.
pub const GONE_AFTER: Duration = Duration::from_secs(60 * 60);
/// The time after the last sight of a done or gone agent until it is left alone: its transcript may
/// be written late.
const SETTLED_AFTER: Duration = Duration::from_secs(30);

/// Returns the panes of the tmux at a socket, or `None` if tmux cannot be asked.
pub type Panes<'a> = dyn Fn(&str) -> Option<Vec<String>> + Sync + 'a;

/// The workers, and the settings they need.
pub struct Workers<'a, L> {
    /// The processor of events.
    pub processor: Processor<'a, L>,
    /// The time after which an agent that was not seen is called gone.
    pub gone_after: Duration,
    /// Asks tmux for the panes of a socket.
    pub panes: &'a Panes<'a>,
}

/// The results of one cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// The number of agents with events that hooks could not process.
    pub spooled: usize,
    /// The number of stops that were carried out.
    pub stopped: usize,
    /// The number of agents that were called gone.
    pub gone: usize,
    /// The number of turns added from transcripts.
    pub turns: usize,
    /// The number of agents whose tokens changed.
    pub contexts: usize,
    /// The number of turns that got a summary.
    pub summaries: usize,
    /// The number of claims in ledgers that were over and are ended.
    pub reaped: usize,
    /// The number of agents that were skipped, as their locks were held.
    pub skipped: usize,
    /// The actions that failed.
    pub warnings: Vec<String>,
}

impl<L: EntityLocks> Workers<'_, L> {
    /// Goes through all agents, once for each worker.
    ///
    /// # Errors
    ///
    /// Errors of the store when agents are listed. A failure of one agent is among the warnings.
    pub async fn cycle(&self) -> Result<Cycle> {
        let cycle = Mutex::new(Cycle::default());
        self.spooled(&cycle).await?;
        let agents = self.agents().await?;
        let is_due = |agent: &Agent| agent.stop_due.is_some();
        self.each(&agents, is_due, &cycle, |session| {
            self.stop(session, &cycle)
        })
        .await?;
        self.each(&agents, is_at_work, &cycle, |session| {
            self.reap(session, &cycle)
        })
        .await?;
        let has_transcript = |agent: &Agent| agent.transcript_path.is_some();
        self.each(&agents, has_transcript, &cycle, |session| {
            self.reconcile(session, &cycle)
        })
        .await?;
        self.each(&agents, has_transcript, &cycle, |session| {
            self.poll(session, &cycle)
        })
        .await?;
        let has_pane = |agent: &Agent| {
            is_at_work(agent) && agent.tmux.is_some() && agent.host == self.processor.host
        };
        self.each(&agents, has_pane, &cycle, |session| {
            self.watch_pane(session, &cycle)
        })
        .await?;
        let is_over = |agent: &Agent| !is_at_work(agent);
        self.each(&agents, is_over, &cycle, |session| self.mark_over(session))
            .await?;
        let mut cycle = tenure_core::internal::lock(&cycle).clone();
        let (reaped, warnings) = blocking(|| self.processor.claim_notes.reap());
        cycle.reaped = reaped;
        cycle.warnings.extend(warnings);
        Ok(cycle)
    }

    /// Returns the agents that are at work, or were a moment ago.
    async fn agents(&self) -> Result<Vec<Agent>> {
        let column = Column::Subject(UNSETTLED.to_owned());
        let query = RecordQuery::new(AGENT).with_column(column);
        let agents = all_records(&self.processor.records()?, query).await?;
        agents.iter().map(read).collect()
    }

    /// Goes through the agents that are `wanted`, each under its lock, as every worker does.
    async fn each<'s, W>(
        &self,
        agents: &'s [Agent],
        wanted: impl Fn(&Agent) -> bool,
        cycle: &Mutex<Cycle>,
        work: impl Fn(&'s str) -> W,
    ) -> Result<()>
    where
        W: Future<Output = Result<()>>,
    {
        let wanted = agents.iter().filter(|agent| wanted(agent));
        let sessions: HashMap<i32, &str> = wanted
            .map(|agent| (agent.id, agent.session.as_str()))
            .collect();
        let mut ids: Vec<i32> = sessions.keys().copied().collect();
        ids.sort_unstable();
        let tally = for_each_unlocked(self.processor.locks, ids, |id, _| {
            let worked = work(sessions[&id]);
            async move {
                if let Err(error) = worked.await {
                    note(cycle, |cycle| cycle.warnings.push(error.to_string()));
                }
                Ok::<_, Error>(())
            }
        });
        let tally = tally.await?;
        note(cycle, |cycle| cycle.skipped += tally.skipped);
        Ok(())
    }

    /// Processes the events in the spool. Their agents may be new.
    async fn spooled(&self, cycle: &Mutex<Cycle>) -> Result<()> {
        let processor = &self.processor;
        let mut agents = Vec::new();
        for session in processor.spool.sessions()? {
            let Some(waiting) = processor.spool.waiting(&session, None)? else {
                continue;
            };
            let first = waiting.events().next().and_then(|first| first.event().ok());
            let Some(first) = first else { continue };
            processor.number(&first).await?;
            let record = processor.records()?.read(&agent_key(&session)?).await?;
            agents.extend(record.as_ref().map(read::<Agent>).transpose()?);
        }
        self.each(
            &agents,
            |_| true,
            cycle,
            |session| async move {
                let drained = processor
                    .process_spooled(session, Instant::now() + HOOK_WAIT)
                    .await?;
                note(cycle, |cycle| {
                    cycle.spooled += 1;
                    cycle.warnings.extend(drained.warnings);
                });
                Ok(())
            },
        )
        .await
    }

    /// Carries out a stop that is due.
    async fn stop(&self, session: &str, cycle: &Mutex<Cycle>) -> Result<()> {
        let apply =
            |mut decision: Decision, now: Timestamp| decision.stop_if_due(now).then_some(decision);
        let stopped = self.change(session, &apply).await?;
        note(cycle, |cycle| cycle.stopped += usize::from(stopped));
        Ok(())
    }

    /// Calls an agent gone that was not seen for long.
    async fn reap(&self, session: &str, cycle: &Mutex<Cycle>) -> Result<()> {
        let long = self.gone_after;
        let apply = |mut decision: Decision, now: Timestamp| {
            let unseen = now.since(decision.agent.last_seen);
            if !is_at_work(&decision.agent) || unseen < long {
                return None;
            }
            let since = tenure::duration::show(unseen);
            decision.call_gone(&format!("not seen for {since}"));
            Some(decision)
        };
        let gone = self.change(session, &apply).await?;
        note(cycle, |cycle| cycle.gone += usize::from(gone));
        Ok(())
    }

    /// Calls an agent gone whose pane is gone.
    async fn watch_pane(&self, session: &str, cycle: &Mutex<Cycle>) -> Result<()> {
        let Some(agent) = self.reread(session).await? else {
            return Ok(());
        };
        let Some((pane, socket)) = agent.tmux.clone() else {
            return Ok(());
        };
        let Some(panes) = (self.panes)(&socket) else {
            return Ok(());
        };
        if panes.contains(&pane) {
            return Ok(());
        }
        let apply = |mut decision: Decision, _: Timestamp| {
            // The agent has moved to another pane since.
            if decision.agent.tmux != agent.tmux || !is_at_work(&decision.agent) {
                return None;
            }
            decision.call_gone(&format!("its tmux pane {pane} is gone"));
            Some(decision)
        };
        let gone = self.change(session, &apply).await?;
        note(cycle, |cycle| cycle.gone += usize::from(gone));
        Ok(())
    }

    /// Adds the turns that only the transcript has.
    async fn reconcile(&self, session: &str, cycle: &Mutex<Cycle>) -> Result<()> {
        let Some(agent) = self.reread(session).await? else {
            return Ok(());
        };
        let added = self.processor.reconcile(&agent).await?;
        note(cycle, |cycle| cycle.turns += added);
        Ok(())
    }

    /// Reads the number of tokens that were used.
    async fn poll(&self, session: &str, cycle: &Mutex<Cycle>) -> Result<()> {
        let Some(agent) = self.reread(session).await? else {
            return Ok(());
        };
        let context = transcript_of(&agent).context;
        if context.is_none() || context == agent.context {
            return Ok(());
        }
        let apply = |mut decision: Decision, _: Timestamp| {
            decision.agent.context = context;
            Some(decision)
        };
        self.change(session, &apply).await?;
        note(cycle, |cycle| cycle.contexts += 1);
        Ok(())
    }

    /// Marks an agent that is done or gone, so that it is not looked at again before its next
    /// event.
    async fn mark_over(&self, session: &str) -> Result<()> {
        let apply = |mut decision: Decision, now: Timestamp| {
            let agent = &mut decision.agent;
            let is_over = !is_at_work(agent) && agent.stop_due.is_none();
            if !is_over || now.since(agent.last_seen) < SETTLED_AFTER {
                return None;
            }
            agent.is_settled = true;
            Some(decision)
        };
        self.change(session, &apply).await.map(drop)
    }

    /// Changes an agent, and returns true unless there was nothing to change.
    async fn change(
        &self,
        session: &str,
        apply: &(dyn Fn(Decision, Timestamp) -> Option<Decision> + Send + Sync),
    ) -> Result<bool> {
        let named = Named::default();
        let changed = self.processor.change(session, &named, apply).await?;
        Ok(changed.is_some())
    }

    async fn reread(&self, session: &str) -> Result<Option<Agent>> {
        let record = self.processor.records()?.read(&agent_key(session)?).await?;
        record.as_ref().map(read).transpose()
    }
}

fn is_at_work(agent: &Agent) -> bool {
    !matches!(agent.state, AgentState::Done | AgentState::Gone)
}

fn note(cycle: &Mutex<Cycle>, add: impl FnOnce(&mut Cycle)) {
    add(&mut tenure_core::internal::lock(cycle));
}
