//! Looking at a lock without touching it.
//!
//! Opens the file for reading and asks the kernel about locks; takes none, creates nothing,
//! so nobody ever finds a lock busy because someone looked.
//!
//! A look takes many steps while others go on. Only what is seen twice in a row is
//! believed: the same proofs, the same records, the same tokens. A lock that changes hands
//! faster than it can be looked at twice is shown as it was seen last.

use std::fs::File;
use std::io;
use std::path::Path;

use tenure_core::{Error, Result, Token};

use super::cell;
use super::layout::{RECORD_BYTES_MAX, Slot};
use super::record::{self, Record};
use super::settle::read_at_most;
use crate::platform;

/// What was seen of one lock file.
#[derive(Debug, Default, PartialEq)]
pub struct Look {
    /// Who holds it.
    pub holders: Vec<Record>,
    /// Holders whose record could not be read.
    pub unreadable: usize,
    /// Records of holders that are gone. They mean nothing.
    pub left_over: usize,
    /// The last token drawn.
    pub token: Token,
}

/// How often it is looked again at most.
const LOOKS_MAX: u32 = 20;

/// Looks at a lock file; None if there is none.
pub fn look(path: &Path) -> Result<Option<Look>> {
    let file = match platform::open_to_look(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(super::explain(path, source)),
    };
    let seen = look_until_sure(&file);
    seen.map(Some)
        .map_err(|source| Error::io("look at", path, source))
}

fn look_until_sure(file: &File) -> io::Result<Look> {
    let mut last = look_once(file)?;
    for _ in 0..LOOKS_MAX {
        let again = look_once(file)?;
        if again == last && again.unreadable == 0 {
            return Ok(again);
        }
        last = again;
    }
    Ok(last)
}

fn look_once(file: &File) -> io::Result<Look> {
    let head = cell::decode_head(&read(file, 0, cell::HEAD_BYTES)?);
    let line = read(
        file,
        Slot::LineWriter.cell_offset(),
        super::layout::CELL_BYTES,
    )?;
    let mut look = Look {
        token: head.token.max(cell::decode(&line)),
        ..Look::default()
    };
    let mut in_line = None;
    for slot in Slot::all_within(file.metadata()?.len()) {
        let record = read_record(file, slot)?;
        let token = record
            .as_ref()
            .map_or(Token::NONE, |record| record.lease.token);
        let live = platform::bytes_are_locked(file, slot.proof(token))?;
        match (live, record) {
            (true, Some(record)) if slot == Slot::LineWriter => in_line = Some(record),
            (true, Some(record)) => look.add(record),
            (true, None) => look.unreadable += 1,
            (false, Some(_)) => look.left_over += 1,
            (false, None) => {}
        }
    }
    // The first in line proves its record before it is granted: it holds the lock if nobody
    // else does.
    if let Some(record) = in_line
        && look.holders.is_empty()
    {
        look.add(record);
    }
    // The current token is that of whoever holds it: a higher one is not granted yet.
    if let Some(holder) = look.holders.first() {
        look.token = holder.lease.token;
    }
    Ok(look)
}

impl Look {
    fn add(&mut self, record: Record) {
        // While a lock changes its mode both its records are true for a moment.
        let known = |other: &Record| other.lease.lease == record.lease.lease;
        if !self.holders.iter().any(known) {
            self.holders.push(record);
        }
    }
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
