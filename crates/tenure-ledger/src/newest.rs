//! The newest event, at a cost that does not grow; and the proof of what was acknowledged.
//!
//! `.newest` holds the number and the inode of the newest event that one of ours made durable, the
//! boot it happened in, the inode of the snapshot there was, and a checksum of that. Where all of
//! it is so, no power was lost since and no stranger appended: nothing needs to be synced or looked
//! for. Where it is not, all names are listed.
//!
//! # What is missing
//!
//! The higher of a valid `.newest`, of any boot, and a valid snapshot proves which numbers were
//! acknowledged: both are written when the events are durable. A number that is missing at or below
//! it, or below an event that is there, is an error that names it. Nothing is moved and nothing is
//! appended: whatever lies behind it may have been acknowledged, and a number that came again would
//! be a token that came again.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_files::document::Version as Sha256Sum;
use tenure_os::clock;
use tenure_os::platform::Identity;

use super::event;
use super::lock::LedgerLock;
use super::names::Meaning;
use super::{Ledger, event::EVENT_BYTES_MAX};

/// The largest number of events of strangers that are synced.
const SYNCED_MAX: u64 = 1024;
/// A ledger with at most this many events is listed once by everyone who opens it.
const LISTED_MAX: u64 = 1024;
/// The most events after the noted one that are looked for one by one.
const WALKED_MAX: u64 = 64;
const NOTE_BYTES_MAX: u64 = 300;

/// The problem that is reported for a missing event.
pub(super) const GAP: &str = "it is missing";

/// The content of `.newest`.
pub(super) struct Note {
    pub(super) sequence: u64,
    inode: u64,
    boot_id: String,
    /// The inode of the snapshot, 0 if there was none.
    snapshot: u64,
}

impl Note {
    fn parse(text: &str) -> Option<Self> {
        let (text, checksum) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        if Sha256Sum::of(text.as_bytes()).to_string() != checksum {
            return None;
        }
        let mut fields = text.split(' ');
        Some(Self {
            sequence: fields.next()?.parse().ok()?,
            inode: fields.next()?.parse().ok()?,
            boot_id: fields.next()?.to_owned(),
            snapshot: fields.next()?.parse().ok()?,
        })
    }

    pub(super) fn text(sequence: u64, inode: u64, boot_id: &str, snapshot: u64) -> String {
        let text = format!("{sequence} {inode} {boot_id} {snapshot}");
        let checksum = Sha256Sum::of(text.as_bytes());
        format!("{text} {checksum}\n")
    }
}

impl Ledger {
    /// Returns the number of the newest event, 0 if there is none. A number that is missing below
    /// it, or below one that was acknowledged, is an error where names are listed.
    pub fn newest(&self) -> Result<u64> {
        let note = self.note();
        if let Some(note) = &note
            && self.is_exact(note)
            && self.is_known(note)
        {
            for sequence in note.sequence..=note.sequence + WALKED_MAX {
                if self.is_end(sequence + 1)? {
                    return Ok(sequence);
                }
            }
        }
        self.newest_listed(self.acknowledged(note.as_ref()))
    }

    /// Fails if the event after the last that a reader found is missing, and not yet to come.
    pub(super) fn require_end(&self, next: u64) -> Result<()> {
        let note = self.note();
        match &note {
            Some(note)
                if note.sequence < next
                    && self.is_exact(note)
                    && self.is_known(note)
                    && self.is_end(next)? =>
            {
                Ok(())
            }
            _ => self
                .newest_listed(self.acknowledged(note.as_ref()))
                .map(drop),
        }
    }

    /// Returns the highest number that is proved to have been acknowledged.
    pub(super) fn acknowledged(&self, note: Option<&Note>) -> u64 {
        let noted = note.map_or(0, |note| note.sequence);
        let snapshot = self.snapshot().map_or(0, |snapshot| snapshot.sequence);
        noted.max(snapshot)
    }

    fn newest_listed(&self, acknowledged: u64) -> Result<u64> {
        let listed = self.numbers()?;
        let newest = listed.last().copied().unwrap_or(0).max(acknowledged);
        if listed.len() as u64 != newest {
            for sequence in 1..=newest {
                // One that came while the names were listed may be missing among them.
                if !listed.contains(&sequence) && !self.has(sequence)? {
                    return Err(Error::corrupt(&self.names.event(sequence), GAP));
                }
            }
        }
        self.is_listed.store(true, Ordering::Relaxed);
        Ok(newest)
    }

