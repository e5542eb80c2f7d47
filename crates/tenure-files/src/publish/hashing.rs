//! The hash of a file that is copied: small files are hashed between two writes, large ones in a
//! second thread.
//!
//! Hashing takes about as long as copying. A second thread halves the time of a large file, but its
//! start costs more than it saves for a small one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use sha2::{Digest, Sha256};

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// The length from which a file has a thread of its own.
const LARGE_BYTES: u64 = 8 << 20;
/// The largest number of chunks between the two threads. It bounds the memory.
const CHUNKS: usize = 4;

/// A hash that is fed with the bytes that are copied.
pub(super) enum Hashing {
    /// The copying thread hashes.
    Inline(Sha256),
    /// A second thread hashes.
    HashThread(HashThread),
}

pub(super) struct HashThread {
    /// The chunks to hash, each with the length of its content. The thread ends when this is
    /// dropped.
    full: SyncSender<(Vec<u8>, usize)>,
    /// The chunks that are hashed, to be read into again.
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Sha256>,
}

impl Hashing {
    /// Returns a new hash, and the chunk to read into first. `length` is that of the file.
    pub(super) fn start(length: u64) -> (Self, Vec<u8>) {
        let room = usize::try_from(length).map_or(CHUNK_BYTES, |length| length.saturating_add(1));
        let thread = if length >= LARGE_BYTES {
            HashThread::start()
        } else {
            None
        };
        let hashing = thread.map_or_else(|| Self::Inline(Sha256::new()), Self::HashThread);
        (hashing, vec![0; room.min(CHUNK_BYTES)])
    }

    /// Hashes the first `count` bytes of a chunk. Returns the chunk to read into next.
    pub(super) fn update(&mut self, chunk: Vec<u8>, count: usize) -> Vec<u8> {
        match self {
            Self::Inline(hash) => {
                hash.update(&chunk[..count]);
                chunk
            }
            Self::HashThread(thread) => {
                let sent = thread.full.send((chunk, count));
                sent.expect("the thread hashes until the channel ends");
                let next = thread.empty.recv();
                next.expect("the thread hands back what it hashed")
            }
        }
    }

    /// Returns the hash of everything.
    pub(super) fn finish(self) -> Sha256 {
        match self {
            Self::Inline(hash) => hash,
            Self::HashThread(HashThread { full, thread, .. }) => {
                drop(full);
                thread.join().expect("hashing does not panic")
            }
        }
    }
}

impl HashThread {
    /// Returns `None` if no thread can be had: then the caller hashes.
    fn start() -> Option<Self> {
        let (full, to_hash) = sync_channel::<(Vec<u8>, usize)>(CHUNKS);
        let (hashed, empty) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            hashed.send(vec![0; CHUNK_BYTES]).ok()?;
        }
        let work = move || {
            let mut hash = Sha256::new();
            for (chunk, count) in to_hash {
                hash.update(&chunk[..count]);
                // The chunk is not taken back once the copy is given up or over.
                let _ = hashed.send(chunk);
            }
            hash
        };
        let thread = Builder::new().name("tenure hash".into()).spawn(work).ok()?;
        Some(Self {
            full,
            empty,
            thread,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::verify::hex;

    #[test]
    fn the_hash_is_the_same_in_one_thread_and_in_two() {
        let bytes: Vec<u8> = (0..3_000_000_u32)
            .map(|byte| (byte * 7 % 251) as u8)
            .collect();
        let hashed = |length: u64| {
            let (mut hashing, mut chunk) = Hashing::start(length);
            assert_eq!(
                matches!(hashing, Hashing::HashThread(_)),
                length >= LARGE_BYTES
            );
            for part in bytes.chunks(chunk.len() - 1) {
                chunk[..part.len()].copy_from_slice(part);
                chunk = hashing.update(chunk, part.len());
            }
            hex(hashing.finish())
        };
        let mut whole = Sha256::new();
        whole.update(&bytes);
        let whole = hex(whole);
        assert_eq!(hashed(bytes.len() as u64), whole);
        assert_eq!(hashed(LARGE_BYTES), whole);
    }
}
