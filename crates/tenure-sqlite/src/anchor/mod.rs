//! The anchor, `PATH-anchor`: which file the database is, and tokens that never go back.
//!
//! It is the one thing beside the database that outlives the database.
//!
//! # Tokens
//!
//! A token is drawn inside a write transaction and is the highest of
//!
//! - one more than the last token drawn by anyone in this boot;
//! - one more than `floor`, the last token of the resource by the database;
//! - the clock in milliseconds, for an anchor that is new or was restored with the rest;
//! - in another boot, or where the last token is not known: one more than the *ceiling*.
//!
//! No token above the ceiling is drawn before a higher one is synced to disk, an hour of
//! milliseconds ahead: a sync an hour. The last token is written without a sync: what loses it
//! is a power loss, and that is another boot. So neither an older copy of the database,
//! nor the un-synced tail of its log, nor a clock set back takes a token back.
//!
//! The ceiling has two slots, each in a sector of its own, written in turn. A write that is torn
//! by a power loss leaves the other slot, and nobody has drawn above that one yet. The last token
//! has a third sector, together with the ceiling that is known to be on disk: a process killed
//! between writing a slot and syncing it leaves a ceiling that no one else relies on.
//!
//! Draws are serialised by a lock on a byte of the anchor, although the database allows one
//! writer at a time: while it is being replaced there are two databases.
//!
//! # A database that took the place of another
//!
//! A database can be deleted, restored or cut to nothing while others hold leases in the old
//! one. They go on believing in them until they look, which is a second or so. Therefore:
//!
//! - A session begins by locking its file, and whoever is granted a lease looks afterwards
//!   whether the database has moved ([`Db::has_moved`](crate::connection::Db::has_moved)). If it
//!   has, the grant is worth nothing.
//! - A file that the anchor does not name is adopted, and a database is made in an empty one, only
//!   under the opening lock and only when no session in `sessions/` is alive.
//!
//! If a holder looks before the new file is in place, its session was locked before, and
//! whoever adopts the new file finds it alive and refuses. If it looks after, it finds the
//! database moved. A session of the new database begins after the file is adopted, as nothing
//! is granted before. So no lock is held in both.
//!
//! # An older copy in the same file
//!
//! `cp saved/* store/` leaves the files where they are and takes away what is in them, and so
//! does the loss of the log. The database itself tells: every entry of its audit says which token
//! was the last one drawn that it knows of, and every grant draws one, of read locks too.
//! Therefore, in the transaction of a grant:
//!
//! 1. A token is drawn. If the one before it is the last one that the audit knows of, nothing
//!    is missing: this is the way of nearly all grants.
//! 2. Else something was drawn that this database does not know of: by a process that was killed
//!    or failed before its commit, or in a database that is no more. What matters is whether
//!    someone alive relies on it. So the claims of all sessions are looked at
//!    ([`session_file`]); if one is above what the audit knows, the grant is refused,
//!    until its holder has looked (a second), stopped, and taken it back.
//! 3. The session that is granted something claims the number before the commit, and takes the
//!    claim back if the commit fails. Where the grant is an offer, it claims when it accepts.
//! 4. The commit writes the number into the audit: it knows of all before it.
//!
//! An entry without a grant carries on what the one before knows: only who has looked may say
//! that nothing is missing.
//!
//! If the copy is put in place before 4, the commit is part of the mixture, or is found missing
//! by the next look of its holder, whose claim stands until then. If it is put in place after 4,
//! the claim is above all that the copy knows. Either way nobody else is granted anything while
//! the holder relies on its lease. Someone stopped between 1 and 4 has the transaction open, and
//! nobody else is granted anything meanwhile.
//!
//! The anchor is what gives the copy away, so it must not be restored with it.
//!
//! The record of the file need not be synced: a power loss ends every session, and then
//! whatever file is there may be adopted.

mod record;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tenure_core::{Error, Result, Token};
use tenure_files::clock;

use crate::connection::busy;
use crate::platform::{self, Identity};
use crate::session_file;
use record::{Ceiling, Last, Named, Record, Slot};

/// How far above a token the ceiling is set.
const HEADROOM: u64 = 3_600_000;

