//! How a document is laid out, found in the old text and given to the new one.
//!
//! Only blanks between tokens are a matter of style. Strings and numbers are copied verbatim, so
//! that the order of keys, the digits of numbers and the spelling of strings stay byte for byte.
//!
//! # Limitations
//!
//! A document has one style. Where its layout is mixed (short arrays on one line in an indented
//! object, as some formatters write them), a change gives all of it the one style found first.

use super::json::{Tokens, without_mark};

/// The longest indentation taken over, in bytes; a longer one would multiply the document.
const INDENT_BYTES_MAX: usize = 32;

const MARK: char = '\u{feff}';

/// The layout of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether it begins with a byte order mark.
    pub(crate) byte_order_mark: bool,
    pub(crate) layout: Layout,
    pub(crate) space_after_colon: bool,
    pub(crate) line_end: LineEnd,
    pub(crate) ends_with_newline: bool,
}

/// Whether members and elements stand on lines of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All on one line.
    Compact { space_after_comma: bool },
    /// Each on its own line, behind its depth times these blanks.
    Indented { by: String },
}

/// What ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Lf,
    CrLf,
}

impl Default for Style {
    /// Two spaces, LF, and a newline at the end.
    fn default() -> Self {
        Self {
            byte_order_mark: false,
            layout: Layout::Indented {
                by: "  ".to_owned(),
            },
            space_after_colon: true,
            line_end: LineEnd::Lf,
            ends_with_newline: true,
        }
    }
}

/// The new text as the file should hold it, in the style of the old bytes.
///
/// Where nothing but blanks differs, the old text stays as it is: a change that changes nothing
/// leaves every byte, whatever the layout. A new text that is in the style of the old one stays as
/// it is, too: whoever made it may have kept a layout that is finer than one style.
pub(crate) fn keep(old: &[u8], new: &str) -> String {
    let style = Style::of(old);
    if let Ok(text) = std::str::from_utf8(old) {
        let tokens = |text| Tokens::of(text).map(|(_, token)| token);
        if tokens(without(text)).eq(tokens(new)) {
            return text.to_owned();
        }
    }
    // Text on one line is in no style that has several: no need to look through all of it.
    let may_be_alike = matches!(style.layout, Layout::Compact { .. }) || new.contains('\n');
    if may_be_alike && Style::of(new.as_bytes()) == style {
        return new.to_owned();
    }
    style.apply(new)
}

/// A new document whose text was part of a bigger one, laid out as that is.
pub fn laid_out_like(whole: &str, part: &str) -> String {
    let style = Style {
        byte_order_mark: false,
        ends_with_newline: true,
        ..Style::of(whole.as_bytes())
    };
    style.apply(part)
}

impl Style {
    /// The style of a document. Where it does not show, as in `{}`, it is the default.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(without_mark(bytes)) else {
            return Self::default();
        };
        let crlf = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
        let signs = Signs::in_text(text);
        let layout = signs.layout();
        Self {
            byte_order_mark: text.len() < bytes.len(),
            space_after_colon: signs
                .space_after_colon
                .unwrap_or(matches!(layout, Layout::Indented { .. })),
            layout,
            line_end: match crlf {
                true => LineEnd::CrLf,
                false => LineEnd::Lf,
            },
            ends_with_newline: text.ends_with('\n'),
        }
    }

    /// Lays out JSON text, which must be valid and without a mark, as the file should hold it.
    pub(crate) fn apply(&self, json: &str) -> String {
        let mut out = String::with_capacity(json.len() + json.len() / 2);
        out.extend(self.byte_order_mark.then_some(MARK));
        let mut depth = 0_usize;
        let mut tokens = Tokens::of(json).map(|(_, token)| token).peekable();
        while let Some(token) = tokens.next() {
            match token {
                "{" | "[" => {
                    out.push_str(token);
                    match tokens.next_if(|next| matches!(*next, "}" | "]")) {
                        Some(close) => out.push_str(close),
                        None => {
                            depth += 1;
                            self.break_line(&mut out, depth);
                        }
                    }
                }
                "}" | "]" => {
                    depth = depth.saturating_sub(1);
                    self.break_line(&mut out, depth);
                    out.push_str(token);
                }
                "," => {
                    out.push(',');
                    self.break_line(&mut out, depth);
                    let space = Layout::Compact {
                        space_after_comma: true,
                    };
                    out.extend((self.layout == space).then_some(' '));
                }
                ":" => {
                    out.push(':');
                    out.extend(self.space_after_colon.then_some(' '));
                }
                scalar => out.push_str(scalar),
            }
        }
        if self.ends_with_newline {
            out.push_str(self.line_end.as_str());
        }
        out
    }

    fn break_line(&self, out: &mut String, depth: usize) {
        if let Layout::Indented { by } = &self.layout {
            out.push_str(self.line_end.as_str());
            out.extend(std::iter::repeat_n(by.as_str(), depth));
        }
    }
}

