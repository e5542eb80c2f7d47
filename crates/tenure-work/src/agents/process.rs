//! Processing of an event, and every other change of an agent.
//!
//! # Steps
//!
//! 1. The agent's number is looked up by its session. An agent that is new gets one from the counter, in one change: of two first events one
//!    makes the record, and the other finds it.
//! 2. The agent's lock is taken: on PostgreSQL the advisory lock (AGENT, number) on a connection of its own, which other programs meet, elsewhere
//!    `agent:NUMBER` in the keeper. Events of one agent are processed one at a time, in the order of the grants.
//! 3. Events that wait in the spool come first, each in a change of its own.
//! 4. The record is read anew, under the lock. What the event makes of it is decided by [`Decision::after`], and committed, inside the
//!    lock. The version that was read is compared: a program that changed it without the lock makes this step again.
//! 5. Claims and leases of the agent get more time, or end. This comes after the commit: if the process dies before it, the next event
//!    does it, or they run out by their own rules.
//! 6. The lock is given back.
//!
//! A crash before the commit of 4 leaves the agent as it was, and the event unreported. If the lock was not to be had in time, or the store did not
//! answer, the caller adds the event to the spool, with its id. The record remembers the ids of its last events: one that was committed
//! although its hook never heard of it is not processed again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure::patterns::{EntityLocks, under};
use tenure::records::{Changes, Columns, Expected, RecordChange, RecordKey, Records, Seen};
use tenure::{Binding, Error, Keeper, Lease, Owner, Query, Result, Timestamp};

use super::claim_notes::ClaimNotes;
use super::decide::{ClaimAction, Decision};
use super::event::HookEvent;
use super::spool::Spool;
use super::state::{
    Agent, AgentState, Command, Watched, agent_key, command_key, counter_key, read, turn_key,
};

/// The default time that a hook waits for the agent's lock.
pub const HOOK_WAIT: Duration = Duration::from_secs(1);
/// The number of tries of a change whose record somebody changed without the lock.
const TRIES: usize = 5;
/// How many ids of events a record remembers: more hooks of one agent are not under way at once.
const PROCESSED_MAX: usize = 16;
/// How many turns one change may add.
pub(super) const TURNS_MAX: u32 = 3;

/// Processes the events of agents.
pub struct Processor<'a, L> {
    /// The store.
    pub keeper: &'a Keeper,
    /// The locks of agents.
    pub locks: &'a L,
    /// The events that wait.
    pub spool: Spool,
    /// The claims of agents.
    pub claim_notes: ClaimNotes,
    /// The host this runs on.
    pub host: String,
    /// True if of a command only the tool that runs it is shown.
    pub hides_commands: bool,
}

/// An event that is to be processed.
pub struct Incoming<'a> {
    /// The event.
    pub event: &'a HookEvent,
    /// Its id, by which it is known in the spool.
    pub id: &'a str,
    /// How long it may take. The lock of the agent is waited for until a quarter of the time is left.
    pub deadline: Instant,
}

/// The result of an event.
#[derive(Debug)]
pub struct Processed {
    /// The agent as it is now.
    pub agent: Agent,
    /// True if the agent is to be told about Tenure in the answer to this event.
    pub needs_introduction: bool,
    /// Files that others edit, as they were before the command of the shell that this event ends.
    pub watched: Vec<Watched>,
    /// What could not be done, for people.
    pub warnings: Vec<String>,
}

/// Returns a new agent.
pub(super) fn new_agent(event: &HookEvent, id: i32, now: Timestamp, host: &str) -> Agent {
    Agent {
        id,
        session: event.session.clone(),
        program: event.program,
        owner: event.owner(),
        state: AgentState::Idle,
        reason: None,
        doing: None,
        task: None,
        cwd: event.cwd(),
        model: None,
        transcript_path: None,
        tmux: None,
        host: host.to_owned(),
        started_at: now,
        last_seen: now,
        prompt_injected_at: None,
        stop_due: None,
        last_words: None,
        commands: 0,
        is_command_open: false,
        turns: 0,
        context: None,
        watched: Vec::new(),
        spooled: None,
        processed: Vec::new(),
        is_settled: false,
        other_events: serde_json::Map::new(),
        other_fields: serde_json::Map::new(),
        more: serde_json::Map::new(),
    }
}

