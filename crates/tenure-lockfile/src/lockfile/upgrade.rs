//! Upgrades from upgradeable to write, and downgrades back.

use std::time::{Duration, Instant};

use tenure_core::{Error, Mode, Result, Token};
use tenure_os::platform::{self, Share};

use super::layout::{GATE, LINE, QUEUE, READERS, Slot};
use super::{HeldLock, LockFile, RecordWriter};
use crate::interrupt::Interrupt;

/// The longest wait for a process that took M for a moment while it was being converted.
const RESTORE_MAX: Duration = Duration::from_secs(1);

impl LockFile {
    /// Makes an upgradeable lock exclusive. Returns `None` if there is a reader.
    pub(crate) fn try_upgrade(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
    ) -> Result<Option<HeldLock>> {
        // Converting M drops the shared lock even if it fails, so readers are looked for first.
        let readers = platform::bytes_are_locked(&self.file, READERS);
        if readers.map_err(|source| self.failed("look at", source))? {
            return Ok(None);
        }
        if !self.try_bytes(QUEUE, Share::Shared)? {
            // Another process clears an old mark at this moment.
            return Ok(None);
        }
        let upgraded = self.mark_line().and_then(|()| {
            let converted = platform::try_flock(&self.file, Share::Exclusive)
                .map_err(|source| self.failed("lock", source));
            self.finish_or_restore(locked, writer, converted)
        });
        self.then_unlock_line(upgraded)
    }

    /// Waits until no reader is left. If interrupted, returns `None` and leaves the lock unchanged.
    pub(crate) fn wait_upgrade(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
        interrupt: &mut Interrupt,
    ) -> Result<Option<HeldLock>> {
        let upgraded = self.wait_for_readers(locked, writer, interrupt);
        self.then_unlock_line(upgraded)
    }

    fn wait_for_readers(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
        interrupt: &mut Interrupt,
    ) -> Result<Option<HeldLock>> {
        if self.join_queue(interrupt)?.is_err() {
            return Ok(None);
        }
        if self.wait_bytes(GATE, Share::Exclusive, interrupt)?.is_err() {
            return Ok(None);
        }
        let converted = interrupt.wait(|| platform::wait_flock(&self.file, Share::Exclusive));
        let converted = converted.map_err(|source| self.failed("lock", source));
        let converted = converted.map(|converted| converted.is_ok());
        self.finish_or_restore(locked, writer, converted)
    }

    fn then_unlock_line(&self, upgraded: Result<Option<HeldLock>>) -> Result<Option<HeldLock>> {
        let unlocked = self.unlock_bytes(LINE);
        let upgraded = upgraded?;
        unlocked.map(|()| upgraded)
    }

    /// Finishes an attempt to convert M: writes the token, the writer's record and its proof, or
    /// restores the lock.
    fn finish_or_restore(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
        converted: Result<bool>,
    ) -> Result<Option<HeldLock>> {
        let upgraded = match converted {
            Ok(true) => self.finish_upgrade(writer).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(Some(upgraded)) = upgraded {
            self.unlock_bytes(locked.slot.proof(locked.token))?;
            return Ok(Some(upgraded));
        }
        // The error of the upgrade is reported first; an error of restoring only if there is no
        // other.
        let restored = self.restore_shared(writer);
        writer.record(locked.token, locked.mode);
        let upgraded = upgraded?;
        restored.map(|()| upgraded)
    }

    fn finish_upgrade(&self, writer: &mut dyn RecordWriter) -> Result<HeldLock> {
        if self.is_current()? {
            return self.write_upgraded(writer);
        }
        Err(Error::lost(
            writer.context(Mode::Upgradeable),
            "its lock file was replaced or removed",
        ))
    }

    /// Makes an upgraded lock upgradeable again. The token stays the current one.
    pub(crate) fn downgrade(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
    ) -> Result<HeldLock> {
        self.write_record(locked.token, Mode::Upgradeable, Slot::Upgrader, writer)?;
        self.prove(Slot::Upgrader, locked.token)?;
        self.unlock_bytes(locked.slot.proof(locked.token))?;
        // The conversion may not be one step; a process that gets in between finds the line and
        // goes away. QUEUE is free, as M is exclusively ours.
        self.try_bytes(QUEUE, Share::Shared)?;
        let restored = self.mark_line().and_then(|()| self.restore_shared(writer));
        restored.and(self.unlock_bytes(LINE))?;
        Ok(HeldLock {
            mode: Mode::Upgradeable,
            token: locked.token,
            upgraded: false,
            slot: Slot::Upgrader,
        })
    }

    /// Undoes an upgrade that no caller learned of, and makes the token from before the current
    /// one.
    pub(crate) fn undo_upgrade(
        &self,
        locked: HeldLock,
        before: Token,
        writer: &mut dyn RecordWriter,
    ) -> Result<HeldLock> {
        self.put_back_token(locked.slot, before)?;
        let granted = locked.slot.proof(locked.token);
        let locked = HeldLock {
            token: before,
            ..locked
        };
        let locked = self.downgrade(locked, writer)?;
        self.unlock_bytes(granted)?;
        Ok(locked)
    }

    /// Makes M shared. A Tenure process that has it for a moment gives it back, since the line is
    /// taken; only a foreign program or a process stopped just then can keep it.
    fn restore_shared(&self, writer: &mut dyn RecordWriter) -> Result<()> {
        let shared = platform::try_flock(&self.file, Share::Shared);
        if shared.map_err(|source| self.failed("lock", source))? {
            return Ok(());
        }
        let mut interrupt = Interrupt::at(Instant::now() + RESTORE_MAX);
        let shared = interrupt.wait(|| platform::wait_flock(&self.file, Share::Shared));
        match shared.map_err(|source| self.failed("lock", source))? {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::lost(
                writer.context(Mode::Upgradeable),
                "another program took its lock file during an upgrade and keeps it",
            )),
        }
    }
}
