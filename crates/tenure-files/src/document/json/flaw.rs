//! The place at which text stops being JSON: the byte for programs, line and character for people.

use std::fmt;

use super::{Lexer, without_mark};

/// The reason why bytes are not a document, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The number of bytes before the place, a byte order mark included.
    pub(crate) offset: usize,
    /// The line, from 1.
    pub(crate) line: usize,
    /// The character in the line, from 1.
    pub(crate) column: usize,
    /// The problem, in words.
    pub(crate) problem: String,
}

impl Flaw {
    /// Returns the flaw at an offset of all bytes.
    pub(super) fn at(bytes: &[u8], offset: usize, problem: String) -> Self {
        let before = without_mark(&bytes[..offset]);
        let newline = before.iter().rposition(|&byte| byte == b'\n');
        let in_line = &before[newline.map_or(0, |newline| newline + 1)..];
        // A byte that continues a character does not begin another.
        let characters = in_line.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        Self {
            offset,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: characters + 1,
            problem,
        }
    }

    /// Returns the flaw that `serde_json` found while reading a value; `text` is `bytes` without
    /// the mark.
    pub(crate) fn of_value(bytes: &[u8], text: &str, error: &serde_json::Error) -> Self {
        let offset = bytes.len() - text.len() + offset_of(text, error);
        Self::at(bytes, offset, message_of(error))
    }

    /// Returns the place, in words.
    pub(crate) fn place(&self) -> String {
        let (offset, line, column) = (self.offset, self.line, self.column);
        format!("at byte {offset} (line {line}, column {column})")
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON {}: {}", self.place(), self.problem)
    }
}

/// Returns the offset at which text breaks the grammar, and the problem.
pub(super) fn explain(text: &str, error: &serde_json::Error) -> (usize, String) {
    let message = message_of(error);
    // For strings `serde_json` is off by some bytes, and takes an escape that is too short for the
    // end of the text. The flaw is the first broken string.
    let about_strings = message.starts_with("control character") || message == "invalid escape";
    if about_strings || error.is_eof() {
        let strings = Lexer::of(text).filter(|(_, token)| token.starts_with('"'));
        for (start, string) in strings {
            if let Some((inside, problem)) = flaw_in_string(string.as_bytes()) {
                return (start + inside, problem.to_owned());
            }
        }
    }
    (offset_of(text, error), message)
}

/// Returns the offset of an error. `serde_json` counts columns in bytes, up to and including the
/// byte at fault.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let line_start = match error.line() {
        0 | 1 => 0,
        line => {
            let newline = text.match_indices('\n').nth(line - 2);
            newline.map_or(text.len(), |(newline, _)| newline + 1)
        }
    };
    let reached = line_start + error.column();
    reached.saturating_sub(1).min(text.len())
}

/// Returns the message without its place.
fn message_of(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = whole.strip_suffix(&place).unwrap_or(&whole);
    match message.strip_prefix("EOF while parsing ") {
        Some(what) => format!("it ends in the middle of {what}"),
        None if message == "expected ident" => "expected true, false or null".to_owned(),
        None => message.to_owned(),
    }
}

