//! Upgradeable to write, and back.
//!
//! A downgrade shows the new mode, then frees the door, whatever became of the first: who asks for less may not keep more.
//! Until one was told to be done it may be asked for again, and then means the same.

use tenure_core::{Error, LeaseId, Mode, Result, Token};

use super::keys::Asking;
use super::{AdvisoryStore, Held, Shown, over, records};

impl AdvisoryStore {
    pub(super) async fn raise(&self, lease: &LeaseId, asking: Asking) -> Result<Option<Token>> {
        let held = self.held_as(lease)?;
        let intent = {
            let keys = held.keys();
            match (&keys.intent, &keys.door) {
                (Some(intent), None) => intent.recorder()?,
                (Some(_), Some(_)) => return Err(self.conflict(&held, "upgradeable", "write")),
                _ => return Err(self.conflict(&held, "upgradeable", "read")),
            }
        };
        let [_, _, door] = Self::keys_of(&held.resource);
        let Some(door) = self.take(door, Mode::Write, asking).await? else {
            return Ok(None);
        };
        let token = door.token();
        records::raise(&intent, &held.resource, Mode::Write, Some(token)).await?;
        // Released meanwhile: the door goes with it.
        let mut keys = held.keys();
        if keys.intent.is_none() {
            return Err(over(lease));
        }
        keys.door = Some(door);
        keys.lowering = false;
        Ok(Some(token))
    }

    pub(super) async fn lower(&self, lease: &LeaseId) -> Result<Mode> {
        let held = self.held_as(lease)?;
        let (intent, door) = {
            let keys = &mut *held.keys();
            let upgraded = held.shown_by == Shown::Intent && (keys.door.is_some() || keys.lowering);
            match keys.intent.as_ref().filter(|_| upgraded) {
                Some(intent) => {
                    let intent = intent.recorder()?;
                    keys.lowering = true;
                    (intent, keys.door.take())
                }
                None => return Err(self.conflict(&held, "upgraded", "not upgraded")),
            }
        };
        let shown = records::raise(&intent, &held.resource, Mode::Upgradeable, None).await;
        if let Some(door) = door {
            door.release().await?;
        }
        shown?;
        held.keys().lowering = false;
        Ok(Mode::Upgradeable)
    }

    fn conflict(&self, held: &Held, expected: &str, actual: &str) -> Error {
        let [_, _, door] = Self::keys_of(&held.resource);
        match door.place(Mode::Write, self.locks.address()) {
            Ok(mut place) => {
                place.resource = held.resource.clone();
                Error::Conflict {
                    place,
                    expected: expected.into(),
                    actual: actual.into(),
                }
            }
            Err(error) => error,
        }
    }
}