impl LineEnd {
    fn as_str(self) -> &'static str {
        match self {
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
        }
    }
}

/// What the blanks between tokens say; None where nothing does.
#[derive(Default)]
struct Signs {
    /// The blanks before the first member or element that begins a line.
    indentation: Option<String>,
    space_after_colon: Option<bool>,
    space_after_comma: Option<bool>,
    has_members: bool,
}

impl Signs {
    fn in_text(text: &str) -> Self {
        let mut signs = Self::default();
        let mut previous = "";
        let mut end = 0;
        for (start, token) in Tokens::of(text) {
            let blanks = &text[end..start];
            let first = matches!(previous, "{" | "[") && !matches!(token, "}" | "]");
            if first || previous == "," {
                signs.has_members = true;
                match blanks.rsplit_once('\n') {
                    Some((_, by)) if signs.indentation.is_none() => {
                        signs.indentation = Some(by.to_owned());
                    }
                    None if previous == "," => {
                        signs.space_after_comma.get_or_insert(!blanks.is_empty());
                    }
                    _ => {}
                }
            } else if previous == ":" {
                signs.space_after_colon.get_or_insert(!blanks.is_empty());
            }
            if signs.indentation.is_some() && signs.space_after_colon.is_some() {
                break;
            }
            previous = token;
            end = start + token.len();
        }
        signs
    }

    fn layout(&self) -> Layout {
        match &self.indentation {
            Some(by) if by.len() <= INDENT_BYTES_MAX => Layout::Indented { by: by.clone() },
            None if self.has_members => Layout::Compact {
                space_after_comma: self.space_after_comma.unwrap_or_default(),
            },
            _ => Style::default().layout,
        }
    }
}

