//! Turns from the transcript.
//!
//! A hook and the transcript report one text, and either may be first. A turn therefore has one
//! source: the line of the transcript, by its uuid, or the event of a hook, by its id. A record
//! (`agent_turn_source`) names the source, and is written in the same change as the turn. No second
//! turn is made of a source that has its record.
//!
//! # Steps
//!
//! 1. While no transcript was read, a hook makes a turn of a prompt, and of the last words of an
//!    answer. The number of the turn is drawn in the change.
//! 2. The watcher reads a transcript with text for the first time. Every existing turn is given to
//!    the first line with its text: that line gets its record. The last of these changes marks the
//!    agent: its turns come from the transcript from now on. A turn that the transcript does not
//!    show yet is pending.
//! 3. From now on a hook makes no turn: the text that it reports is pending, with its command and
//!    time.
//! 4. The watcher makes a turn of every line that has no record, and the first line with a pending
//!    text uses that up. If a hook made a turn of the text in 1, the line only gets its record.
//!
//! All of this happens under the agent's lock, and every change also compares the version of the
//! agent's record, which all of them write. A watcher that lost its lock, or read lines that
//! another has read, finds the records of the lines in its change and makes no turns of them.
//!
//! | race or crash | outcome |
//! |---|---|
//! | a hook commits between the list in 2 and a change of 2 | the agent has more turns than were listed: nothing is changed, and the next cycle begins 2 again |
//! | the watcher dies in 2 | the lines that have a record are taken, and 2 goes on with the others |
//! | a prompt is in the transcript before its hook commits | 4 makes the turn; the pending text of the hook makes none |
//! | the watcher dies between two changes of 4 | the lines that have a record are passed over |
//!
//! # Limitations
//!
//! If the transcript has a text in other words than the hook, such as a command with a slash, the
//! turn that the hook made in 1 stays beside the line's turn.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use tenure::patterns::EntityLocks;
use tenure::records::{Column, Record, RecordQuery};
use tenure::{Result, Timestamp};

use super::decide::{Decision, digest};
use super::processor::{Named, Processor};
use super::state::{Agent, AgentState, PendingTurn, SOURCE, Speaker, TURN, Turn, read};
use super::transcript::{Said, Transcript, transcript};
use crate::all_records::all_records;

/// The largest number of turns that one change adds.
const TURNS_MAX: usize = 10;
/// The largest number of lines that one change gives a record.
const LINES_MAX: usize = 80;
/// The largest number of changes that add turns to one agent in one cycle.
const CHANGES_MAX: usize = 20;

impl<L: EntityLocks> Processor<'_, L> {
    /// Adds the turns that only the transcript has, and returns their number. The caller holds the
    /// agent's lock.
    pub(super) async fn reconcile(&self, agent: &Agent) -> Result<usize> {
        let all = finished(agent, transcript_of(agent).said);
        let recorded = self.recorded(agent).await?;
        let new = |said: &&Said| !recorded.contains_key(&said.line);
        let mut said: Vec<Said> = all.iter().filter(new).cloned().collect();
        if !agent.has_transcript && !all.is_empty() {
            let taken = all.iter().filter_map(|said| recorded.get(&said.line));
            let taken = taken.copied().collect();
            if !self.adopt(agent, &taken, &mut said).await? {
                return Ok(0);
            }
        }
        let mut added = 0;
        for some in said.chunks(TURNS_MAX).take(CHANGES_MAX) {
            let apply = |mut decision: Decision, now: Timestamp| {
                some.iter().for_each(|said| decision.add_said(said, now));
                Some(decision)
            };
            let lines = some.iter().map(|said| said.line.as_str());
            let named = Named::default().with_sources(lines).with_turns(some.len());
            let decided = self.change(&agent.session, &named, &apply).await?;
            added += decided.map_or(0, |decision| decision.turns.len());
        }
        Ok(added)
    }

    /// Gives the turns that hooks made to the lines with their text, takes those lines out of
    /// `said`, and marks the agent. `taken` has the turns that already have a line. Returns false
    /// if a hook made a turn meanwhile.
    async fn adopt(
        &self,
        agent: &Agent,
        taken: &HashSet<u32>,
        said: &mut Vec<Said>,
    ) -> Result<bool> {
        let mut turns: Vec<Turn> = Vec::new();
        for record in self.all_of(TURN, &agent.session).await? {
            turns.push(read(&record)?);
        }
        turns.retain(|turn| !taken.contains(&turn.number));
        turns.sort_by_key(|turn| turn.number);
        let (adopted, unshown) = matched(turns, said);
        let pending: Vec<PendingTurn> = unshown.iter().map(pending).collect();
        let mut parts = adopted.chunks(LINES_MAX).peekable();
        let mut is_marked = false;
        while !is_marked {
            let part = parts.next().unwrap_or_default();
            let is_last = parts.peek().is_none();
            let apply = |mut decision: Decision, _: Timestamp| {
                if decision.agent.turns != agent.turns || decision.agent.has_transcript {
                    return None;
                }
                part.iter()
                    .for_each(|(line, turn)| decision.adopt(line, *turn));
                if is_last {
                    decision.agent.has_transcript = true;
                    decision.expect(pending.iter().cloned());
                }
                Some(decision)
            };
            let lines = part.iter().map(|(line, _)| line.as_str());
            let named = Named::default().with_sources(lines);
            if self.change(&agent.session, &named, &apply).await?.is_none() {
                return Ok(false);
            }
            is_marked = is_last;
        }
        Ok(true)
    }

    /// Returns the turn that was made of each line and event.
    async fn recorded(&self, agent: &Agent) -> Result<HashMap<String, u32>> {
        let mut recorded = HashMap::new();
        for record in self.all_of(SOURCE, &agent.session).await? {
            if let Some((_, source)) = record.key.id().split_once('/') {
                recorded.insert(source.to_owned(), read(&record)?);
            }
        }
        Ok(recorded)
    }

    /// Returns all records of a kind that belong to a session.
    async fn all_of(&self, kind: &str, session: &str) -> Result<Vec<Record>> {
        let query = RecordQuery::new(kind).with_column(Column::Subject(session.to_owned()));
        all_records(&self.records()?, query).await
    }
}