/// Locked while the database is made or adopted.
const OPENING_BYTE: u64 = 0;
/// Locked while a token is drawn.
const DRAWING_BYTE: u64 = 1;

/// How often a byte is tried for before it is told to be busy, and the pause between.
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
        let mut path = database.as_os_str().to_owned();
        path.push("-anchor");
        let path = PathBuf::from(path);
        let file = platform::open_or_create(&path);
        let file = file.map_err(|source| Error::io("open", &path, source))?;
        Ok(Anchor {
            file,
            path,
            sessions: database.with_file_name("sessions"),
            boot: boot(clock::boot_id()?),
            drawing: Mutex::new(()),
        })
    }

    /// Whether it names this file as the database.
    pub(crate) fn names(&self, database: Identity) -> Result<bool> {
        let named = self.read::<Named>(Slot::NAMED)?;
        Ok(named.is_some_and(|named| named.database == database))
    }

    /// What names the store, whatever file its database is; None before a database was adopted.
    #[cfg(test)]
    pub(crate) fn store_id(&self) -> Result<Option<String>> {
        let named = self.read::<Named>(Slot::NAMED)?;
        Ok(named.map(|named| record::spell(named.store)))
    }

    /// Begins to make or adopt a database; busy while someone else does.
    pub(crate) fn begin_opening(&self) -> Result<Opening<'_>> {
        let lock = self.lock(OPENING_BYTE)?;
        // Whoever removed the anchor made a new one, with a lock of its own.
        let here = platform::standing_at(&self.path);
        let here = here.map_err(|source| Error::io("look at", &self.path, source))?;
        let own = platform::standing_of(&self.file);
        let own = own.map_err(|source| Error::io("look at", &self.path, source))?;
        if here.is_none_or(|here| here.identity != own.identity) {
            return Err(busy(&self.path));
        }
        let named = self.read::<Named>(Slot::NAMED)?;
        Ok(Opening {
            store: named.map(|named| named.store),
            _lock: lock,
        })
    }

    /// Draws a token above `floor` and above every one drawn before.
    pub(crate) fn draw(&self, floor: Token) -> Result<Drawn> {
        let _drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock(DRAWING_BYTE)?;
        let last = self.read::<Last>(Slot::LAST)?;
        let last = last.filter(|last| last.boot == self.boot);
        let (known, ceiling) = match &last {
            Some(last) => (last.token, last.ceiling),
            None => (self.ceilings()?.into_iter().max().flatten().unwrap_or(0), 0),
        };
        let before = last.and_then(|last| Token::new(last.token).ok());
        let known = Token::new(known.max(floor.get())).unwrap_or(floor);
        let clock = u64::try_from(clock::now().as_millis()).unwrap_or(0);
        let token = known.next(clock);
        let token = token.ok_or_else(|| Error::Internal("tokens are used up".into()))?;
        let last = Last {
            boot: self.boot,
            token: token.get(),
            ceiling: match token.get() <= ceiling {
                true => ceiling,
                false => self.raise(token.get())?,
            },
        };
        self.write(Slot::LAST, &last)?;
        Ok(Drawn { token, before })
    }

    /// Refuses while someone is alive who was granted something after `known`, the last token
    /// that the database knows of.
    pub(crate) fn check_nobody_claims_more(&self, known: Token) -> Result<()> {
        match session_file::count_claims_above(&self.sessions, known)? {
            0 => Ok(()),
            alive => Err(self.replaced(alive)),
        }
    }

    fn replaced(&self, alive: usize) -> Error {
        let source = io::Error::new(io::ErrorKind::WouldBlock, Replaced { alive });
        Error::io("use the database of", &self.path, source)
    }

    /// Puts a ceiling above `token` on disk.
    fn raise(&self, token: u64) -> Result<u64> {
        let ceiling = token.saturating_add(HEADROOM).min(Token::MAX.get());
        // The higher slot stays until the new one is on disk; and if it was left by a process that
        // was killed before its sync, it is on disk only after this one.
        self.sync()?;
        let [first, second] = self.ceilings()?;
        let slot = match first <= second {
            true => Slot::CEILINGS[0],
            false => Slot::CEILINGS[1],
        };
        self.write(slot, &Ceiling(ceiling))?;
        self.sync()?;
        if first.is_none() && second.is_none() {
            // Its name was never put on disk either.
            let directory = self.path.parent().unwrap_or(Path::new("/"));
            let synced = platform::sync_directory(directory);
            synced.map_err(|source| Error::io("sync", directory, source))?;
        }
        Ok(ceiling)
    }

    fn sync(&self) -> Result<()> {
        let synced = platform::sync_data(&self.file);
        synced.map_err(|source| Error::io("sync", &self.path, source))
    }

    fn ceilings(&self) -> Result<[Option<u64>; 2]> {
        let [first, second] = Slot::CEILINGS;
        let first = self.read::<Ceiling>(first)?;
        let second = self.read::<Ceiling>(second)?;
        Ok([first, second].map(|slot| slot.map(|ceiling| ceiling.0)))
    }

    /// A record; None if it was never written or is damaged.
    fn read<R: Record>(&self, slot: Slot) -> Result<Option<R>> {
        let read = slot.read::<R>(&self.file);
        let read = read.map_err(|source| Error::io("read", &self.path, source))?;
        read.map_err(|version| Error::Configuration {
            problem: format!(
                "{} was made by a newer tenure: it has version {version}",
                self.path.display()
            ),
            remedy: "upgrade tenure, or choose another place with --store".into(),
        })
    }

    fn write<R: Record>(&self, slot: Slot, record: &R) -> Result<()> {
        let written = slot.write(&self.file, record);
        written.map_err(|source| Error::io("write", &self.path, source))
    }

    /// Locks a byte, for moments. Never waits for long: whoever has it may be stopped.
    fn lock(&self, byte: u64) -> Result<ByteLock<'_>> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let locked = platform::try_lock_byte(&self.file, byte);
            if locked.map_err(|source| Error::io("lock", &self.path, source))? {
                return Ok(ByteLock { anchor: self, byte });
            }
        }
        Err(busy(&self.path))
    }
}