fn without(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// A change made to a document in some style.
    fn changed(old: &str) -> String {
        keep(old.as_bytes(), r#"{"b":[1.50,{}],"a":"\u00e9"}"#)
    }

    #[test]
    fn a_layout_that_is_finer_than_one_style_stays_as_its_program_made_it() {
        let old = "{\n  \"a\": [1, 2],\n  \"n\": 1\n}\n";
        let new = old.replace("\"n\": 1", "\"n\": 2");
        assert_eq!(keep(old.as_bytes(), &new), new);
        let compact = "{\"a\":[1,2],\"n\":2}";
        assert_ne!(keep(old.as_bytes(), compact), compact);
    }

    #[test]
    fn the_style_of_the_old_text_is_given_to_the_new_one() {
        for (old, new) in [
            (
                "{\n  \"x\": 1\n}\n",
                "{\n  \"b\": [\n    1.50,\n    {}\n  ],\n  \"a\": \"\\u00e9\"\n}\n",
            ),
            (
                "{\n\t\"x\": 1\n}",
                "{\n\t\"b\": [\n\t\t1.50,\n\t\t{}\n\t],\n\t\"a\": \"\\u00e9\"\n}",
            ),
            (
                "[\r\n    1\r\n]\r\n",
                "{\r\n    \"b\": [\r\n        1.50,\r\n        {}\r\n    ],\r\n    \"a\": \"\\u00e9\"\r\n}\r\n",
            ),
            ("{\"x\":1,\"y\":2}", "{\"b\":[1.50,{}],\"a\":\"\\u00e9\"}"),
            (
                "{\"x\": 1, \"y\": 2}\n",
                "{\"b\": [1.50, {}], \"a\": \"\\u00e9\"}\n",
            ),
            (
                "{\"x\": 1,\"y\":2}",
                "{\"b\": [1.50,{}],\"a\": \"\\u00e9\"}",
            ),
            ("\u{feff}[1]", "\u{feff}{\"b\":[1.50,{}],\"a\":\"\\u00e9\"}"),
            (
                "{\n\"x\":1\n}",
                "{\n\"b\":[\n1.50,\n{}\n],\n\"a\":\"\\u00e9\"\n}",
            ),
        ] {
            assert_eq!(changed(old), new, "{old:?}");
        }
    }

    #[test]
    fn a_style_that_does_not_show_is_the_default() {
        for old in ["{}\n", "[ ]\n", "null\n", "[\n]\n"] {
            assert_eq!(Style::of(old.as_bytes()), Style::default(), "{old:?}");
        }
        let old = "\u{feff}{}";
        let expected = Style {
            byte_order_mark: true,
            ends_with_newline: false,
            ..Style::default()
        };
        assert_eq!(Style::of(old.as_bytes()), expected);
        assert_eq!(Style::of(b"\xff"), Style::default());
    }

    #[test]
    fn a_member_that_begins_a_line_decides_wherever_it_is() {
        let style = Style::of(b"[{\"a\": 1},\n   {\"b\": [\n      2]}]");
        assert_eq!(
            style.layout,
            Layout::Indented {
                by: "   ".to_owned()
            }
        );
    }

    #[test]
    fn a_huge_indentation_is_not_multiplied() {
        let old = format!("[\n{}1\n]\n", " ".repeat(INDENT_BYTES_MAX + 1));
        assert_eq!(Style::of(old.as_bytes()), Style::default());
    }

    #[test]
    fn a_mixed_layout_stays_while_nothing_changes() {
        let old = "\u{feff}{\n  \"a\": [1, 2],\n  \"b\": {\"c\": 1e2}\n}";
        assert_eq!(keep(old.as_bytes(), r#"{"a":[1,2],"b":{"c":1e2}}"#), old);
        assert_ne!(keep(old.as_bytes(), r#"{"a":[1,2],"b":{"c":1e3}}"#), old);
    }

    #[test]
    fn numbers_and_strings_stay_byte_for_byte() {
        let json =
            r#"{"z":1.0,"a":1e400,"m":-0,"s":"\u00e9\/é","n":123456789012345678901234567890}"#;
        let laid_out = Style::default().apply(json);
        let compact = Style {
            layout: Layout::Compact {
                space_after_comma: false,
            },
            space_after_colon: false,
            ends_with_newline: false,
            ..Style::default()
        };
        assert_eq!(compact.apply(&laid_out), json);
    }

    #[test]
    fn nesting_of_any_depth_is_laid_out_without_recursion() {
        let json = "[".repeat(200_000) + &"]".repeat(200_000);
        let compact = Layout::Compact {
            space_after_comma: true,
        };
        let style = Style {
            layout: compact,
            ends_with_newline: false,
            ..Style::default()
        };
        assert_eq!(style.apply(&json), json);
    }

    fn styles() -> impl Strategy<Value = Style> {
        let layouts = prop_oneof![
            any::<bool>().prop_map(|space_after_comma| Layout::Compact { space_after_comma }),
            "( {0,8}|\t{1,2})".prop_map(|by| Layout::Indented { by }),
        ];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
        (layouts, flags).prop_map(|(layout, (mark, space, crlf, newline))| Style {
            byte_order_mark: mark,
            // Where there is no line, nothing shows how one would end.
            line_end: match crlf && (newline || matches!(layout, Layout::Indented { .. })) {
                true => LineEnd::CrLf,
                false => LineEnd::Lf,
            },
            layout,
            space_after_colon: space,
            ends_with_newline: newline,
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaves = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            r#"[\[\]{},:" \\\n]{0,6}"#.prop_map(Value::from),
        ];
        leaves.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_layout_changes_no_value(style in styles(), value in values()) {
            let json = value.to_string();
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap().to_string();
            let laid_out = style.apply(&json);
            prop_assert_eq!(read(without(&laid_out)), read(&json));
        }

        #[test]
        fn a_layout_made_twice_is_the_same(style in styles(), value in values()) {
            let once = style.apply(&value.to_string());
            prop_assert_eq!(style.apply(without(&once)), once);
        }

        #[test]
        fn a_style_is_found_again_in_what_it_made(style in styles(), value in values()) {
            let two_members = serde_json::json!({"a": value, "b": []}).to_string();
            prop_assert_eq!(Style::of(style.apply(&two_members).as_bytes()), style);
        }

        #[test]
        fn any_text_has_a_style(text in any::<Vec<u8>>()) {
            let _ = Style::of(&text).apply(&String::from_utf8_lossy(&text));
        }
    }
}
