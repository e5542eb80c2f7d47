//! The newest event, at a cost that does not grow; and the proof of which events were acknowledged.
//!
//! `.newest` holds the number and the inode of the newest event that a process of ours made
//! durable, the boot in which it did so, the inode of the snapshot at that time, and a checksum of
//! all that. If all of it still holds, no power was lost since and no stranger appended: nothing
//! needs to be synced or looked for. Otherwise all names are listed.
//!
//! # Missing events
//!
//! A valid `.newest`, of any boot, and a valid snapshot prove which numbers were acknowledged: both
//! are written once the events are durable, and the higher of the two counts. A number that is
//! missing at or below it, or below an event that is there, is an error that names it. Nothing is
//! moved and nothing is appended: an event behind the gap may have been acknowledged, and a number
//! that came again would be a token that came again.

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

/// The largest number of strangers' events that are synced.
const SYNCED_MAX: u64 = 1024;
/// A ledger with at most this many events is listed once by each process that opens it.
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
    /// Returns the number of the newest event, 0 if there is none. Fails if the names had to be
    /// listed and a number below it, or below an acknowledged one, is missing.
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

    /// Fails if the event after the last that a reader found is missing, rather than yet to come.
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
                // An event that came while the names were listed may be missing among them.
                if !listed.contains(&sequence) && !self.has(sequence)? {
                    return Err(Error::corrupt(self.names.event(sequence), GAP));
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

    /// Returns the newest event, once it and all before it are durable: step 5.
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

    /// Removes events without a number that our processes left before this boot. A file that cannot
    /// be removed stays, and `verify` finds it.
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

    /// Syncs events whose durability is unproved: those of strangers, and those of processes of
    /// ours that died or failed before the note.
    fn sync_since(&self, durable: u64, newest: u64) -> Result<()> {
        for sequence in durable.max(newest.saturating_sub(SYNCED_MAX)) + 1..=newest {
            let path = self.names.event(sequence);
            match self.disk.sync_file(&path) {
                // The event was removed, or another program wrote behind it without the lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::corrupt(&path, GAP));
                }
                synced => synced.map_err(|source| Error::io("sync", path, source))?,
            }
        }
        // A torn newest event would be hidden for ever behind the next one.
        let path = self.names.event(newest);
        let bytes = self.read_bytes(newest)?.unwrap_or_default();
        event::check(&bytes).map_err(|problem| Error::corrupt(&path, problem))?;
        // The sync comes before our events are placed: one of ours that survived a power loss alone
        // would leave a gap.
        let ledger = self.names.ledger();
        let synced = self.disk.sync_directory(ledger);
        synced.map_err(|source| Error::io("sync", ledger, source))
    }

    /// Returns true if the note still holds, so that no power was lost since.
    fn is_exact(&self, note: &Note) -> bool {
        let identity = self.disk.identity(&self.names.event(note.sequence));
        note.boot_id == self.boot_id
            && matches!(identity, Ok(Some(identity)) if identity.inode() == note.inode)
            && self.snapshot_inode() == note.snapshot
    }

    /// Returns true if this process has listed all names, or if they are too many for each process
    /// to list.
    fn is_known(&self, note: &Note) -> bool {
        note.sequence > LISTED_MAX || self.is_listed.load(Ordering::Relaxed)
    }

    /// Returns true if neither this event nor the one behind it is there.
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

    /// Notes the newest event, which is durable. If the note cannot be written, nothing is lost.
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