/// A token, and what was drawn before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Drawn {
    pub(crate) token: Token,
    /// The last token before this one; None if nobody is known to have drawn in this boot.
    pub(crate) before: Option<Token>,
}

struct ByteLock<'a> {
    anchor: &'a Anchor,
    byte: u64,
}

impl Drop for ByteLock<'_> {
    fn drop(&mut self) {
        // If this failed, the lock would end with the file.
        let _ = platform::unlock_byte(&self.anchor.file, self.byte);
    }
}

/// The right to make or adopt a database, until it is dropped.
pub(crate) struct Opening<'a> {
    store: Option<u128>,
    _lock: ByteLock<'a>,
}

impl Opening<'_> {
    /// What a new database is to be named.
    pub(crate) fn name_for_new(&self) -> String {
        let random = || u128::from_le_bytes(platform::random());
        record::spell(self.store.unwrap_or_else(random))
    }

    /// Refuses while a session is alive that may hold leases in an older database.
    pub(crate) fn check_nobody_lives(&self) -> Result<()> {
        let anchor = self._lock.anchor;
        match session_file::count_alive(&anchor.sessions)? {
            0 => Ok(()),
            alive => Err(anchor.replaced(alive)),
        }
    }

    /// Records a file as the database. Unless it is recorded already, nobody may be alive.
    pub(crate) fn adopt(&self, database: Identity, name: &str) -> Result<()> {
        let anchor = self._lock.anchor;
        if anchor.names(database)? {
            return Ok(());
        }
        self.check_nobody_lives()?;
        let store = self.store.or_else(|| record::read_name(name));
        let store = store.unwrap_or_else(|| u128::from_le_bytes(platform::random()));
        anchor.write(Slot::NAMED, &Named { store, database })
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

/// Whether it failed because sessions of an older database are alive.
pub(crate) fn is_replaced(error: &Error) -> bool {
    let Error::Io { source, .. } = error else {
        return false;
    };
    source.get_ref().is_some_and(|inner| inner.is::<Replaced>())
}

/// A boot id as a number.
fn boot(id: &str) -> u128 {
    let digits = id.chars().filter_map(|digit| digit.to_digit(16));
    digits.fold(0, |number, digit| number << 4 | u128::from(digit))
}

#[cfg(test)]
mod tests;
