//! The layout of a document: its indentation, the newline at its end and its byte order mark.
//!
//! A change takes these over from the old text, and nothing else. Strings and numbers are copied
//! verbatim, so the order of keys, the digits of numbers and the spelling of strings stay.

use super::content::Content;
use super::json::Lexer;

/// The longest indentation taken over, in bytes; a longer one would multiply the document.
const INDENT_BYTES_MAX: usize = 32;

const MARK: char = '\u{feff}';

/// A document with the layout of a new one: two spaces, and a newline at the end.
const NEW: &str = "{}\n";

/// Lays out the JSON text of a document like the old one, or like a new document if there is no old
/// one. The text must be valid and have no byte order mark.
pub fn laid_out(json: &str, old: Option<&Content>) -> String {
    let old = old.and_then(|old| str::from_utf8(old.bytes()).ok());
    let old = old.unwrap_or(NEW);
    let mut out = String::with_capacity(json.len() + json.len() / 2);
    out.extend(old.starts_with(MARK).then_some(MARK));
    lay_out(json, indentation(old), &mut out);
    out.extend(old.ends_with('\n').then_some('\n'));
    out
}

/// Returns the blanks before the first member or element, or `None` if that is on the first line.
/// Returns two spaces if the text shows no indentation, as in `{}`.
fn indentation(text: &str) -> Option<&str> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    let mut tokens = Lexer::of(text);
    match (tokens.next(), tokens.next()) {
        (Some((at, open)), Some((first, token))) if !matches!(token, "}" | "]") => {
            let line = text[at + open.len()..first].rsplit_once('\n');
            line.map(|(_, blanks)| &blanks[..blanks.len().min(INDENT_BYTES_MAX)])
        }
        _ => Some("  "),
    }
}

/// Puts every member and element on a line of its own, or all on one line without indentation.
fn lay_out(json: &str, indentation: Option<&str>, out: &mut String) {
    let mut depth = 0_usize;
    let break_line = |out: &mut String, depth| {
        if let Some(blanks) = indentation {
            out.push('\n');
            out.extend(std::iter::repeat_n(blanks, depth));
        }
    };
    let mut tokens = Lexer::of(json).map(|(_, token)| token).peekable();
    while let Some(token) = tokens.next() {
        if matches!(token, "}" | "]") {
            depth = depth.saturating_sub(1);
            break_line(out, depth);
        }
        out.push_str(token);
        match token {
            "{" | "[" => match tokens.next_if(|next| matches!(*next, "}" | "]")) {
                Some(close) => out.push_str(close),
                None => {
                    depth += 1;
                    break_line(out, depth);
                }
            },
            "," => break_line(out, depth),
            ":" if indentation.is_some() => out.push(' '),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(old: &str) -> String {
        let old = Content::new("/d/a.json".into(), old.into());
        laid_out(r#"{"b":[1.50,{}],"a":"\u00e9"}"#, Some(&old))
    }

    #[test]
    fn indentation_byte_order_mark_and_last_newline_are_those_of_the_old_text() {
        let on_one_line = r#"{"b":[1.50,{}],"a":"\u00e9"}"#;
        let indented = |blanks: &str| {
            let lines = "{\n>\"b\": [\n>>1.50,\n>>{}\n>],\n>\"a\": \"\\u00e9\"\n}";
            lines.replace('>', blanks)
        };
        for (old, new) in [
            ("{\"x\": 1}", on_one_line.to_owned()),
            ("\u{feff}[1]\n", format!("\u{feff}{on_one_line}\n")),
            ("{\n  \"x\": 1}\n", indented("  ") + "\n"),
            ("{\r\n\t\"x\": 1\r\n}", indented("\t")),
            ("[\n[1]]", indented("")),
            ("\u{feff}{}", format!("\u{feff}{}", indented("  "))),
            ("1", indented("  ")),
        ] {
            assert_eq!(changed(old), new, "{old:?}");
        }
        assert_eq!(laid_out("[1]", None), "[\n  1\n]\n");
    }

    #[test]
    fn numbers_strings_and_the_order_of_keys_stay_byte_for_byte() {
        let json =
            r#"{"z":1.0,"a":1e400,"m":-0,"s":"\u00e9\/é {","n":123456789012345678901234567890}"#;
        let one_line = Content::new("/d/a.json".into(), b"[1]".into());
        assert_eq!(laid_out(&laid_out(json, None), Some(&one_line)), json);
    }

    #[test]
    fn a_huge_indentation_is_not_multiplied() {
        let old = format!("[\n{}1\n]\n", " ".repeat(INDENT_BYTES_MAX + 1));
        assert!(changed(&old).contains(&format!("\n{}\"b\"", " ".repeat(INDENT_BYTES_MAX))));
    }
}
