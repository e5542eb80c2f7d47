//! The records of the anchor: small, with a checksum, each in a sector of its own,
//! so that a power loss tears at most the one that is being written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::platform::FileIdentity;

const SECTOR_BYTES: u64 = 512;
const WORDS: usize = 6;
/// The length of a record: magic, words and checksum.
const RECORD_BYTES: usize = 8 + WORDS * 8 + 8;
const VERSION: u8 = 1;

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    pub(super) const NAMED: Slot = Slot(0);
    pub(super) const CEILINGS: [Slot; 2] = [Slot(1), Slot(2)];
    pub(super) const LAST: Slot = Slot(3);

    /// Reads the bytes of a record, or `None` if there is none.
    pub(super) fn read(self, file: &File) -> io::Result<Option<[u8; RECORD_BYTES]>> {
        let mut bytes = [0; RECORD_BYTES];
        let read = loop {
            match file.read_at(&mut bytes, self.0 * SECTOR_BYTES) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok((read == RECORD_BYTES).then_some(bytes))
    }

    pub(super) fn write<R: Record>(self, file: &File, record: &R) -> io::Result<()> {
        file.write_all_at(&encode(record), self.0 * SECTOR_BYTES)
    }
}

/// A value that fits into a slot.
pub(super) trait Record: Sized {
    /// The number that tells this kind of record from others.
    const KIND: u8;
    fn words(&self) -> [u64; WORDS];
    fn from_words(words: [u64; WORDS]) -> Self;
}

/// The file that is the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) database: FileIdentity,
}

/// The ceiling: no token above it was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ceiling(pub(super) u64);

/// The last token of a boot, and the ceiling that is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) boot: u128,
    pub(super) token: u64,
    pub(super) ceiling: u64,
}

impl Record for Named {
    const KIND: u8 = b'n';
    fn words(&self) -> [u64; WORDS] {
        [0, 0, self.database.device, self.database.inode, 0, 0]
    }
    fn from_words([_, _, device, inode, ..]: [u64; WORDS]) -> Self {
        Named {
            database: FileIdentity { device, inode },
        }
    }
}

impl Record for Ceiling {
    const KIND: u8 = b'c';
    fn words(&self) -> [u64; WORDS] {
        [self.0, 0, 0, 0, 0, 0]
    }
    fn from_words([ceiling, ..]: [u64; WORDS]) -> Self {
        Ceiling(ceiling)
    }
}

impl Record for Last {
    const KIND: u8 = b'l';
    fn words(&self) -> [u64; WORDS] {
        let [low, high] = split(self.boot);
        [low, high, self.token, self.ceiling, 0, 0]
    }
    fn from_words([low, high, token, ceiling, ..]: [u64; WORDS]) -> Self {
        Last {
            boot: join(low, high),
            token,
            ceiling,
        }
    }
}

fn split(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

fn join(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn magic(kind: u8, version: u8) -> [u8; 8] {
    [b't', b'e', b'n', b'u', b'r', b'e', kind, version]
}

fn encode<R: Record>(record: &R) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&magic(R::KIND, VERSION));
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(record.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&bytes[..RECORD_BYTES - 8]);
    bytes[RECORD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the record in these bytes, `None` if it is damaged, and `Err` with the version of a
/// newer one.
pub(super) fn decode<R: Record>(bytes: &[u8; RECORD_BYTES]) -> Result<Option<R>, u8> {
    let mut numbers = bytes.chunks_exact(8).map(|chunk| {
        let mut number = [0; 8];
        number.copy_from_slice(chunk);
        number
    });
    let found = numbers.next().unwrap_or_default();
    let words: [u64; WORDS] =
        std::array::from_fn(|_| u64::from_le_bytes(numbers.next().unwrap_or_default()));
    let sum = u64::from_le_bytes(numbers.next().unwrap_or_default());
    let version = found[7];
    let whole = sum == checksum(&bytes[..RECORD_BYTES - 8]);
    if !whole || found != magic(R::KIND, version) {
        return Ok(None);
    }
    if version > VERSION {
        return Err(version);
    }
    Ok(Some(R::from_words(words)))
}

/// Returns FNV-1a, which finds torn writes; forgeries need not be found.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Last = Last {
        boot: 7 << 90 | 3,
        token: 42,
        ceiling: 99,
    };

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Slot::LAST.read(&file).unwrap(), None);
        Slot::LAST.write(&file, &LAST).unwrap();
        let last = Slot::LAST.read(&file).unwrap().unwrap();
        assert_eq!(decode(&last), Ok(Some(LAST)));
        assert_eq!(decode::<Ceiling>(&last), Ok(None));
    }

    #[test]
    fn a_record_with_any_bit_wrong_is_none() {
        let whole = encode(&LAST);
        for bit in 0..RECORD_BYTES * 8 {
            let mut damaged = whole;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode::<Last>(&damaged), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_a_newer_version_is_told_and_not_taken_for_damage() {
        let mut newer = encode(&LAST);
        newer[7] = VERSION + 1;
        let sum = checksum(&newer[..RECORD_BYTES - 8]);
        newer[RECORD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(decode::<Last>(&newer), Err(VERSION + 1));
    }
}
