//! JSON text cut into tokens, without a look at their meaning.

/// The tokens of JSON text with their offsets: `{ } [ ] , :` and scalars, verbatim.
///
/// A text that did not pass the check gives some tokens, and then ends.
#[derive(Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Returns the tokens of a text.
    pub fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let blanks = bytes[self.at..].iter().position(|&byte| !is_blank(byte))?;
        let start = self.at + blanks;
        self.at = match bytes[start] {
            b'"' => end_of_string(bytes, start + 1),
            byte if is_mark(byte) => start + 1,
            _ => {
                let ends = |&byte: &u8| is_blank(byte) || is_mark(byte) || byte == b'"';
                let length = bytes[start..].iter().position(ends);
                length.map_or(bytes.len(), |length| start + length)
            }
        };
        Some((start, &self.text[start..self.at]))
    }
}

/// Returns true if a byte is white space in JSON.
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':')
}

/// Returns the offset after the closing quote, or the end of the text if there is none.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(rest) = bytes.get(at..) {
        let Some(length) = memchr::memchr2(b'"', b'\\', rest) else {
            break;
        };
        if rest[length] == b'"' {
            return at + length + 1;
        }
        at += length + 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        Lexer::of(text).map(|(_, token)| token).collect()
    }

    #[test]
    fn tokens_are_verbatim_and_know_where_they_stand() {
        let text = "\r\n{ \"a\\\"\\\\\" :[-1.0E5,null ,\"{é\"]}\t";
        let found: Vec<_> = Lexer::of(text).collect();
        let expected = [
            "{",
            r#""a\"\\""#,
            ":",
            "[",
            "-1.0E5",
            ",",
            "null",
            ",",
            "\"{é\"",
            "]",
            "}",
        ];
        assert_eq!(tokens(text), expected);
        for (at, token) in found {
            assert!(text[at..].starts_with(token));
        }
    }

    #[test]
    fn text_that_is_no_json_is_cut_to_its_end_all_the_same() {
        assert_eq!(tokens("\"a\\"), ["\"a\\"]);
        assert_eq!(tokens("\"\\é"), ["\"\\é"]);
        assert_eq!(tokens("é\"b\"c"), ["é", "\"b\"", "c"]);
        assert_eq!(tokens(" "), Vec::<&str>::new());
    }
}
