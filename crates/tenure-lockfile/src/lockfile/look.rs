//! A look at a lock that does not touch it.
//!
//! A look opens the file for reading and asks the kernel about locks. It takes none and creates
//! nothing, so no request ever finds a lock busy because of a look.
//!
//! A look takes many steps while other processes go on. Only a result that is seen twice in a row
//! is believed: equal proofs, records and tokens. A lock that changes hands faster than it can be
//! looked at twice is shown as it was seen last. The kernel's list of locks tells whether the first
//! in line has been granted, or waits for a program that leaves no record.

use std::fs::File;
use std::io;
use std::path::Path;

use tenure_core::{Error, Result, Token};
use tenure_os::platform::{self, Reach, Share};

use super::cell;
use super::grant::read_at_most;
use super::layout::{CELL_BYTES, RECORD_BYTES_MAX, Slot, of_tokens_above};
use super::record::{self, Record};

/// The outcome of a look at one lock file.
#[derive(Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Look {
    /// The holders.
    pub holders: Vec<Record>,
    /// The number of holders whose record could not be read.
    pub unreadable: usize,
    /// The number of records whose holder is gone. They mean nothing.
    pub left_over: usize,
    /// The last token drawn.
    pub token: Token,
}

/// The largest number of looks before the last one is believed.
const LOOKS_MAX: u32 = 20;

/// Looks at a lock file. Returns `None` if there is none.
pub fn look(path: &Path) -> Result<Option<Look>> {
    let file = match platform::open_to_look(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(super::explain(path, source)),
    };
    let regular = platform::identity_of_regular(&file)
        .map_err(|source| Error::io("look at", path, source))?;
    if regular.is_none() {
        return Err(super::not_a_lock_file(path, "it is not a regular file"));
    }
    let seen = look_until_sure(&file);
    seen.map(Some)
        .map_err(|source| Error::io("look at", path, source))
}

fn look_until_sure(file: &File) -> io::Result<Look> {
    let mut last = Proved::read(file)?;
    for looks in 0.. {
        let again = Proved::read(file)?;
        let sure = again == last;
        last = again;
        if sure && last.unreadable == 0 && !last.is_contradictory() {
            break;
        }
        if looks == LOOKS_MAX {
            if !sure {
                // The records changed all the time, which does not mean that they were destroyed.
                last.unreadable = 0;
            }
            break;
        }
    }
    last.conclude(file)
}

/// The records that are proved. They may be one more than the holders: the first in line proves its
/// record before it is granted.
#[derive(Debug, Default, PartialEq)]
struct Proved {
    direct_writer: Option<Record>,
    line_writer: Option<Record>,
    sharing: Vec<Record>,
    unreadable: usize,
    left_over: usize,
    token: Token,
}

impl Proved {
    fn read(file: &File) -> io::Result<Self> {
        let head = cell::decode_head(&read(file, 0, cell::HEAD_BYTES)?);
        let line = read(file, Slot::LineWriter.cell_offset(), CELL_BYTES)?;
        let mut proved = Proved {
            token: head.token.max(cell::decode(&line)),
            ..Proved::default()
        };
        for slot in Slot::all_within(file.metadata()?.len()) {
            let record = read_record(file, slot)?;
            let token = record
                .as_ref()
                .map_or(Token::NONE, |record| record.lease.token);
            let lock = platform::lock_on_bytes(file, slot.proof(token))?;
            // A writer from the line holds the bytes of all higher tokens, which prove nothing but
            // its own record.
            let live = match slot {
                Slot::DirectWriter => lock == Some(Reach::Limited),
                Slot::LineWriter => lock == Some(Reach::Endless),
                Slot::Upgrader | Slot::Reader(_) => lock.is_some(),
            };
            match (live, record) {
                (true, Some(record)) => proved.add(slot, record),
                (true, None) => proved.unreadable += 1,
                (false, Some(_)) => proved.left_over += 1,
                (false, None) => {}
            }
        }
        let a_writer = proved.direct_writer.is_some() || proved.line_writer.is_some();
        let any_token = of_tokens_above(Token::NONE);
        if !a_writer && platform::bytes_are_locked(file, any_token)? {
            // There is a writer, and its record was destroyed.
            proved.unreadable += 1;
        }
        Ok(proved)
    }

    fn add(&mut self, slot: Slot, record: Record) {
        match slot {
            Slot::DirectWriter => self.direct_writer = Some(record),
            Slot::LineWriter => self.line_writer = Some(record),
            Slot::Upgrader | Slot::Reader(_) => self.sharing.push(record),
        }
    }

    /// Returns true if these cannot all hold the lock, so that it changed hands during the look.
    fn is_contradictory(&self) -> bool {
        let Some(writer) = &self.direct_writer else {
            return false;
        };
        // While a lock changes its mode, both its records are true for a moment.
        let same = |record: &Record| record.lease.lease == writer.lease.lease;
        !self.sharing.iter().all(same)
    }

    fn conclude(self, file: &File) -> io::Result<Look> {
        let writer = match (&self.direct_writer, &self.line_writer) {
            (Some(writer), _) => Some(writer.clone()),
            (None, Some(writer)) if self.sharing.is_empty() => {
                is_granted(file, writer)?.then(|| writer.clone())
            }
            _ => None,
        };
        let holders = match writer {
            Some(writer) => vec![writer],
            None => self.sharing,
        };
        // The current token is the holder's: a higher one is not granted yet.
        let token = holders
            .first()
            .map_or(self.token, |holder| holder.lease.token);
        Ok(Look {
            holders,
            unreadable: self.unreadable,
            left_over: self.left_over,
            token,
        })
    }
}

/// Returns true if the first in line has been granted. It has not while a program that leaves no
/// record holds M. A process of another namespace has the number 0 in the kernel's list.
fn is_granted(file: &File, writer: &Record) -> io::Result<bool> {
    let holders = platform::flock_holders(file)?;
    let may_be_it = |(pid, _): &(u32, Share)| *pid == writer.lease.pid || *pid == 0;
    Ok(holders.is_empty() || holders.iter().any(may_be_it))
}

fn read_record(file: &File, slot: Slot) -> io::Result<Option<Record>> {
    // Records are short; a long one is read in a second call.
    for length in [1024, RECORD_BYTES_MAX] {
        let bytes = read(file, slot.offset(), length)?;
        if let Some(record) = record::decode(&bytes) {
            return Ok(Some(record));
        }
        if bytes.len() < length {
            break;
        }
    }
    Ok(None)
}

fn read(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let filled = read_at_most(file, &mut bytes, at)?;
    bytes.truncate(filled);
    Ok(bytes)
}
