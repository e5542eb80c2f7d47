//! Processing of an event, and every other change of an agent.
//!
//! # Steps
//!
//! 1. The agent's number is looked up by its session. A new agent gets one from the counter, in one
//!    change: if two first events meet, one makes the record, and the other finds it.
//! 2. The agent's lock is taken. On PostgreSQL that is the advisory lock (AGENT, number) on a
//!    connection of its own, which other programs respect, too; elsewhere it is `agent:NUMBER` in
//!    the keeper. Events of one agent are processed one at a time, in the order of the grants.
//! 3. Events that wait in the spool come first, each in a change of its own. If time runs out, the
//!    caller adds its event to the ones that are left.
//! 4. The record is read anew, under the lock. [`Decision::after`] decides on the changes, which
//!    are committed inside the lock. The version that was read is compared: if a program changed
//!    the record without the lock, this step is made again.
//! 5. Claims and leases of the agent get more time, or end. This comes after the commit: if the
//!    process dies before this, the next event makes up for it, or they run out by their own rules.
//! 6. The lock is given back.
//!
//! A crash before the commit of 4 leaves the agent as it was, and the event unreported. If the lock
//! was not free in time, or the store did not answer, the caller adds the event to the spool, with
//! its id. The record remembers the ids of its last events: an event that was committed although
//! its hook never learned of it is not processed again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure::patterns::{EntityLocks, under};
use tenure::records::{Changes, Columns, Expected, RecordChange, RecordKey, Records, Seen};
use tenure::{Binding, Error, Keeper, Lease, Owner, Query, Result, Timestamp, clock};

use super::claim_notes::ClaimNotes;
use super::decide::{ClaimAction, Decision};
use super::event::{EventKind, HookEvent};
use super::spool::Spool;
use super::state::{
    Agent, AgentState, Command, agent_key, command_key, counter_key, put_agent, put_source, read,
    source_key, turn_key,
};
use crate::publish::id_time;

/// The default time that a hook waits for the agent's lock.
pub const HOOK_WAIT: Duration = Duration::from_secs(1);
/// The number of tries of a change whose record another program changes without the lock.
const TRIES: usize = 5;
/// The number of event ids that a record remembers: fewer hooks of one agent are under way at once.
const PROCESSED_MAX: usize = 16;

/// Processes the events of agents.
pub struct Processor<'a, L> {
    /// The keeper of the store.
    pub keeper: &'a Keeper,
    /// The locks of agents.
    pub locks: &'a L,
    /// The events that wait.
    pub spool: Spool,
    /// The claims of agents.
    pub claim_notes: ClaimNotes,
    /// The host this runs on.
    pub host: String,
    /// True if the files that an agent edits are released when it has answered.
    pub releases_files_at_stop: bool,
    /// True if only the tool that runs a command is shown, not the command.
    pub hides_commands: bool,
}

/// An event that is to be processed.
pub struct Incoming<'a> {
    /// The event.
    pub event: &'a HookEvent,
    /// Its id, by which it is known in the spool.
    pub id: &'a str,
    /// The time when processing must be over. The agent's lock is waited for until a quarter of the
    /// time is left.
    pub deadline: Instant,
}

/// The result of an event.
#[derive(Debug)]
pub struct Processed {
    /// The agent as it is now.
    pub agent: Agent,
    /// True if the agent is to be told about Tenure in the answer to this event.
    pub needs_introduction: bool,
    /// The failures, for people.
    pub warnings: Vec<String>,
}

/// The records that a change may write besides the agent, its open command, and a turn of its last
/// words.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The lines and events that turns may be made of.
    sources: Vec<String>,
    /// The number of new turns.
    turns: usize,
    /// True if a new command may begin.
    command: bool,
}

impl Named {
    /// Names the records that an event may write.
    fn of(id: &str, event: &HookEvent) -> Self {
        let is_prompt = event.kind == EventKind::Prompt;
        Self {
            sources: is_prompt.then(|| id.to_owned()).into_iter().collect(),
            turns: usize::from(is_prompt),
            command: is_prompt,
        }
    }

    pub(super) fn with_sources<'s>(mut self, sources: impl IntoIterator<Item = &'s str>) -> Self {
        self.sources = sources.into_iter().map(str::to_owned).collect();
        self
    }

    pub(super) fn with_turns(mut self, turns: usize) -> Self {
        self.turns = turns;
        self
    }

    /// Returns the lines and events of a change of an agent.
    fn sources<'s>(&'s self, agent: &'s Agent) -> impl Iterator<Item = &'s String> {
        self.sources.iter().chain(&agent.last_words_event)
    }

    /// Returns the records that a change of an agent may write.
    fn keys(&self, agent: &Agent) -> Result<Vec<RecordKey>> {
        let mut keys = vec![agent_key(&agent.session)?];
        if agent.is_command_open {
            keys.push(command_key(agent.id, agent.commands)?);
        }
        if self.command {
            keys.push(command_key(agent.id, agent.commands + 1)?);
        }
        let turns = self.turns + usize::from(agent.last_words.is_some());
        for number in (agent.turns + 1..).take(turns) {
            keys.push(turn_key(agent.id, number)?);
        }
        for source in self.sources(agent) {
            keys.push(source_key(agent.id, source)?);
        }
        Ok(keys)
    }
}

