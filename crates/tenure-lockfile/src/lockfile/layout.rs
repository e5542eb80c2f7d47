//! The layout of a lock file.
//!
//! The contents are text, so that `cat` shows them:
//!
//! | offset | content |
//! |---|---|
//! | 0 | the mark: `1` if the line was used since it was last cleared |
//! | 8 | the token cell and the record of a writer that did not wait |
//! | 16384 | the token cell and the record of a writer that came through the line |
//! | 32768 | the record of the upgradeable holder |
//! | 49152 + 16384 i | the record of reader i |
//!
//! Bytes far behind the contents are never written, only locked:

use std::ops::Range;

use tenure_core::Token;

/// The offset of the mark.
pub(super) const MARK_AT: u64 = 0;
/// The length of the mark with its padding.
pub(super) const MARK_BYTES: usize = 8;
/// The length of a token cell.
pub(super) const CELL_BYTES: usize = 56;
/// The room for one record with its cell.
const SLOT_BYTES: u64 = 16384;
/// The room for a record alone: the same in every slot, so that a lease can change its mode.
pub(super) const RECORD_BYTES_MAX: usize = SLOT_BYTES as usize - MARK_BYTES - CELL_BYTES;
/// The largest number of readers at once; more are refused.
pub(super) const READERS_MAX: u64 = 4096;

const BASE: u64 = 1 << 62;
const READERS_AT: u64 = 16;

const fn byte(place: u64) -> Range<u64> {
    BASE + place..BASE + place + 1
}

/// Held by the upgradeable holder, and by the first in line if it wants to write or upgrade.
pub(super) const INTENT: Range<u64> = byte(0);
/// Proves the record of the upgradeable holder.
const UPGRADER: Range<u64> = byte(4);
/// Held by the first in line: the kernel's queue for it is the line.
pub(super) const TURNSTILE: Range<u64> = byte(8);
/// Held by a waiting upgrade; a reader that comes through the turnstile shares it on its way in.
pub(super) const GATE: Range<u64> = byte(9);
/// Shared by every waiter in line and by a waiting upgrade, so that a new request does not
/// overtake.
pub(super) const QUEUE: Range<u64> = byte(10);
/// TURNSTILE, GATE and QUEUE, which are unlocked together.
pub(super) const LINE: Range<u64> = BASE + 8..BASE + 11;
/// The bytes of all readers.
pub(super) const READERS: Range<u64> = BASE + READERS_AT..BASE + READERS_AT + 2 * READERS_MAX;
/// All bytes that one open file can hold.
pub(super) const EVERYTHING: Range<u64> = BASE..u64::MAX;

/// The place of the bytes of the tokens, behind those of the readers.
const TOKENS_AT: u64 = 1 << 32;

/// Returns the byte that proves the record of a writer with this token, and no other.
pub(super) const fn of_token(token: Token) -> Range<u64> {
    byte(TOKENS_AT + token.get())
}

/// Returns the bytes of all higher tokens. Holding them keeps others from being granted one.
pub(super) const fn of_tokens_above(token: Token) -> Range<u64> {
    of_token(token).end..u64::MAX
}

/// The place of a record, which also determines the byte that proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    DirectWriter,
    LineWriter,
    Upgrader,
    Reader(u64),
}

impl Slot {
    /// Returns the offset of the token cell, in the slots that have one.
    pub(super) const fn cell_offset(self) -> u64 {
        match self {
            Slot::LineWriter => SLOT_BYTES,
            _ => MARK_BYTES as u64,
        }
    }

    /// Returns the offset of the record.
    pub(super) const fn offset(self) -> u64 {
        match self {
            Slot::DirectWriter | Slot::LineWriter => self.cell_offset() + CELL_BYTES as u64,
            Slot::Upgrader => 2 * SLOT_BYTES,
            Slot::Reader(reader) => (3 + reader) * SLOT_BYTES,
        }
    }

    /// Returns the byte that is locked for as long as a record with this token is true.
    pub(super) const fn proof(self, token: Token) -> Range<u64> {
        match self {
            Slot::DirectWriter | Slot::LineWriter => of_token(token),
            Slot::Upgrader => UPGRADER,
            Slot::Reader(reader) => byte(READERS_AT + 2 * reader + 1),
        }
    }

    /// Returns the byte that reserves the slot of a reader before its record is written.
    pub(super) const fn reserved(reader: u64) -> Range<u64> {
        byte(READERS_AT + 2 * reader)
    }

    /// Returns the slots a file of this length can have a record in.
    pub(super) fn all_within(length: u64) -> impl Iterator<Item = Slot> {
        let readers = length.div_ceil(SLOT_BYTES).saturating_sub(3);
        let readers = (0..readers.min(READERS_MAX)).map(Slot::Reader);
        [Slot::DirectWriter, Slot::LineWriter, Slot::Upgrader]
            .into_iter()
            .chain(readers)
    }
}
