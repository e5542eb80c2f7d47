//! Turns M into a lease: the line, the token, the record, and its proof.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use tenure_core::{Error, Mode, Result, Token};
use tenure_os::cancel::Ended;
use tenure_os::platform::{self, Share};

use super::cell::{self, HEAD_BYTES, Head};
use super::layout::{
    CELL_BYTES, INTENT, MARK_AT, MARK_BYTES, QUEUE, READERS_MAX, Slot, TURNSTILE, of_tokens_above,
};
use super::{HeldLock, LockFile, RecordWriter, record};
use crate::interrupt::Interrupt;

/// The number of reads after which a torn cell was destroyed: writing one takes a moment.
const TORN_READS_MAX: u32 = 50;

impl LockFile {
    /// Makes the lease, with M held and the path looked up. Returns `None` if a waiter is before
    /// us.
    pub(super) fn grant_directly(
        &mut self,
        mode: Mode,
        writer: &mut dyn RecordWriter,
    ) -> Result<Option<HeldLock>> {
        let head = self.read_head()?;
        self.line_expected = head.marked;
        if mode == Mode::Write {
            let last = if head.marked {
                self.clear_mark(head)?
            } else {
                Some(head.token)
            };
            return match last {
                Some(last) => self.write_directly(last, writer),
                None => Ok(None),
            };
        }
        if !head.marked {
            return self.grant_shared(mode, head.token, writer);
        }
        // The first in line writes its token before it is granted, so it must not be there while
        // the last granted token is read. No waiter can be first while TURNSTILE is shared.
        if self.someone_is_in_line()? || !self.try_bytes(TURNSTILE, Share::Shared)? {
            return Ok(None);
        }
        let last = self.last_token()?;
        self.unlock_bytes(TURNSTILE)?;
        self.grant_shared(mode, last, writer)
    }

    /// Clears an old mark and returns the last token, or `None` if a waiter is in line.
    ///
    /// With M exclusive no other process does this. With QUEUE exclusive no waiter joins the line
    /// between the question and the write, so the mark of a waiter is never wiped out.
    fn clear_mark(&mut self, head: Head) -> Result<Option<Token>> {
        if !self.try_bytes(QUEUE, Share::Exclusive)? {
            return Ok(None);
        }
        let last = head.token.max(self.line_token()?);
        // One write does both: the first cell is never behind the second while the mark is clear.
        self.write(&cell::encode_unmarked_head(last), MARK_AT)?;
        self.unlock_bytes(QUEUE)?;
        self.line_expected = false;
        Ok(Some(last))
    }

    /// Writes the next token and the record, and proves them. If the first in line has drawn its
    /// token in this instant, puts the last token back and returns `None`.
    fn write_directly(
        &self,
        last: Token,
        writer: &mut dyn RecordWriter,
    ) -> Result<Option<HeldLock>> {
        let slot = Slot::DirectWriter;
        let token = writer.draw(last)?;
        self.write_token_and_record(token, slot, writer)?;
        if self.try_bytes(slot.proof(token), Share::Exclusive)? {
            return Ok(Some(HeldLock {
                mode: Mode::Write,
                token,
                upgraded: false,
                slot,
            }));
        }
        self.put_back_token(slot, last)?;
        Ok(None)
    }

    /// Draws the token, writes the record and proves it, as the first in line with INTENT. Also
    /// returns the token that the cell held before.
    pub(super) fn prepare_to_write(
        &self,
        writer: &mut dyn RecordWriter,
    ) -> Result<(HeldLock, Token)> {
        let slot = Slot::LineWriter;
        let before = self.line_token()?;
        let last = self.close_tokens_above_the_last(before, writer)?;
        let token = writer.draw(last)?;
        self.write_token_and_record(token, slot, writer)?;
        let locked = HeldLock {
            mode: Mode::Write,
            token,
            upgraded: false,
            slot,
        };
        Ok((locked, before))
    }

    /// Finds the last token and keeps every other writer from being granted a higher one.
    ///
    /// A writer that did not wait may be on its way in, having looked before the mark was set;
    /// there is at most one. It writes its token before it locks that token's byte. So once the
    /// bytes are ours, either it was granted before, and its token is in the cell for good; or it
    /// is not granted, and it does not matter whether its token is seen.
    fn close_tokens_above_the_last(
        &self,
        before: Token,
        writer: &mut dyn RecordWriter,
    ) -> Result<Token> {
        let mut last = self.read_head()?.token.max(before);
        let mut step = 1;
        while !self.try_bytes(of_tokens_above(last), Share::Exclusive)? {
            let found = self.read_head()?.token;
            last = if found > last {
                found
            } else {
                // The cell does not have the token that its holder was granted, so it was
                // destroyed. Larger and larger steps lead past that token.
                step *= 2;
                writer.draw(Token::new(last.get() + step).unwrap_or(last))?
            };
        }
        Ok(self.read_head()?.token.max(last))
    }

    /// Puts back the token that the cell had before the one that was drawn and not granted.
    pub(super) fn put_back_token(&self, slot: Slot, before: Token) -> Result<()> {
        self.write(&cell::encode(before), slot.cell_offset())
    }

    /// Writes the token, the record and its proof, with M exclusive after an upgrade.
    pub(super) fn write_upgraded(&self, writer: &mut dyn RecordWriter) -> Result<HeldLock> {
        let last = self.last_token()?;
        let Some(locked) = self.write_directly(last, writer)? else {
            let problem = "an upgradeable lock has lost its intent lock".to_owned();
            return Err(Error::Internal(problem));
        };
        Ok(HeldLock {
            upgraded: true,
            ..locked
        })
    }