impl<L: EntityLocks> Processor<'_, L> {
    /// Returns the records.
    pub(super) fn records(&self) -> Result<Records<'_>> {
        self.keeper.records("agents")
    }

    /// Processes an event of a hook. `also` changes the agent in the same change.
    ///
    /// # Errors
    ///
    /// `Timeout` if the agent's lock was not free in time; nothing was changed then. Those of the store.
    pub async fn process(
        &self,
        incoming: &Incoming<'_>,
        also: &(dyn Fn(&mut Agent) + Send + Sync),
    ) -> Result<Processed> {
        let Incoming {
            event,
            id,
            deadline,
        } = *incoming;
        let number = self.number(event).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let guard = self.locks.lock(number, left * 3 / 4).await?;
        under(guard, async {
            let mut warnings = self.process_spooled(&event.session, deadline).await?;
            let apply = |decision: Decision, now| {
                let mut decision = self.decided(decision, event, now);
                also(&mut decision.agent);
                let processed = &mut decision.agent.processed;
                processed.push(id.to_owned());
                processed.drain(..processed.len().saturating_sub(PROCESSED_MAX));
                Some(decision)
            };
            let decided = self.change(&event.session, &apply).await?;
            let decision = decided.ok_or_else(|| gone(&event.session))?;
            let owner = &decision.agent.owner;
            warnings.extend(
                self.renew_or_release_claims(owner, decision.claims, deadline)
                    .await,
            );
            Ok(Processed {
                needs_introduction: decision.needs_introduction,
                watched: decision.watched,
                agent: decision.agent,
                warnings,
            })
        })
        .await
    }

    /// Decides what an event makes of an agent.
    fn decided(&self, decision: Decision, event: &HookEvent, now: Timestamp) -> Decision {
        let mut decision = decision.after(event, now);
        if self.hides_commands && event.shell_command().is_some() {
            let tool = || event.tool().map(str::to_owned);
            decision.agent.doing = decision.agent.doing.and_then(|_| tool());
        }
        decision
    }

    /// Processes the events of an agent that wait in the spool. The caller holds the agent's lock.
    pub(super) async fn process_spooled(
        &self,
        session: &str,
        deadline: Instant,
    ) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        if !self.spool.has(session) {
            return Ok(warnings);
        }
        let record = self.records()?.read(&agent_key(session)?).await?;
        let agent: Option<Agent> = record.as_ref().map(read).transpose()?;
        let last = agent.as_ref().and_then(|agent| agent.spooled.clone());
        let Some(mut waiting) = self.spool.waiting(session, last.as_deref())? else {
            return Ok(warnings);
        };
        for spooled in std::mem::take(&mut waiting.events) {
            let Ok(event) = spooled.event() else { continue };
            let is_processed = |agent: &&Agent| agent.processed.contains(&spooled.id);
            if let Some(agent) = agent.as_ref().filter(is_processed) {
                let claims = ClaimAction::after(&event);
                warnings.extend(
                    self.renew_or_release_claims(&agent.owner, claims, deadline)
                        .await,
                );
                continue;
            }
            let apply = |decision: Decision, now| {
                let told_at = decision.agent.prompt_injected_at;
                let mut decision = self.decided(decision, &event, now);
                // Nobody hears the answer to this event, so the agent is told at the next start.
                decision.agent.prompt_injected_at = told_at;
                decision.agent.spooled = Some(spooled.id.clone());
                Some(decision)
            };
            if let Some(decision) = self.change(session, &apply).await? {
                let owner = &decision.agent.owner;
                warnings.extend(
                    self.renew_or_release_claims(owner, decision.claims, deadline)
                        .await,
                );
            }
        }
        waiting.clear()?;
        Ok(warnings)
    }

    /// Returns the number of an agent, which is made if it is new.
    pub(super) async fn number(&self, event: &HookEvent) -> Result<i32> {
        let records = self.records()?;
        let (key, counter) = (agent_key(&event.session)?, counter_key()?);
        for _ in 0..2 {
            if let Some(record) = records.read(&key).await? {
                return Ok(read::<Agent>(&record)?.id);
            }
            let make = |seen: &Seen| {
                let mut changes = Changes::default();
                if seen.get(&key).is_some() {
                    return Ok(changes);
                }
                let newest = seen.get(&counter).and_then(|record| record.body.as_i64());
                let id = newest.unwrap_or(0) + 1;
                let number = i32::try_from(id)
                    .map_err(|_| Error::Internal("there are no numbers left for agents".into()))?;
                changes.put(counter.clone(), Columns::default(), id.into());
                new_agent(event, number, seen.now, &self.host).put(&mut changes)?;
                Ok(changes)
            };
            let change = RecordChange::new([key.clone(), counter.clone()], &make);
            records.change(&change).await?;
        }
        Err(gone(&event.session))
    }

    /// Changes an agent, read anew. The caller holds its lock. `apply` is pure; `None` leaves everything as it is.
    pub(super) async fn change(
        &self,
        session: &str,
        apply: &(dyn Fn(Decision, Timestamp) -> Option<Decision> + Send + Sync),
    ) -> Result<Option<Decision>> {
        let records = self.records()?;
        let key = agent_key(session)?;
        for tries in 1.. {
            let Some(record) = records.read(&key).await? else {
                return Ok(None);
            };
            let agent: Agent = read(&record)?;
            let decided = Mutex::new(None);
            let decide = |seen: &Seen| {
                let command = seen.get(&command_key(agent.id, agent.commands)?);
                let command = command.filter(|_| agent.is_command_open);
                let command: Option<Command> = command.map(read).transpose()?;
                let applied = apply(Decision::new(agent.clone(), command), seen.now);
                let mut changes = Changes::default();
                if let Some(decision) = &applied {
                    decision.put(&mut changes)?;
                }
                *tenure_core::poison::lock(&decided) = applied;
                Ok(changes)
            };
            let keys = keys_of(&agent)?;
            let expected = Expected::Version(record.version);
            let change = RecordChange::new(keys, &decide).expecting(key.clone(), expected);
            match records.change(&change).await {
                Err(Error::RecordChanged { .. }) if tries < TRIES => {}
                changed => {
                    changed?;
                    let decided = tenure_core::poison::lock(&decided).take();
                    return Ok(decided);
                }
            }
        }
        Ok(None)
    }

    /// Gives the claims and leases of an agent more time, or ends them. Returns what could not be done.
    async fn renew_or_release_claims(
        &self,
        owner: &Owner,
        claims: ClaimAction,
        deadline: Instant,
    ) -> Vec<String> {
        let mut warnings = self.claim_notes.renew_or_release(owner, claims, deadline);
        if let Err(error) = self.renew_or_release_leases(owner, claims).await {
            warnings.push(error.to_string());
        }
        warnings
    }

    async fn renew_or_release_leases(&self, owner: &Owner, claims: ClaimAction) -> Result<()> {
        for lease in self.leases_of(owner).await? {
            let by = Some(&lease.owner);
            let done = match claims {
                ClaimAction::Release => self.keeper.release(&lease.lease, by).await,
                // A file is held until some time after its last edit.
                ClaimAction::Renew if is_edit(&lease) => continue,
                ClaimAction::Renew => self.keeper.renew(&lease.lease, None, by).await,
            };
            match done {
                Ok(_) => {}
                // A run has it in hand, or it is over.
                Err(Error::NotAllowed { .. } | Error::LeaseOver { .. } | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the leases that an agent took by `tenure lock`, and those of its edits.
    async fn leases_of(&self, owner: &Owner) -> Result<Vec<Lease>> {
        let mut query = Query::default().with_owner(owner.clone()).held_only();
        let mut leases = Vec::new();
        loop {
            let page = self.keeper.list(&query).await?;
            let own = page.held.into_iter();
            leases.extend(own.filter(|lease| lease.binding == Binding::Lease));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(leases);
            }
        }
    }
}

/// Returns true if a lease is that of an edit.
pub fn is_edit(lease: &Lease) -> bool {
    let guard = lease.metadata.as_ref().and_then(|meta| meta.get("guard"));
    guard.is_some_and(|guard| guard == "edit")
}

/// Returns the records that a change of an agent may write.
fn keys_of(agent: &Agent) -> Result<Vec<RecordKey>> {
    let mut keys = vec![
        agent_key(&agent.session)?,
        command_key(agent.id, agent.commands)?,
        command_key(agent.id, agent.commands + 1)?,
    ];
    for number in 1..=TURNS_MAX {
        keys.push(turn_key(agent.id, agent.turns + number)?);
    }
    Ok(keys)
}

impl Decision {
    fn put(&self, changes: &mut Changes) -> Result<()> {
        self.agent.put(changes)?;
        for command in &self.commands {
            command.put(self.agent.id, changes)?;
        }
        for turn in &self.turns {
            turn.put(changes)?;
        }
        Ok(())
    }
}

fn gone(session: &str) -> Error {
    Error::NotFound(format!("the record of agent {session} is gone"))
}
