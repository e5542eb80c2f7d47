//! Upgradeable to write, and back.

use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Result, Token};

use super::layout::{GATE, LINE, QUEUE, READERS, Slot};
use super::{Grip, LockFile, Scribe};
use crate::interrupt::{Ended, Interrupt};
use crate::platform::{self, Share};

/// How long M may stay with whoever took it for a moment while it was being converted.
const RESTORE_MAX: Duration = Duration::from_secs(1);

impl LockFile {
    /// Makes an upgradeable lock exclusive if no reader is there; None if one is.
    pub(crate) fn try_upgrade(&self, grip: Grip, scribe: &mut dyn Scribe) -> Result<Option<Grip>> {
        // Converting M drops the shared lock even where it fails, so readers are asked for first.
        let readers = platform::bytes_are_locked(&self.file, READERS);
        if readers.map_err(|source| self.failed("look at", source))? {
            return Ok(None);
        }
        if !self.try_bytes(QUEUE, Share::Shared)? {
            // Someone clears an old mark at this moment.
            return Ok(None);
        }
        let upgraded = self.mark_line().and_then(|()| {
            let converted = platform::try_flock(&self.file, Share::Exclusive);
            let converted = converted.map_err(|source| self.failed("lock", source));
            self.settle_upgrade(grip, scribe, converted)
        });
        self.then_leave_line(upgraded)
    }

    /// Waits until no reader is left; None if the interrupt came first, and all is as before.
    pub(crate) fn wait_upgrade(
        &self,
        grip: Grip,
        scribe: &mut dyn Scribe,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Grip>> {
        let upgraded = self.wait_for_readers(grip, scribe, interrupt);
        self.then_leave_line(upgraded)
    }

    fn wait_for_readers(
        &self,
        grip: Grip,
        scribe: &mut dyn Scribe,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Grip>> {
        if self.join_queue(interrupt)?.is_err() {
            return Ok(None);
        }
        if self.wait_bytes(GATE, Share::Exclusive, interrupt)?.is_err() {
            return Ok(None);
        }
        let converted = interrupt.wait(|| platform::wait_flock(&self.file, Share::Exclusive));
        let converted = converted.map_err(|source| self.failed("lock", source));
        let converted = converted.map(|converted| converted.is_ok());
        self.settle_upgrade(grip, scribe, converted)
    }

    fn then_leave_line(&self, upgraded: Result<Option<Grip>>) -> Result<Option<Grip>> {
        let left = self.unlock_bytes(LINE);
        let upgraded = upgraded?;
        left.map(|()| upgraded)
    }

    /// After the attempt to convert M: the token, the writer's record and its proof, or
    /// everything as before.
    fn settle_upgrade(
        &self,
        grip: Grip,
        scribe: &mut dyn Scribe,
        converted: Result<bool>,
    ) -> Result<Option<Grip>> {
        let upgraded = match converted {
            Ok(true) => self.finish_upgrade(scribe).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(Some(upgraded)) = upgraded {
            self.unlock_bytes(grip.slot.proof(grip.token))?;
            return Ok(Some(upgraded));
        }
        // What led here is told first; what prevents going back is told if nothing else did.
        let restored = self.restore_shared(scribe);
        scribe.record(grip.token, grip.mode);
        let upgraded = upgraded?;
        restored.map(|()| upgraded)
    }

    fn finish_upgrade(&self, scribe: &mut dyn Scribe) -> Result<Grip> {
        if self.is_current()? {
            return self.write_upgraded(scribe);
        }
        Err(Error::Lost {
            place: Box::new(scribe.place(Mode::Upgradeable)),
            reason: "its lock file was replaced or removed".into(),
        })
    }

    /// Makes an upgraded lock upgradeable again. The token stays the current one.
    pub(crate) fn downgrade(&self, grip: Grip, scribe: &mut dyn Scribe) -> Result<Grip> {
        self.write_record(grip.token, Mode::Upgradeable, Slot::Upgrader, scribe)?;
        self.prove(Slot::Upgrader, grip.token)?;
        self.unlock_bytes(grip.slot.proof(grip.token))?;
        // Nobody promises that the conversion is one step; whoever slips in finds the line
        // and goes away. QUEUE is free, as M is exclusively ours.
        self.try_bytes(QUEUE, Share::Shared)?;
        let restored = self.mark_line().and_then(|()| self.restore_shared(scribe));
        restored.and(self.unlock_bytes(LINE))?;
        Ok(Grip {
            mode: Mode::Upgradeable,
            token: grip.token,
            upgraded: false,
            slot: Slot::Upgrader,
        })
    }

    /// Undoes an upgrade that nobody learned of: the token of before is the current one again.
    pub(crate) fn undo_upgrade(
        &self,
        grip: Grip,
        before: Token,
        scribe: &mut dyn Scribe,
    ) -> Result<Grip> {
        self.put_back_token(grip.slot, before)?;
        let granted = grip.slot.proof(grip.token);
        let grip = Grip {
            token: before,
            ..grip
        };
        let grip = self.downgrade(grip, scribe)?;
        self.unlock_bytes(granted)?;
        Ok(grip)
    }

    /// Makes M shared. Whoever of ours has it for a moment gives it back, since the line is
    /// taken; only a foreign program can keep it, or one of ours that was stopped just then.
    fn restore_shared(&self, scribe: &mut dyn Scribe) -> Result<()> {
        let shared = platform::try_flock(&self.file, Share::Shared);
        if shared.map_err(|source| self.failed("lock", source))? {
            return Ok(());
        }
        let mut interrupt = Interrupt::at(Instant::now() + RESTORE_MAX);
        let shared = interrupt.wait(|| platform::wait_flock(&self.file, Share::Shared));
        match shared.map_err(|source| self.failed("lock", source))? {
            Ok(()) => Ok(()),
            Err(Ended::Early) => Err(Error::Lost {
                place: Box::new(scribe.place(Mode::Upgradeable)),
                reason: "another program took its lock file during an upgrade and keeps it".into(),
            }),
        }
    }
}