    /// Returns the numbers of all events that are there.
    fn numbers(&self) -> Result<BTreeSet<u64>> {
        let ledger = self.names.ledger();
        let names = self.disk.names(ledger);
        let names = names.map_err(|source| Error::io("list", ledger, source))?;
        let number = |name: &std::ffi::OsString| match self.names.meaning(name) {
            Meaning::Event(sequence) => Some(sequence),
            _ => None,
        };
        Ok(names.iter().filter_map(number).collect())
    }

    pub(super) fn has(&self, sequence: u64) -> Result<bool> {
        let path = self.names.event(sequence);
        let exists = self.disk.exists(&path);
        exists.map_err(|source| Error::io("look for", path, source))
    }

    /// Step 5: returns the newest event, which is durable then, as are all before it.
    pub(super) fn newest_durable(&self, held: &LedgerLock<'_>) -> Result<u64> {
        let note = self.note();
        if let Some(note) = &note
            && self.is_exact(note)
            && self.is_end(note.sequence + 1)?
            && self.is_known(note)
        {
            return Ok(note.sequence);
        }
        held.check()?;
        let was_listed = self.is_listed.load(Ordering::Relaxed);
        let newest = self.newest_listed(self.acknowledged(note.as_ref()))?;
        if !was_listed {
            self.remove_leftovers();
        }
        let durable = note.map_or(0, |note| note.sequence);
        if newest > durable {
            self.sync_since(durable, newest)?;
        }
        Ok(newest)
    }

    /// Removes events of ours that never got a number, of processes from before the boot. One that
    /// stays is found by `verify`.
    fn remove_leftovers(&self) {
        let up = Duration::from_millis(clock::boot_now());
        let names = self.disk.names(self.names.ledger()).unwrap_or_default();
        for name in names.iter().map(|name| name.to_string_lossy()) {
            let is_ours = name.starts_with(".event-new.") && name.ends_with(".tmp");
            if is_ours && self.age_of(&name) > up {
                let _ = self.disk.remove(&self.names.ledger().join(&*name));
            }
        }
    }

    /// Syncs events that nobody proved to be durable: those of strangers, and those of one of ours
    /// that died or failed before it noted them.
    fn sync_since(&self, durable: u64, newest: u64) -> Result<()> {
        for sequence in durable.max(newest.saturating_sub(SYNCED_MAX)) + 1..=newest {
            let path = self.names.event(sequence);
            match self.disk.sync_file(&path) {
                // Someone removed it, or wrote behind it without the lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::corrupt(&path, GAP));
                }
                synced => synced.map_err(|source| Error::io("sync", path, source))?,
            }
        }
        // One that is torn would be hidden for ever behind the next.
        let path = self.names.event(newest);
        let bytes = self.read_bytes(newest)?.unwrap_or_default();
        event::check(&bytes).map_err(|problem| Error::corrupt(&path, problem))?;
        // Before ours are placed: one of them that survived a power loss alone would leave a gap.
        let ledger = self.names.ledger();
        let synced = self.disk.sync_directory(ledger);
        synced.map_err(|source| Error::io("sync", ledger, source))
    }

    /// Returns true if what a note says is so: no power was lost since.
    fn is_exact(&self, note: &Note) -> bool {
        let identity = self.disk.identity(&self.names.event(note.sequence));
        note.boot_id == self.boot_id
            && matches!(identity, Ok(Some(identity)) if identity.inode() == note.inode)
            && self.snapshot_inode() == note.snapshot
    }

    /// Returns true if all names were listed before, or are too many to be listed by everybody.
    fn is_known(&self, note: &Note) -> bool {
        note.sequence > LISTED_MAX || self.is_listed.load(Ordering::Relaxed)
    }

    /// Returns true if an event and the one behind it are not there.
    fn is_end(&self, next: u64) -> Result<bool> {
        Ok(!self.has(next)? && !self.has(next + 1)?)
    }

    fn snapshot_inode(&self) -> u64 {
        let identity = self.disk.identity(&self.names.snapshot());
        identity.ok().flatten().map_or(0, |found| found.inode())
    }

    pub(super) fn note(&self) -> Option<Note> {
        let bytes = self.disk.content(&self.names.newest(), NOTE_BYTES_MAX);
        Note::parse(&String::from_utf8(bytes.ok()??).ok()?)
    }

    /// Notes the newest event, which is durable. A note that cannot be written is not missed.
    pub(super) fn write_note(&self, newest: u64, identity: Identity) {
        let path = self.names.newest();
        let text = Note::text(
            newest,
            identity.inode(),
            &self.boot_id,
            self.snapshot_inode(),
        );
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
                Error::corrupt(&path, format!("it is larger than {EVENT_BYTES_MAX} bytes"))
            }
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::IsADirectory => {
                Error::corrupt(&path, "it is not a regular file")
            }
            _ => Error::io("read", path, source),
        })
    }
}
