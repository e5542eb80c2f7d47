//! The anchor, `PATH-anchor`: the identity of the database's file, and tokens that never go back.
//!
//! It is the only file that outlives the database.
//!
//! # Tokens
//!
//! A token is drawn inside a write transaction and is the highest of
//!
//! - one more than the last token drawn by any process in this boot;
//! - one more than `floor`, the last token of the resource by the database;
//! - the clock in milliseconds, for an anchor that is new or was restored with the rest;
//! - in another boot, or where the last token is not known: one more than the *ceiling*.
//!
//! No token above the ceiling is drawn before a higher one is synced to disk, an hour of
//! milliseconds ahead: a sync an hour. The last token is written without a sync: only a power loss
//! loses it, and that is another boot. No token goes back, whether by an older copy of the
//! database, by the un-synced tail of its log, or by a clock set back.
//!
//! The ceiling has two slots, each in a sector of its own, written in turn. A write that is torn by
//! a power loss leaves the other slot, and no process has drawn above that one yet. The last token
//! has a third sector, together with the ceiling that is known to be on disk: a process killed
//! between writing a slot and syncing it leaves a ceiling that no other process relies on.
//!
//! Draws are serialised by a lock on a byte of the anchor, although the database allows one
//! writer at a time: while it is being replaced there are two databases.
//!
//! # A database that took the place of another
//!
//! A database can be deleted, restored or cut to nothing while others hold leases in the old one.
//! They believe in those leases until they look again, after a second or so. Therefore:
//!
//! - A session begins by locking its file, and checks after each grant whether the database has
//!   moved ([`Db::has_moved`](crate::connection::Db::has_moved)). If it has, the grant is void.
//! - A file that the anchor does not name is adopted, and a database is made in an empty one, only
//!   under the opening lock and only when no session in `sessions/` is alive.
//!
//! If a holder looks before the new file is in place, its session was locked before, and the
//! process that would adopt the new file finds it alive and refuses. If it looks after, it finds
//! the database moved. A session of the new database begins after the file is adopted, as nothing
//! is granted before. No lock is therefore held in both.
//!
//! An older copy written into the same file is not noticed: the file is the one that is named.
//!
//! The record of the file need not be synced: a power loss ends every session, and then
//! whatever file is there may be adopted.

mod record;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tenure_core::internal::OrCannot;
use tenure_core::internal::lock;
use tenure_core::{Error, Result, Token};
use tenure_os::clock;

use crate::connection::{beside, busy};
use crate::platform::{self, FileIdentity, Share};
use crate::session_file;
use record::{Ceiling, Last, Named, Record, Slot, decode};

/// The distance of a new ceiling from the token that needs it.
const HEADROOM: u64 = 3_600_000;

/// Locked while the database is made or adopted.
const OPENING_BYTE: u64 = 0;
/// Locked while a token is drawn.
const DRAWING_BYTE: u64 = 1;

/// The number of attempts to lock a byte before it counts as busy, and the pause between them.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_micros(50);

/// The anchor of one database.
pub(crate) struct Anchor {
    file: File,
    path: PathBuf,
    sessions: PathBuf,
    boot: u128,
    /// The lock on a byte belongs to the open file: it does not tell threads apart.
    drawing: Mutex<()>,
}

impl Anchor {
    /// Opens the anchor beside a database, making an empty one if there is none.
    pub(crate) fn open(database: &Path) -> Result<Anchor> {
        let path = beside(database, "-anchor");
        let file = platform::open_or_create(&path).or_cannot("open", &path)?;
        Self::with(file, path, database)
    }

    /// Opens the anchor of a database that is only read. Returns `None` if there is none.
    pub(crate) fn open_to_look(database: &Path) -> Result<Option<Anchor>> {
        let path = beside(database, "-anchor");
        let file = platform::open_to_look(&path).or_cannot("open", &path)?;
        file.map(|file| Self::with(file, path, database))
            .transpose()
    }

    fn with(file: File, path: PathBuf, database: &Path) -> Result<Anchor> {
        Ok(Anchor {
            file,
            path,
            sessions: database.with_file_name("sessions"),
            boot: boot(clock::boot_id()?),
            drawing: Mutex::new(()),
        })
    }

    /// Returns true if it names this file as the database.
    pub(crate) fn names(&self, database: FileIdentity) -> Result<bool> {
        let named = self.read::<Named>(Slot::NAMED)?;
        Ok(named.is_some_and(|named| named.database == database))
    }

