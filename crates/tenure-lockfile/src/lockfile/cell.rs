//! Token cells: the last token drawn by writers without a wait, and the last drawn by waiters.
//!
//! Garbage in a cell counts as no token at all: the floor under all tokens (see
//! [`crate::token_counter`]) keeps them from going back.

use tenure_core::Token;

use super::layout::{CELL_BYTES, MARK_BYTES};
use super::record::{checksum, digits};

/// The head of a lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// True if a waiter may be in line, and the cell of the line may be ahead of this one.
    pub(super) marked: bool,
    /// The last token in the cell of writers that did not wait.
    pub(super) token: Token,
}

/// The length of the head.
pub(super) const HEAD_BYTES: usize = MARK_BYTES + CELL_BYTES;

/// Reads mark and cell from the beginning of a file.
pub(super) fn decode_head(bytes: &[u8]) -> Head {
    Head {
        marked: bytes.first() == Some(&b'1'),
        token: decode(bytes.get(MARK_BYTES..).unwrap_or_default()),
    }
}

/// Returns the beginning of a file whose mark is cleared.
pub(super) fn encode_unmarked_head(token: Token) -> [u8; HEAD_BYTES] {
    let mut head = [b' '; HEAD_BYTES];
    head[0] = b'0';
    head[MARK_BYTES - 1] = b'\n';
    head[MARK_BYTES..].copy_from_slice(&encode(token));
    head
}

/// Returns true if a cell can be read, or nothing was ever written to it.
pub(super) fn is_whole_or_unused(cell: &[u8]) -> bool {
    decode_whole(cell).is_some() || cell.iter().all(|byte| *byte == 0)
}

/// Reads a cell.
pub(super) fn decode(cell: &[u8]) -> Token {
    decode_whole(cell).unwrap_or(Token::NONE)
}

fn decode_whole(cell: &[u8]) -> Option<Token> {
    let text = std::str::from_utf8(cell.get(..CELL_BYTES)?).ok()?;
    let number = text.strip_prefix("tenure 1 token ")?.get(..16)?;
    let mut sum = [0; 16];
    digits(&mut sum, checksum(&cell[..31]), 16);
    // The bytes after the checksum only fill up the line.
    if cell[32..48] != sum || &cell[48..CELL_BYTES] != b"       \n" || cell[31] != b' ' {
        return None;
    }
    number.parse().ok()
}

/// Writes a cell.
pub(super) fn encode(token: Token) -> [u8; CELL_BYTES] {
    let mut cell = [b' '; CELL_BYTES];
    cell[..15].copy_from_slice(b"tenure 1 token ");
    digits(&mut cell[15..31], token.get(), 10);
    let sum = checksum(&cell[..31]);
    digits(&mut cell[32..48], sum, 16);
    cell[CELL_BYTES - 1] = b'\n';
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for token in [Token::NONE, Token::new(42).unwrap(), Token::MAX] {
            let head = decode_head(&encode_unmarked_head(token));
            let marked = false;
            assert_eq!(head, Head { marked, token });
        }
    }

    #[test]
    fn garbage_is_no_token() {
        let good = encode(Token::new(42).unwrap());
        for at in 0..CELL_BYTES {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(decode(&bad), Token::NONE, "byte {at}");
            assert_eq!(decode(&good[..at]), Token::NONE);
        }
    }

    #[test]
    fn a_torn_cell_is_neither_whole_nor_unused() {
        let (old, new) = (Token::new(1999).unwrap(), Token::new(2000).unwrap());
        let (old, new) = (encode(old), encode(new));
        assert!(is_whole_or_unused(&old) && is_whole_or_unused(&[0; CELL_BYTES]));
        for written in 1..CELL_BYTES {
            let mut torn = old;
            torn[..written].copy_from_slice(&new[..written]);
            assert!(torn == old || torn == new || !is_whole_or_unused(&torn));
        }
    }

    #[test]
    fn the_mark_is_read_apart_from_the_token() {
        assert!(decode_head(b"1garbage").marked);
        assert!(!decode_head(b"\0").marked);
        assert!(!decode_head(b"").marked);
    }
}
