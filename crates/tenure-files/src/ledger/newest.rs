//! The newest event, at a cost that does not grow; and what a crash left behind it.
//!
//! `.newest` holds the number and the inode of the newest event that one of ours made durable, and the boot
//! it happened in. It is a hint: whatever it says, the files decide. Where it is exact, no power was lost since
//! and no stranger appended, so nothing needs to be synced or looked for.

use std::io;

use tenure_core::poison::lock;
use tenure_core::{Error, Result};

use super::append_queue::TOGETHER_MAX;
use super::event::{self, corrupt};
use super::lock::LedgerLock;
use super::names::aside;
use super::{Ledger, event::EVENT_BYTES_MAX};
use crate::platform::Identity;

/// The largest number of events of strangers that are synced.
const SYNCED_MAX: u64 = 1024;
const NOTE_BYTES_MAX: u64 = 200;

/// The problem that is reported for a missing event.
pub(super) const GAP: &str = "it is missing: a gap, at which readers stop";

/// The content of `.newest`.
struct Note {
    sequence: u64,
    inode: u64,
    boot_id: String,
}

impl Ledger {
    /// Returns the number of the newest event, 0 if there is none.
    pub fn newest(&self) -> Result<u64> {
        let hint = self.note().map_or(0, |note| note.sequence);
        self.newest_from(hint)
    }

    fn newest_from(&self, hint: u64) -> Result<u64> {
        let mut newest = match hint > 0 && self.has(hint)? {
            true => hint,
            false => 0,
        };
        let known = newest;
        for _ in 0..TOGETHER_MAX {
            if !self.has(newest + 1)? {
                return Ok(newest);
            }
            newest += 1;
        }
        // Far behind: in steps that grow, then by halves.
        let mut step = TOGETHER_MAX as u64;
        while self.has(newest + step)? {
            newest += step;
            step *= 2;
        }
        let mut absent = newest + step;
        while absent - newest > 1 {
            let middle = newest + (absent - newest) / 2;
            match self.has(middle)? {
                true => newest = middle,
                false => absent = middle,
            }
        }
        // The event that was found may lie behind a gap that a power loss left in the last events.
        let first = newest.saturating_sub(TOGETHER_MAX as u64).max(known) + 1;
        for sequence in first..newest {
            if !self.has(sequence)? {
                return Ok(sequence - 1);
            }
        }
        Ok(newest)
    }

    pub(super) fn has(&self, sequence: u64) -> Result<bool> {
        let path = self.names.event(sequence);
        let exists = self.disk.exists(&path);
        exists.map_err(|source| Error::io("look for", path, source))
    }

    /// Step 5: returns the newest event, which is durable then, with nothing behind it.
    pub(super) fn settle(&self, held: &LedgerLock<'_>) -> Result<u64> {
        if let Some((last, identity)) = self.last()
            && matches!(self.disk.identity(&self.names.event(last)), Ok(Some(found)) if found == identity)
            && !self.has(last + 1)?
        {
            return Ok(last);
        }
        let note = self.note();
        let newest = self.newest_from(note.as_ref().map_or(0, |note| note.sequence))?;
        if note
            .as_ref()
            .is_some_and(|note| self.is_exact(note, newest))
        {
            return Ok(newest);
        }
        held.check()?;
        let known = note.map_or(0, |note| note.sequence).min(newest);
        for sequence in known.max(newest.saturating_sub(SYNCED_MAX)) + 1..=newest {
            let path = self.names.event(sequence);
            match self.disk.sync_file(&path) {
                // Someone removed it, or wrote behind it without the lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(corrupt(&path, GAP));
                }
                synced => synced.map_err(|source| Error::io("sync", path, source))?,
            }
        }
        if newest > known {
            // One that is torn would be hidden for ever behind the next.
            let path = self.names.event(newest);
            let bytes = self.read_bytes(newest)?.unwrap_or_default();
            event::check(&bytes).map_err(|problem| corrupt(&path, problem))?;
        }
        // The names of strangers' events are synced with ours in step 8, before anyone is told.
        self.move_aside_behind(newest)?;
        Ok(newest)
    }

    /// Moves events aside that a power loss left behind a gap: nobody was told of them. Durably, as one
    /// that came back would follow the next event.
    fn move_aside_behind(&self, newest: u64) -> Result<()> {
        if self.has(newest + TOGETHER_MAX as u64 + 1)? {
            // No crash leaves so many: someone removed an event.
            return Err(corrupt(&self.names.event(newest + 1), GAP));
        }
        let mut is_gap = false;
        for sequence in newest + 2..=newest + TOGETHER_MAX as u64 {
            if !self.has(sequence)? {
                continue;
            }
            let (from, to) = (
                self.names.event(sequence),
                aside(&self.names.event(sequence)),
            );
            let moved = self.disk.rename_without_replacing(&from, &to);
            moved.map_err(|source| Error::io("move", &from, source))?;
            is_gap = true;
            (self.tell)(&format!(
                "{} lies behind the gap at {}, so nobody was told of it; it was moved to {}",
                from.display(),
                newest + 1,
                to.display()
            ));
        }
        if is_gap {
            let ledger = self.names.ledger();
            let synced = self.disk.sync_directory(ledger);
            synced.map_err(|source| Error::io("sync", ledger, source))?;
        }
        Ok(())
    }

    fn is_exact(&self, note: &Note, newest: u64) -> bool {
        let identity = self.disk.identity(&self.names.event(newest));
        note.sequence == newest
            && note.boot_id == self.boot_id
            && matches!(identity, Ok(Some(identity)) if identity.inode() == note.inode)
    }

    fn note(&self) -> Option<Note> {
        let bytes = self.disk.content(&self.names.newest(), NOTE_BYTES_MAX);
        let text = String::from_utf8(bytes.ok()??).ok()?;
        let mut fields = text.strip_suffix('\n')?.split(' ');
        Some(Note {
            sequence: fields.next()?.parse().ok()?,
            inode: fields.next()?.parse().ok()?,
            boot_id: fields.next()?.to_owned(),
        })
    }

    /// Returns the newest event that this process made durable.
    pub(super) fn last(&self) -> Option<(u64, Identity)> {
        *lock(&self.last)
    }

    /// Notes the newest event, which is durable. A note that cannot be written is not missed.
    pub(super) fn write_note(&self, newest: u64, identity: Identity) {
        let path = self.names.newest();
        *lock(&self.last) = Some((newest, identity));
        let text = format!("{newest} {} {}\n", identity.inode(), self.boot_id);
        if self.disk.overwrite(&path, text.as_bytes()).is_err()
            && let Ok(mut file) = self.disk.create(&path, 0o600)
        {
            let _ = file.write(text.as_bytes());
        }
    }

    /// Returns the content of an event, `None` if there is none.
    pub(super) fn read_bytes(&self, sequence: u64) -> Result<Option<Vec<u8>>> {
        let path = self.names.event(sequence);
        let read = self.disk.content(&path, EVENT_BYTES_MAX as u64);
        read.map_err(|source| match source.kind() {
            std::io::ErrorKind::FileTooLarge => {
                corrupt(&path, format!("it is larger than {EVENT_BYTES_MAX} bytes"))
            }
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::IsADirectory => {
                corrupt(&path, "it is not a regular file")
            }
            _ => Error::io("read", path, source),
        })
    }
}