/// Reads an agent's transcript.
pub(super) fn transcript_of(agent: &Agent) -> Transcript {
    let path = agent.transcript_path.as_ref().map(PathBuf::from);
    path.map_or_else(Transcript::default, |path| transcript(&path))
}

/// Returns the lines without the last words of an answer that may go on.
fn finished(agent: &Agent, mut said: Vec<Said>) -> Vec<Said> {
    let is_over = matches!(agent.state, AgentState::Idle | AgentState::Done);
    let may_go_on = !is_over || agent.stop_due.is_some();
    if may_go_on && said.last().is_some_and(|last| last.by == Speaker::Agent) {
        said.pop();
    }
    said
}

/// Takes the line of each turn out of `said`. Returns the lines with their turns, and the turns
/// without a line.
fn matched(turns: Vec<Turn>, said: &mut Vec<Said>) -> (Vec<(String, u32)>, Vec<Turn>) {
    let mut by_text: HashMap<(Speaker, String), VecDeque<usize>> = HashMap::new();
    for (index, said) in said.iter().enumerate() {
        let digests: HashSet<String> = said.digests().collect();
        for digest in digests {
            by_text
                .entry((said.by, digest))
                .or_default()
                .push_back(index);
        }
    }
    let (mut adopted, mut unshown, mut used) = (Vec::new(), Vec::new(), HashSet::new());
    for turn in turns {
        let lines = by_text.get_mut(&(turn.by, digest(&turn.text)));
        let line = lines.and_then(|lines| {
            std::iter::from_fn(|| lines.pop_front()).find(|index| !used.contains(index))
        });
        match line {
            Some(index) => {
                used.insert(index);
                adopted.push((said[index].line.clone(), turn.number));
            }
            None => unshown.push(turn),
        }
    }
    let mut index = 0..;
    said.retain(|_| index.next().is_some_and(|index| !used.contains(&index)));
    (adopted, unshown)
}

fn pending(turn: &Turn) -> PendingTurn {
    PendingTurn {
        by: turn.by,
        digest: digest(&turn.text),
        command: turn.command,
        at: turn.at,
        turn: Some(turn.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::decide::Decision;
    use crate::agents::event::HookEvent;
    use crate::agents::processor::new_agent;

    #[test]
    fn every_turn_is_given_to_the_first_line_with_its_text_and_the_rest_is_pending() {
        let body = br#"{"hook_event_name": "Stop", "session_id": "s"}"#;
        let event = HookEvent::parse(body, None, None).unwrap();
        let start = Timestamp::from_millis(0);
        let mut decision = Decision::new(new_agent(&event, 1, start, "host"), None);
        let mut turn = |text: &str| decision.next_turn(Speaker::User, text.to_owned(), start);
        let turns = ["go on\n", "go on", "late", "go on"]
            .map(&mut turn)
            .to_vec();
        let line = |(id, text): (&str, &str)| Said::of(id, Speaker::User, text);
        let lines = [("u1", "missed"), ("u2", "go on"), ("u3", "go on")];
        let mut said: Vec<Said> = lines.map(line).to_vec();
        let (adopted, unshown) = matched(turns, &mut said);
        assert_eq!(adopted, [("u2".to_owned(), 1), ("u3".to_owned(), 2)]);
        assert_eq!(said, [line(("u1", "missed"))]);
        decision.expect(unshown.iter().map(pending));
        let now = Timestamp::from_millis(9);
        decision.add_said(&line(("u4", "late")), now);
        decision.add_said(&line(("u5", "late")), now);
        assert_eq!(decision.adopted, [("u4".to_owned(), 3)]);
        assert_eq!(decision.turns.len(), 1);
    }
}
