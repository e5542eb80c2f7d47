//! The claims without replaying everything.
//!
//! `.snapshot.json` holds the claims as of some event, bound to that event by its number and the
//! SHA-256 of its file. A process that replayed more than 256 events writes it, without a sync. A
//! snapshot that is missing, torn, changed, or of another ledger is not used: everything is
//! replayed instead, with the same answer.
//!
//! A whole snapshot proves that its events were there (see [`newest`](super::newest)). So the names
//! of events are durable before it is written.
//!
//! The snapshot's digest covers all events up to then, so that [`verify`](super::verify) finds an
//! edited one.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use tenure_api::ledger::Claim;
use tenure_core::internal::lock;
use tenure_core::{Error, Result, Timestamp};
use tenure_files::document::Version as Sha256Sum;
use tenure_os::replace::replace_cache;

use super::Ledger;
use super::event::AboutClaims;
use super::held_claims::Claims;
use super::newest::GAP;

/// A snapshot is written once more events than this had to be replayed.
pub(super) const REPLAYED_MAX: u64 = 256;
/// The largest snapshot that is read.
const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

/// The effect of an event on the claims.
pub(super) enum Applied {
    Well,
    /// The event counts, but other programs may fail on it.
    Odd(String),
    /// The event is not whole. The owner of the node, if it names one, is unknown.
    Malformed {
        node: Option<String>,
        problem: String,
    },
    /// The event stands for one that is gone.
    Missing,
}

/// The claims as of an event.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The number of the event, 0 before the first.
    pub(super) sequence: u64,
    /// The SHA-256 of the event's file.
    event: Sha256Sum,
    /// The SHA-256 of the digest before this event and of `event`.
    digest: Sha256Sum,
    pub(super) claims: Claims,
    /// The number of events that were replayed since the last snapshot.
    replayed: u64,
}

/// The content of `.snapshot.json`.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    /// The SHA-256 of `state`, as it is written here.
    sha256: Sha256Sum,
    state: Kept,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    sequence: u64,
    event_sha256: Sha256Sum,
    events_sha256: Sha256Sum,
    latest_claim_event: Option<(u64, Timestamp)>,
    claims: Vec<Claim>,
    malformed: BTreeMap<String, u64>,
}

impl State {
    /// Applies the next event.
    pub(super) fn apply(&mut self, sequence: u64, bytes: &[u8]) -> Result<Applied, String> {
        let said = AboutClaims::parse(bytes)?;
        self.event = Sha256Sum::of(bytes);
        self.digest = self.digest.and(self.event);
        self.sequence = sequence;
        self.replayed += 1;
        match said {
            AboutClaims::Nothing => Ok(Applied::Well),
            AboutClaims::Event(event) => {
                let odd = self.claims.apply(sequence, event);
                Ok(odd.map_or(Applied::Well, Applied::Odd))
            }
            AboutClaims::Malformed { node, problem } => {
                if let Some(node) = node.clone() {
                    self.claims.apply_malformed(sequence, node);
                }
                Ok(Applied::Malformed { node, problem })
            }
            AboutClaims::Missing(node) => {
                self.claims.apply_missing(node.as_deref());
                Ok(Applied::Missing)
            }
        }
    }

    /// Returns true if both saw the same events.
    pub(super) fn is_same_history(&self, other: &State) -> bool {
        (self.sequence, self.digest) == (other.sequence, other.digest)
            && self.claims == other.claims
    }

    fn to_file(&self) -> Vec<u8> {
        let state = Kept {
            sequence: self.sequence,
            event_sha256: self.event,
            events_sha256: self.digest,
            latest_claim_event: self.claims.latest(),
            claims: self.claims.iter().cloned().collect(),
            malformed: self.claims.malformed().clone(),
        };
        let sha256 = checksum(&state);
        let snapshot = Snapshot { sha256, state };
        let mut bytes = serde_json::to_vec(&snapshot).expect("text and numbers are serialisable");
        bytes.push(b'\n');
        bytes
    }