    /// Begins to make or adopt a database. Fails as busy while another process does.
    pub(crate) fn begin_opening(&self) -> Result<Opening<'_>> {
        let lock = self.lock(OPENING_BYTE)?;
        // If the anchor was removed, another process may have a new one, with its own lock.
        let here = platform::status_at(&self.path).or_cannot("look at", &self.path)?;
        let own = platform::status_of(&self.file).or_cannot("look at", &self.path)?;
        if here.is_none_or(|here| here.identity != own.identity) {
            return Err(busy(&self.path));
        }
        Ok(Opening { lock })
    }

    /// Draws a token above `floor` and above every one drawn before.
    pub(crate) fn draw(&self, floor: Token) -> Result<Token> {
        let _drawing = lock(&self.drawing);
        let _lock = self.lock(DRAWING_BYTE)?;
        let last = self.read::<Last>(Slot::LAST)?;
        let last = last.filter(|last| last.boot == self.boot);
        let (known, ceiling) = match last {
            Some(last) => (last.token, last.ceiling),
            None => (self.ceilings()?.into_iter().max().flatten().unwrap_or(0), 0),
        };
        let known = Token::new(known.max(floor.get())).unwrap_or(floor);
        let clock = u64::try_from(clock::now().as_millis()).unwrap_or(0);
        let token = known.next(clock);
        let token = token.ok_or_else(|| Error::Internal("tokens are used up".into()))?;
        let last = Last {
            boot: self.boot,
            token: token.get(),
            ceiling: if token.get() <= ceiling {
                ceiling
            } else {
                self.raise(token.get())?
            },
        };
        self.write(Slot::LAST, &last)?;
        Ok(token)
    }

    /// Puts a ceiling above `token` on disk.
    fn raise(&self, token: u64) -> Result<u64> {
        let ceiling = token.saturating_add(HEADROOM).min(Token::MAX.get());
        // The higher slot stays until the new one is on disk; and if it was left by a process that
        // was killed before its sync, it is on disk only after this one.
        self.sync()?;
        let [first, second] = self.ceilings()?;
        let slot = if first <= second {
            Slot::CEILINGS[0]
        } else {
            Slot::CEILINGS[1]
        };
        self.write(slot, &Ceiling(ceiling))?;
        self.sync()?;
        if first.is_none() && second.is_none() {
            // Its name was never put on disk either.
            let directory = self.path.parent().unwrap_or(Path::new("/"));
            File::open(directory)
                .and_then(|directory| directory.sync_all())
                .or_cannot("sync", directory)?;
        }
        Ok(ceiling)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().or_cannot("sync", &self.path)
    }

    fn ceilings(&self) -> Result<[Option<u64>; 2]> {
        let [first, second] = Slot::CEILINGS;
        let first = self.read::<Ceiling>(first)?;
        let second = self.read::<Ceiling>(second)?;
        Ok([first, second].map(|slot| slot.map(|ceiling| ceiling.0)))
    }

    /// Returns a record, or `None` if it was never written or is damaged.
    fn read<R: Record>(&self, slot: Slot) -> Result<Option<R>> {
        let bytes = slot.read(&self.file).or_cannot("read", &self.path)?;
        let read = bytes.map_or(Ok(None), |bytes| decode(&bytes));
        read.map_err(|version| {
            Error::configuration(
                format!(
                    "{} was made by a newer tenure: it has version {version}",
                    self.path.display()
                ),
                "upgrade tenure, or choose another place with {.store}",
            )
        })
    }

    fn write<R: Record>(&self, slot: Slot, record: &R) -> Result<()> {
        slot.write(&self.file, record)
            .or_cannot("write", &self.path)
    }

    /// Locks a byte for a moment. Never waits for long: the process that has it may be stopped.
    fn lock(&self, byte: u64) -> Result<ByteLock<'_>> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let locked = platform::try_lock_bytes(&self.file, byte..byte + 1, Share::Exclusive);
            if locked.or_cannot("lock", &self.path)? {
                return Ok(ByteLock { anchor: self, byte });
            }
        }
        Err(busy(&self.path))
    }
}

struct ByteLock<'a> {
    anchor: &'a Anchor,
    byte: u64,
}

impl Drop for ByteLock<'_> {
    fn drop(&mut self) {
        // If this failed, the lock would end with the file.
        let _ = platform::unlock_bytes(&self.anchor.file, self.byte..self.byte + 1);
    }
}

/// The right to make or adopt a database, until it is dropped.
pub(crate) struct Opening<'a> {
    lock: ByteLock<'a>,
}

impl Opening<'_> {
    /// Refuses while a session is alive that may hold leases in an older database.
    pub(crate) fn check_nobody_lives(&self) -> Result<()> {
        let anchor = self.lock.anchor;
        match session_file::count_alive(&anchor.sessions)? {
            0 => Ok(()),
            alive => {
                let source = io::Error::new(io::ErrorKind::WouldBlock, Replaced { alive });
                Err(Error::io("use the database of", &anchor.path, source))
            }
        }
    }

    /// Records a file as the database. Unless it is recorded already, no session may be alive.
    pub(crate) fn adopt(&self, database: FileIdentity) -> Result<()> {
        let anchor = self.lock.anchor;
        if anchor.names(database)? {
            return Ok(());
        }
        self.check_nobody_lives()?;
        anchor.write(Slot::NAMED, &Named { database })
    }
}

/// The database is not the one in which sessions that are alive hold their leases.
#[derive(Debug, thiserror::Error)]
#[error(
    "the database was deleted, replaced or restored while {alive} session{} in the one before; {} \
     of it within seconds, so try again then",
    if *alive == 1 { " is alive" } else { "s are alive" },
    if *alive == 1 { "it learns" } else { "they learn" },
)]
pub(crate) struct Replaced {
    alive: usize,
}

/// Returns true if a call failed because sessions of an older database are alive.
pub(crate) fn is_replaced(error: &Error) -> bool {
    let Error::Io { source, .. } = error else {
        return false;
    };
    source.get_ref().is_some_and(|inner| inner.is::<Replaced>())
}

/// Returns a boot id as a number.
fn boot(id: &str) -> u128 {
    let digits = id.chars().filter_map(|digit| digit.to_digit(16));
    digits.fold(0, |number, digit| number << 4 | u128::from(digit))
}

#[cfg(test)]
mod tests;