    /// Writes the record and its proof, with M shared. Returns `None` if there is another
    /// upgradeable holder.
    pub(super) fn grant_shared(
        &mut self,
        mode: Mode,
        token: Token,
        writer: &mut dyn RecordWriter,
    ) -> Result<Option<HeldLock>> {
        let slot = if mode == Mode::Upgradeable {
            if !self.try_bytes(INTENT, Share::Exclusive)? {
                return Ok(None);
            }
            Slot::Upgrader
        } else {
            self.reserve_reader()?
        };
        self.write_record(token, mode, slot, writer)?;
        self.prove(slot, token)?;
        Ok(Some(HeldLock {
            mode,
            token,
            upgraded: false,
            slot,
        }))
    }

    fn reserve_reader(&mut self) -> Result<Slot> {
        // Low slots are preferred: the file stays short, and looking at it cheap.
        let candidates = std::iter::once(self.reader_hint).chain(0..READERS_MAX);
        for reader in candidates {
            if self.try_bytes(Slot::reserved(reader), Share::Exclusive)? {
                self.reader_hint = reader;
                return Ok(Slot::Reader(reader));
            }
        }
        let problem = format!(
            "{} has {READERS_MAX} readers, which is the limit",
            self.path.display()
        );
        Err(Error::configuration(problem, "wait until some have gone"))
    }

    /// Locks the byte of a record. Only the process that may write the slot locks it.
    pub(super) fn prove(&self, slot: Slot, token: Token) -> Result<()> {
        if self.try_bytes(slot.proof(token), Share::Exclusive)? {
            return Ok(());
        }
        let problem = format!("the record of {} is another's", self.path.display());
        Err(Error::Internal(problem))
    }

    /// Joins the queue first and sets the mark after, so that a mark is never wiped out
    /// while its waiter is there.
    pub(super) fn join_queue(&self, interrupt: &mut Interrupt) -> Result<Result<(), Ended>> {
        // This waits at most for the moment it takes to clear an old mark.
        let joined = self.wait_bytes(QUEUE, Share::Shared, interrupt)?;
        if joined.is_ok() {
            self.mark_line()?;
        }
        Ok(joined)
    }

    /// Sets the mark that a waiter is in line; QUEUE is locked already.
    pub(super) fn mark_line(&self) -> Result<()> {
        self.write(b"1", MARK_AT)
    }

    pub(super) fn someone_is_in_line(&self) -> Result<bool> {
        let locked = platform::bytes_are_locked(&self.file, QUEUE);
        locked.map_err(|source| self.failed("look at", source))
    }

    /// Returns the last token drawn, with or without waiting.
    pub(super) fn last_token(&self) -> Result<Token> {
        Ok(self.read_head()?.token.max(self.line_token()?))
    }

    pub(super) fn read_head(&self) -> Result<Head> {
        let mut bytes = [0; HEAD_BYTES];
        self.read_cell(&mut bytes, 0, MARK_BYTES)?;
        Ok(cell::decode_head(&bytes))
    }

    fn line_token(&self) -> Result<Token> {
        let mut bytes = [0; CELL_BYTES];
        self.read_cell(&mut bytes, Slot::LineWriter.cell_offset(), 0)?;
        Ok(cell::decode(&bytes))
    }

    /// Reads bytes that end with a token cell. A cell that is being written is read again: half of
    /// one must not count as none. A cell that stays unreadable was destroyed.
    fn read_cell(&self, bytes: &mut [u8], at: u64, cell_at: usize) -> Result<()> {
        for _ in 0..TORN_READS_MAX {
            bytes.fill(0);
            let read = read_at_most(&self.file, bytes, at);
            read.map_err(|source| self.failed("read", source))?;
            if cell::is_whole_or_unused(&bytes[cell_at..]) {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn write_token_and_record(
        &self,
        token: Token,
        slot: Slot,
        writer: &mut dyn RecordWriter,
    ) -> Result<()> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(&cell::encode(token));
        let (grant, holder) = writer.record(token, Mode::Write);
        record::encode(grant, holder, &mut out)?;
        self.write(&out, slot.cell_offset())
    }

    pub(super) fn write_record(
        &self,
        token: Token,
        mode: Mode,
        slot: Slot,
        writer: &mut dyn RecordWriter,
    ) -> Result<()> {
        let mut out = Vec::with_capacity(1024);
        let (grant, holder) = writer.record(token, mode);
        record::encode(grant, holder, &mut out)?;
        self.write(&out, slot.offset())
    }

    /// Writes the record again, for example with a new heartbeat.
    pub(crate) fn rewrite_record(
        &self,
        locked: HeldLock,
        writer: &mut dyn RecordWriter,
    ) -> Result<()> {
        self.write_record(locked.token, locked.mode, locked.slot, writer)
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|source| self.failed("write", source))
    }

    pub(super) fn try_bytes(&self, bytes: Range<u64>, how: Share) -> Result<bool> {
        let locked = platform::try_lock_bytes(&self.file, bytes, how);
        locked.map_err(|source| self.failed("lock", source))
    }

    pub(super) fn wait_bytes(
        &self,
        bytes: Range<u64>,
        how: Share,
        interrupt: &mut Interrupt,
    ) -> Result<Result<(), Ended>> {
        let wait = || platform::wait_lock_bytes(&self.file, bytes.clone(), how);
        let waited = interrupt.wait(wait);
        waited.map_err(|source| self.failed("lock", source))
    }

    pub(super) fn unlock_bytes(&self, bytes: Range<u64>) -> Result<()> {
        let unlocked = platform::unlock_bytes(&self.file, bytes);
        unlocked.map_err(|source| self.failed("unlock", source))
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_at_most(file: &std::fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
