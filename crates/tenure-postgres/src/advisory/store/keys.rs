//! The keys of a resource, and how they are taken.

use std::time::Duration;

use tenure_core::duration::DURATION_MAX;
use tenure_core::{Mode, Request, Resource, Result};
use tenure_files::clock;

use super::super::{Guard, Key};
use super::AdvisoryStore;
use super::line::Room;

/// What the server waits longer than the asker.
const LONGER: Duration = Duration::from_secs(5);

/// What is held of the keys. All None once it is released.
#[derive(Default)]
pub(super) struct Keys {
    /// Only while it waits for the others.
    turn: Option<Guard>,
    pub(super) intent: Option<Guard>,
    pub(super) door: Option<Guard>,
    /// Whether a downgrade was begun, and nobody was told that it is done.
    pub(super) lowering: bool,
    /// For the connections of all of them.
    room: Option<Room>,
}

/// How a key is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asking {
    Once,
    /// Until then, in milliseconds since boot; None for as long as the future lives.
    Until(Option<u64>),
}

impl Asking {
    pub(super) fn waits(self) -> bool {
        matches!(self, Asking::Until(_))
    }
}

impl Keys {
    pub(super) fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.intent.iter().chain(&self.door)
    }

    /// The door first: whoever gets the intent then finds it open.
    fn in_order(&mut self) -> impl Iterator<Item = Guard> + use<> {
        let all = [self.door.take(), self.intent.take(), self.turn.take()];
        all.into_iter().flatten()
    }

    pub(super) async fn release(mut self) -> Result<()> {
        let mut released = Ok(());
        for guard in self.in_order() {
            released = released.and(guard.release().await);
        }
        released
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        Guard::drop_in_order(self.in_order());
    }
}

impl AdvisoryStore {
    /// The keys of a resource: the turn, the intent and the door.
    pub fn keys_of(resource: &Resource) -> [Key; 3] {
        let name = resource.as_str();
        let key = |what: &str| Key::of_name(&format!("{what} {name}"));
        [key("turn"), key("intent"), Key::of_name(name)]
    }

    pub(super) async fn take(&self, key: Key, mode: Mode, asking: Asking) -> Result<Option<Guard>> {
        let session = self.locks.session();
        if let Asking::Until(until) = asking {
            return session.acquire(key, mode, limit(until)).await.map(Some);
        }
        let taken = session.try_acquire(key, mode).await?;
        if taken.is_some() || !self.locks.owes() {
            return Ok(taken);
        }
        self.locks.settled().await;
        session.try_acquire(key, mode).await
    }

    /// Takes what the mode needs. Dropped half-way, what it has taken is given back with its guard.
    pub(super) async fn take_keys(
        &self,
        request: &Request,
        asking: Asking,
    ) -> Result<Option<Keys>> {
        let [turn, intent, door] = Self::keys_of(&request.resource);
        let mode = request.mode;
        let by_turn = asking.waits() || mode == Mode::Read;
        let _place = match asking.waits() {
            true => Some(self.line.place(&request.resource).await?),
            false => None,
        };
        let lasting = lasting(mode);
        let room = self.make_room(lasting + u32::from(by_turn), asking).await?;
        let mut keys = Keys::default();
        keys.room = Some(room);
        if by_turn {
            let how = match mode {
                Mode::Read => Mode::Read,
                _ => Mode::Write,
            };
            keys.turn = self.take(turn, how, asking).await?;
            if keys.turn.is_none() {
                return Ok(None);
            }
        }
        if mode != Mode::Read {
            keys.intent = self.take(intent, Mode::Write, asking).await?;
        }
        let may_enter = mode == Mode::Read || keys.intent.is_some();
        if mode != Mode::Upgradeable && may_enter {
            keys.door = self.take(door, mode, asking).await?;
        }
        let wanted = (mode != Mode::Read, mode != Mode::Upgradeable);
        if wanted != (keys.intent.is_some(), keys.door.is_some()) {
            keys.release().await?;
            return Ok(None);
        }
        if let Some(turn) = keys.turn.take() {
            // What is lost with it is the turn, which is over.
            let _ = turn.release().await;
        }
        if let Some(room) = &mut keys.room {
            room.shrink(lasting);
        }
        Ok(Some(keys))
    }

    async fn make_room(&self, connections: u32, asking: Asking) -> Result<Room> {
        let address = self.locks.address();
        match asking {
            Asking::Once => self.line.room_soon(connections, address).await,
            Asking::Until(_) => self.line.room(connections).await,
        }
    }
}

/// How many connections a lease may need: an upgradeable one takes the door when it is upgraded.
fn lasting(mode: Mode) -> u32 {
    match mode {
        Mode::Read => 1,
        Mode::Upgradeable | Mode::Write => 2,
    }
}

/// A little longer than the asker waits: what it waits for ends with the future, and the keeper says why.
fn limit(until: Option<u64>) -> Duration {
    match until {
        Some(until) => Duration::from_millis(until.saturating_sub(clock::boot_now())) + LONGER,
        None => DURATION_MAX,
    }
}