    fn from_file(bytes: &[u8]) -> Option<Self> {
        let Snapshot { sha256, state } = serde_json::from_slice(bytes).ok()?;
        if checksum(&state) != sha256 {
            return None;
        }
        Some(Self {
            sequence: state.sequence,
            event: state.event_sha256,
            digest: state.events_sha256,
            claims: Claims::from(state.claims, state.latest_claim_event, state.malformed),
            replayed: 0,
        })
    }
}

impl Ledger {
    /// Returns the claims as of the newest event, without a lock.
    pub(super) fn state(&self) -> Result<State> {
        let mut state = self.replay(u64::MAX)?;
        self.require_end(state.sequence + 1)?;
        if self.is_snapshot_due(&state) && self.disk.sync_directory(self.names.ledger()).is_ok() {
            self.write_snapshot(&mut state);
        }
        Ok(state)
    }

    /// Returns the claims as of an event; it and all before it are durable.
    pub(super) fn state_at(&self, sequence: u64) -> Result<State> {
        let mut state = self.replay(sequence)?;
        if state.sequence < sequence {
            return Err(Error::corrupt(self.names.event(state.sequence + 1), GAP));
        }
        if self.is_snapshot_due(&state) {
            self.write_snapshot(&mut state);
        }
        Ok(state)
    }

    fn replay(&self, last: u64) -> Result<State> {
        let mut state = self.known_state(last)?;
        while state.sequence < last {
            let next = state.sequence + 1;
            let Some(bytes) = self.read_bytes(next)? else {
                break;
            };
            let applied = state.apply(next, &bytes);
            applied.map_err(|problem| Error::corrupt(self.names.event(next), problem))?;
        }
        Ok(state)
    }

    fn is_snapshot_due(&self, state: &State) -> bool {
        state.replayed > self.replayed_max
    }

    /// Writes the snapshot. A process that may not write here replays again the next time.
    fn write_snapshot(&self, state: &mut State) {
        state.replayed = 0;
        let _ = replace_cache(&*self.disk, &self.names.snapshot(), &state.to_file());
    }

    /// Returns the claims that this process or the snapshot knows, if they are of this very ledger;
    /// otherwise those before the first event.
    fn known_state(&self, last: u64) -> Result<State> {
        let memory = lock(&self.memory).take();
        for state in [memory, self.snapshot()].into_iter().flatten() {
            if state.sequence <= last && self.is_of_this_ledger(&state)? {
                return Ok(state);
            }
        }
        Ok(State::default())
    }

    /// Returns the snapshot, if it is whole.
    pub(super) fn snapshot(&self) -> Option<State> {
        let bytes = self
            .disk
            .content(&self.names.snapshot(), SNAPSHOT_BYTES_MAX);
        State::from_file(&bytes.ok()??)
    }

    fn is_of_this_ledger(&self, state: &State) -> Result<bool> {
        if state.sequence == 0 {
            return Ok(true);
        }
        // An event that was not whole may have been mended since.
        for sequence in state.claims.malformed().values() {
            let bytes = self.read_bytes(*sequence)?.unwrap_or_default();
            if !matches!(
                AboutClaims::parse(&bytes),
                Ok(AboutClaims::Malformed { .. })
            ) {
                return Ok(false);
            }
        }
        let bytes = self.read_bytes(state.sequence)?;
        Ok(bytes.is_some_and(|bytes| Sha256Sum::of(&bytes) == state.event))
    }

    /// Keeps the claims that were read for the next time.
    pub(super) fn remember(&self, state: Option<State>) {
        if state.is_some() {
            *lock(&self.memory) = state;
        }
    }

    /// Forgets the claims that were read, as the events were changed.
    pub(super) fn forget(&self) -> Result<()> {
        *lock(&self.memory) = None;
        let path = self.names.snapshot();
        match self.disk.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| Error::io("remove", path, source)),
        }
    }
}

fn checksum(state: &Kept) -> Sha256Sum {
    let bytes = serde_json::to_vec(state).expect("text and numbers are serialisable");
    Sha256Sum::of(&bytes)
}