fn flaw_in_string(string: &[u8]) -> Option<(usize, &'static str)> {
    const ESCAPE: &str = "invalid escape in a string";
    let mut at = 1;
    while let Some(&byte) = string.get(at) {
        at += match (byte, string.get(at + 1)) {
            (0..0x20, _) => return Some((at, "a control character in a string must be escaped")),
            (b'\\', Some(b'u')) => {
                let digits = string[at + 2..].iter().take(4);
                match digits.clone().position(|digit| !digit.is_ascii_hexdigit()) {
                    Some(digit) => return Some((at + 2 + digit, ESCAPE)),
                    None => 2 + digits.len(),
                }
            }
            (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => 2,
            (b'\\', Some(_)) => return Some((at + 1, ESCAPE)),
            _ => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    fn place_and_problem(text: &str) -> (usize, usize, usize, String) {
        let flaw = check(text.as_bytes()).unwrap_err();
        (flaw.offset, flaw.line, flaw.column, flaw.problem)
    }

    #[test]
    fn the_place_is_exact() {
        for (text, offset, line, column, problem) in [
            ("{\n  \"a\": x\n}", 9, 2, 8, "expected value"),
            ("{\r\n  \"a\": x\r\n}", 10, 2, 8, "expected value"),
            ("[\"äöü\", x]", 11, 1, 9, "expected value"),
            ("\u{feff}[x]", 4, 1, 2, "expected value"),
            ("\u{feff}[1,\r\n\"😀\" 2]", 15, 2, 5, "expected `,` or `]`"),
            ("{} x", 3, 1, 4, "trailing characters"),
            ("[01]", 2, 1, 3, "invalid number"),
            ("[-x]", 2, 1, 3, "invalid number"),
            ("[1.]", 3, 1, 4, "invalid number"),
            ("[NaN]", 1, 1, 2, "expected value"),
            ("[trux]", 4, 1, 5, "expected true, false or null"),
            ("{a: 1}", 1, 1, 2, "key must be a string"),
            ("{\"a\" 1}", 5, 1, 6, "expected `:`"),
            ("{\"a\": 1,\n}", 9, 2, 1, "key must be a string"),
            ("[1,\n\n]", 5, 3, 1, "expected value"),
            ("[1 \n2]", 4, 2, 1, "expected `,` or `]`"),
            ("[1,", 3, 1, 4, "it ends in the middle of a value"),
            ("{\"a\":1\n", 7, 2, 1, "it ends in the middle of an object"),
            ("[\"a", 3, 1, 4, "it ends in the middle of a string"),
            ("[\"a\\", 4, 1, 5, "it ends in the middle of a string"),
            (
                "[\"a\nb\"]",
                3,
                1,
                4,
                "a control character in a string must be escaped",
            ),
            (
                "[\"\\n\", \"a\\x\"]",
                10,
                1,
                11,
                "invalid escape in a string",
            ),
            ("[\"\\u12x4\"]", 6, 1, 7, "invalid escape in a string"),
            ("[\"\\u1\"]", 5, 1, 6, "invalid escape in a string"),
            ("[\"\\u12\\\"4\"]", 6, 1, 7, "invalid escape in a string"),
        ] {
            let expected = (offset, line, column, problem.to_owned());
            assert_eq!(place_and_problem(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_message_says_byte_line_and_column() {
        let flaw = check(b"{\n  \"a\": x\n}").unwrap_err();
        let said = "not JSON at byte 9 (line 2, column 8): expected value";
        assert_eq!(flaw.to_string(), said);
    }

    proptest! {
        /// Asserts that the text before the byte named could have become JSON, and with that byte
        /// cannot.
        #[test]
        fn the_byte_named_is_the_one_that_breaks_it(
            text in r#"[\[{](["a-c]{1,3}|[\[\]{}:,]|[ \r\n\t]|é|-?[0-9.eE]{1,3}|true|null|\\[nx"])*"#,
        ) {
            let Err(error) = serde_json::from_str::<IgnoredAny>(&text) else {
                return Ok(());
            };
            let (offset, problem) = explain(&text, &error);
            let outcome = |end| serde_json::from_slice::<IgnoredAny>(&text.as_bytes()[..end]);
            let hopeful = match outcome(offset) {
                Ok(_) => true,
                // `serde_json` does not tell a number that lacks digits from a wrong one.
                Err(error) => error.is_eof() || error.to_string().starts_with("invalid number"),
            };
            prop_assert!(hopeful, "{offset}: {problem}");
            if offset < text.len() {
                prop_assert!(outcome(offset + 1).is_err_and(|error| !error.is_eof()), "{offset}: {problem}");
            } else {
                prop_assert!(error.is_eof(), "{problem}");
            }
        }
    }
}
