//! The claims without replaying everything.
//!
//! `.snapshot.json` holds the claims as of some event, bound to that event by its number and the SHA-256 of its
//! file. A process that replayed more than 256 events writes it, without a sync. One that is missing, torn,
//! changed, or of another ledger is not used: then everything is replayed, with the same answer.
//!
//! Its digest covers all events up to then, so that [`verify`](super::verify) finds one that was edited.

use serde::{Deserialize, Serialize};
use tenure_core::poison::lock;
use tenure_core::{Result, Timestamp};

use super::Ledger;
use super::claims::{Claim, Claims};
use super::event::{ClaimEvent, corrupt};
use super::newest::GAP;
use crate::document::Version as Sha256Sum;
use crate::replace::replace_cache;

/// A snapshot is written once more events than this had to be replayed.
pub(super) const REPLAYED_MAX: u64 = 256;
/// The largest snapshot that is read.
const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

/// The claims as of an event.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The number of the event, 0 before the first.
    pub(super) sequence: u64,
    /// The SHA-256 of its file.
    event: Sha256Sum,
    /// The SHA-256 of the digest before it and of its own.
    digest: Sha256Sum,
    pub(super) claims: Claims,
    /// The events that were replayed since the last snapshot.
    replayed: u64,
}

/// The file.
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
}

impl State {
    /// Goes on by one event. Returns what is odd about it.
    pub(super) fn apply(&mut self, sequence: u64, bytes: &[u8]) -> Result<Option<String>, String> {
        let event = ClaimEvent::parse(bytes)?;
        self.event = Sha256Sum::of(bytes);
        self.digest = self.digest.and(self.event);
        self.sequence = sequence;
        self.replayed += 1;
        Ok(event.and_then(|event| self.claims.apply(sequence, event)))
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
            claims: Claims::from(state.claims, state.latest_claim_event),
            replayed: 0,
        })
    }
}

impl Ledger {
    /// Returns the claims as of the last event before a gap. Takes no lock.
    pub(super) fn state(&self) -> Result<State> {
        self.replay(u64::MAX)
    }

    /// Returns the claims as of an event that is there.
    pub(super) fn state_at(&self, sequence: u64) -> Result<State> {
        let state = self.replay(sequence)?;
        match state.sequence == sequence {
            true => Ok(state),
            false => Err(corrupt(&self.names.event(state.sequence + 1), GAP)),
        }
    }

    fn replay(&self, last: u64) -> Result<State> {
        let mut state = self.known_state(last)?;
        while state.sequence < last {
            let next = state.sequence + 1;
            let Some(bytes) = self.read_bytes(next)? else {
                break;
            };
            let applied = state.apply(next, &bytes);
            applied.map_err(|problem| corrupt(&self.names.event(next), problem))?;
        }
        if state.replayed > self.replayed_max {
            state.replayed = 0;
            // A process that may not write here replays again the next time.
            let path = self.names.snapshot();
            let _ = replace_cache(&*self.disk, &path, &state.to_file());
        }
        Ok(state)
    }

    /// Returns what this process or the snapshot knows, if it is of this very ledger; else nothing.
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
        let bytes = self.read_bytes(state.sequence)?;
        Ok(bytes.is_some_and(|bytes| Sha256Sum::of(&bytes) == state.event))
    }

    /// Keeps what was read for the next time.
    pub(super) fn remember(&self, state: Option<State>) {
        if state.is_some() {
            *lock(&self.memory) = state;
        }
    }
}

fn checksum(state: &Kept) -> Sha256Sum {
    let bytes = serde_json::to_vec(state).expect("text and numbers are serialisable");
    Sha256Sum::of(&bytes)
}
