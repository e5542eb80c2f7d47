//! The check of a document: strict JSON in UTF-8, every key of an object once.
//!
//! `serde_json` checks the grammar; it keeps nothing here and does not recurse. A text that passed
//! is walked once more for two things that the grammar allows and a document must not have
//! (`keys`): a repeated key, and nesting that `serde_json` could not read into a value.
//!
//! # Limitations
//!
//! Only the grammar is checked, not the values: `1e400` and `"\ud800"` are JSON, and pass. They
//! stay as they are while the text is handed on; reading them into a value may fail.

mod flaw;
mod keys;
mod lexer;

use serde::de::IgnoredAny;

pub(crate) use flaw::Flaw;
pub use lexer::Lexer;

/// The largest document, in bytes: it is held in memory whole, more than once.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 20;

const MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the text without the byte order mark, or the flaw if it is no document.
pub(crate) fn check(bytes: &[u8]) -> Result<&str, Flaw> {
    let text = utf8(bytes)?;
    let flaw = |(offset, problem)| Flaw::at(bytes, bytes.len() - text.len() + offset, problem);
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(flaw(flaw::explain(text, &error)));
    }
    keys::check(text).map_err(flaw)?;
    Ok(text)
}

/// Checks a text that `serde_json` has read into a value or written, so that its grammar is known
/// to be right.
pub(crate) fn check_parsed(bytes: &[u8]) -> Result<(), Flaw> {
    let text = utf8(bytes)?;
    let flaw = |(offset, problem)| Flaw::at(bytes, bytes.len() - text.len() + offset, problem);
    keys::check(text).map_err(flaw)
}

/// Returns the text without the byte order mark, or the flaw if it is empty, too large or not
/// UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Flaw> {
    let flaw = |offset, problem: &str| Flaw::at(bytes, offset, problem.to_owned());
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let problem = format!("it is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20);
        return Err(flaw(0, &problem));
    }
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            return Err(flaw(0, "it is UTF-32, not UTF-8"));
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(flaw(0, "it is UTF-16, not UTF-8")),
        _ => {}
    }
    let rest = without_mark(bytes);
    let text = std::str::from_utf8(rest).map_err(|error| {
        let offset = bytes.len() - rest.len() + error.valid_up_to();
        flaw(offset, "it is not UTF-8")
    })?;
    if text.bytes().all(lexer::is_blank) {
        return Err(flaw(0, "it is empty"));
    }
    Ok(text)
}

/// Returns the bytes after the byte order mark, or all of them if there is none.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> Flaw {
        check(bytes).unwrap_err()
    }

    #[test]
    fn json_is_accepted_and_a_byte_order_mark_is_not_part_of_it() {
        for text in [
            "{}",
            "[]",
            "null",
            " 1 ",
            "\"é\"",
            "[{\"a\": [1, -0.5e+3]}, true]\r\n",
        ] {
            assert_eq!(check(text.as_bytes()), Ok(text));
            assert_eq!(check(&[MARK, text.as_bytes()].concat()), Ok(text));
        }
    }

    #[test]
    fn numbers_no_float_can_hold_and_halves_of_pairs_are_json() {
        let text = r#"[1e400, -1E-400, 123456789012345678901234567890, "\ud800"]"#;
        assert_eq!(check(text.as_bytes()), Ok(text));
    }

    #[test]
    fn nothing_and_blanks_are_empty() {
        for bytes in [&b""[..], b" \r\n\t", MARK, b"\xef\xbb\xbf\n"] {
            let flaw = refused(bytes);
            assert_eq!((flaw.offset, flaw.problem.as_str()), (0, "it is empty"));
        }
    }

    #[test]
    fn other_encodings_are_named() {
        for (bytes, problem) in [
            (&b"\xff\xfe{\0}\0"[..], "it is UTF-16, not UTF-8"),
            (b"\xfe\xff\0{\0}", "it is UTF-16, not UTF-8"),
            (b"\xff\xfe\0\0{\0\0\0", "it is UTF-32, not UTF-8"),
            (b"\0\0\xfe\xff\0\0\0{", "it is UTF-32, not UTF-8"),
        ] {
            let flaw = refused(bytes);
            assert_eq!((flaw.offset, flaw.problem.as_str()), (0, problem));
        }
        let flaw = refused(b"\xef\xbb\xbf[\n\"\xc3\xa9\xff\"]");
        assert_eq!((flaw.offset, flaw.line, flaw.column), (8, 2, 3));
        assert_eq!(flaw.problem, "it is not UTF-8");
    }

    #[test]
    fn what_is_only_nearly_json_is_refused() {
        for text in [
            "NaN",
            "[Infinity]",
            "[01]",
            "[+1]",
            "[.5]",
            "[1.]",
            "{a: 1}",
            "{'a': 1}",
            "[1,]",
            "{\"a\": 1,}",
            "// x\n{}",
            "{} {}",
            "{}\0",
            "[\"\t\"]",
            "[\"\\x\"]",
            "[nul]",
            "[",
            "{\"a\"",
            "-",
            "\u{feff}\u{feff}{}",
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_document_over_the_limit_is_refused_unread() {
        let flaw = refused(&vec![0; DOCUMENT_BYTES_MAX + 1]);
        assert_eq!(flaw.problem, "it is larger than 256 MiB");
    }

    #[test]
    fn a_million_open_brackets_are_refused_without_a_stack_overflow() {
        assert!(check("[".repeat(1_000_000).as_bytes()).is_err());
        let closed = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        let flaw = refused(closed.as_bytes());
        assert_eq!(flaw.problem, "it is nested deeper than 127 levels");
    }
}