/// The result of processing the events that waited.
pub(super) struct Drained {
    /// True if no event is left.
    pub is_all: bool,
    /// The failures, for people.
    pub warnings: Vec<String>,
}

impl Default for Drained {
    fn default() -> Self {
        Self {
            is_all: true,
            warnings: Vec::new(),
        }
    }
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
        last_words_event: None,
        commands: 0,
        is_command_open: false,
        turns: 0,
        has_transcript: false,
        pending_turns: Vec::new(),
        context: None,
        spooled: None,
        processed: Vec::new(),
        is_settled: false,
        other_events: serde_json::Map::new(),
        other_fields: serde_json::Map::new(),
        more: serde_json::Map::new(),
    }
}

impl<L: EntityLocks> Processor<'_, L> {
    /// Returns the records of the store.
    pub(super) fn records(&self) -> Result<Records<'_>> {
        self.keeper.records("agents")
    }

    /// Processes an event of a hook. `also` changes the agent in the same change.
    ///
    /// # Errors
    ///
    /// `Timeout` if the agent's lock was not free in time, and then nothing was changed; errors of
    /// the store.
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
            let drained = self.process_spooled(&event.session, deadline).await?;
            if !drained.is_all {
                return Err(Error::Unreachable {
                    store: format!("the spool of {}", event.owner()),
                    problem: "there was no time for all events that wait".into(),
                });
            }
            let mut warnings = drained.warnings;
            let apply = |decision: Decision, now| {
                let mut decision = self.decided(decision, (id, event), now);
                also(&mut decision.agent);
                let processed = &mut decision.agent.processed;
                processed.push(id.to_owned());
                processed.drain(..processed.len().saturating_sub(PROCESSED_MAX));
                Some(decision)
            };
            let decided = self
                .change(&event.session, &Named::of(id, event), &apply)
                .await?;
            let decision = decided.ok_or_else(|| gone(&event.session))?;
            warnings.extend(self.follow(&decision, deadline).await);
            Ok(Processed {
                needs_introduction: decision.needs_introduction,
                agent: decision.agent,
                warnings,
            })
        })
        .await
    }

    /// Decides the effect of an event on an agent.
    fn decided(
        &self,
        decision: Decision,
        (id, event): (&str, &HookEvent),
        now: Timestamp,
    ) -> Decision {
        let mut decision = decision.of_event(id);
        if !decision.was_applied() {
            decision = decision.after(event, now);
            if self.hides_commands && event.shell_command().is_some() {
                let tool = || event.tool().map(str::to_owned);
                decision.agent.doing = decision.agent.doing.and_then(|_| tool());
            }
        }
        // The claims follow the event even if it was applied before: it is not known whether they
        // did then.
        decision.claims = ClaimAction::after(event);
        if self.releases_files_at_stop && event.kind == EventKind::Stop {
            let age = clock::now().since(id_time(id));
            let ended = now.as_millis() - i64::try_from(age.as_millis()).unwrap_or(0);
            decision.turn_ended_at = Some(Timestamp::from_millis(ended));
        }
        decision
    }

    /// Processes the events of an agent that wait in the spool, oldest first, until most of the
    /// time is over. The caller holds the agent's lock.
    pub(super) async fn process_spooled(
        &self,
        session: &str,
        deadline: Instant,
    ) -> Result<Drained> {
        let mut drained = Drained::default();
        if !self.spool.has(session) {
            return Ok(drained);
        }
        let record = self.records()?.read(&agent_key(session)?).await?;
        let agent: Option<Agent> = record.as_ref().map(read).transpose()?;
        let last = agent.and_then(|agent| agent.spooled);
        let Some(waiting) = self.spool.waiting(session, last.as_deref())? else {
            return Ok(drained);
        };
        // The rest of the time is for the claims that the events renew or release, and for the
        // spool.
        let until = deadline - deadline.saturating_duration_since(Instant::now()) / 4;
        // Claims that go on get more time once, after the last event.
        let mut renewal = None;
        for spooled in waiting.events() {
            if Instant::now() >= until {
                drained.is_all = false;
                break;
            }
            let Ok(event) = spooled.event() else { continue };
            let processed = self.process_one_spooled(&spooled.id, &event).await?;
            let Some(decision) = processed else { continue };
            let is_renewal = decision.claims == ClaimAction::Renew;
            if is_renewal && decision.turn_ended_at.is_none() {
                renewal = Some(decision);
            } else {
                renewal = None;
                drained
                    .warnings
                    .extend(self.follow(&decision, deadline).await);
            }
        }
        if let Some(decision) = &renewal {
            drained
                .warnings
                .extend(self.follow(decision, deadline).await);
        }
        if drained.is_all {
            waiting.clear()?;
        }
        Ok(drained)
    }

    async fn process_one_spooled(&self, id: &str, event: &HookEvent) -> Result<Option<Decision>> {
        let apply = |decision: Decision, now| {
            let told_at = decision.agent.prompt_injected_at;
            let mut decision = self.decided(decision, (id, event), now);
            // The answer to this event reaches no agent, so the agent is told at the next start.
            decision.agent.prompt_injected_at = told_at;
            decision.agent.spooled = Some(id.to_owned());
            Some(decision)
        };
        self.change(&event.session, &Named::of(id, event), &apply)
            .await
    }

    /// Returns the number of an agent, and makes the agent if it is new.
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
                put_agent(
                    &new_agent(event, number, seen.now, &self.host),
                    &mut changes,
                )?;
                Ok(changes)
            };
            let change = RecordChange::new([key.clone(), counter.clone()], &make);
            records.change(&change).await?;
        }
        Err(gone(&event.session))
    }

    /// Changes an agent, read anew, and the records that are `named`. The caller holds its lock.
    /// `apply` is pure; `None` leaves everything as it is.
    pub(super) async fn change(
        &self,
        session: &str,
        named: &Named,
        apply: &(dyn Fn(Decision, Timestamp) -> Option<Decision> + Send + Sync),
    ) -> Result<Option<Decision>> {
        let records = self.records()?;
        let key = agent_key(session)?;
        for tries in 1.. {
            let Some(record) = records.read(&key).await? else {
                return Ok(None);
            };
            let agent: Agent = read(&record)?;
            let decide = |seen: &Seen| {
                let command = seen.get(&command_key(agent.id, agent.commands)?);
                let command = command.filter(|_| agent.is_command_open);
                let command: Option<Command> = command.map(read).transpose()?;
                let mut recorded = BTreeSet::new();
                for source in named.sources(&agent) {
                    if seen.get(&source_key(agent.id, source)?).is_some() {
                        recorded.insert(source.clone());
                    }
                }
                let decision = Decision::new(agent.clone(), command).with_recorded(recorded);
                let applied = apply(decision, seen.now);
                let mut changes = Changes::default();
                if let Some(decision) = &applied {
                    decision.put(&mut changes)?;
                }
                Ok((changes, applied))
            };
            let keys = named.keys(&agent)?;
            let expected = Expected::Version(record.version);
            let others = keys.into_iter().map(|key| (key, Expected::Any));
            let named = others.chain([(key.clone(), expected)]);
            match records.decide(named, decide).await {
                Err(Error::RecordChanged { .. }) if tries < TRIES => {}
                decided => return decided,
            }
        }
        Ok(None)
    }

    /// Gives the claims and leases of an agent more time, or ends them. Returns the failures.
    async fn follow(&self, decision: &Decision, deadline: Instant) -> Vec<String> {
        let owner = &decision.agent.owner;
        let notes = &self.claim_notes;
        let mut warnings = notes.renew_or_release(owner, decision.claims, deadline);
        if let Err(error) = self.renew_or_release_leases(decision).await {
            warnings.push(error.to_string());
        }
        warnings
    }

    async fn renew_or_release_leases(&self, decision: &Decision) -> Result<()> {
        for lease in self.leases_of(&decision.agent.owner).await? {
            let by = Some(&lease.owner);
            // A stop may have waited in the spool while the next turn took files.
            let is_of_turn = || {
                decision
                    .turn_ended_at
                    .is_some_and(|end| lease.heartbeat_at <= end)
            };
            let done = match decision.claims {
                ClaimAction::Release => self.keeper.release(&lease.lease, by).await,
                ClaimAction::Renew if is_edit(&lease) && is_of_turn() => {
                    self.keeper.release(&lease.lease, by).await
                }
                // A file is held until some time after its last edit.
                ClaimAction::Renew if is_edit(&lease) => continue,
                ClaimAction::Renew => self.keeper.renew(&lease.lease, None, by).await,
            };
            match done {
                Ok(_) => {}
                // A run has the lease in hand, or it is over.
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

/// Returns true if a lease was taken for an edit.
pub fn is_edit(lease: &Lease) -> bool {
    let guard = lease.metadata.as_ref().and_then(|meta| meta.get("guard"));
    guard.is_some_and(|guard| guard == "edit")
}

impl Decision {
    fn put(&self, changes: &mut Changes) -> Result<()> {
        put_agent(&self.agent, changes)?;
        for command in &self.commands {
            command.put(self.agent.id, changes)?;
        }
        for turn in &self.turns {
            turn.put(changes)?;
            if let Some(source) = &turn.source {
                put_source(&self.agent, source, turn.number, changes)?;
            }
        }
        for (line, turn) in &self.adopted {
            put_source(&self.agent, line, *turn, changes)?;
        }
        Ok(())
    }
}

fn gone(session: &str) -> Error {
    Error::NotFound(format!("the record of agent {session} is gone"))
}
