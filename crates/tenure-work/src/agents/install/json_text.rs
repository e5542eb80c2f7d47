//! JSON as text, with the place of each value, so that a change touches nothing else.
//!
//! A container that this module makes has white space after its opening bracket. A part that is put
//! into an existing empty container follows its bracket directly. A removal therefore knows which
//! containers to leave behind.

use std::ops::Range;

use serde_json::Value;
use tenure_files::document::Lexer;

/// A value and its place in the text.
#[derive(Debug)]
pub struct Node {
    pub range: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Object(Vec<Item>),
    Array(Vec<Item>),
    Scalar,
}

/// A part of an object or an array. In an object its range begins with the key.
#[derive(Debug)]
pub struct Item {
    pub key: String,
    pub range: Range<usize>,
    pub value: Node,
}

impl Node {
    /// Reads text that is known to be JSON.
    pub fn parse(text: &str) -> Self {
        let mut tokens = Lexer::of(text);
        let first = tokens.next().unwrap_or_default();
        value(&mut tokens, first)
    }

    /// Returns the parts of an object or an array.
    pub fn items(&self) -> &[Item] {
        match &self.kind {
            Kind::Object(items) | Kind::Array(items) => items,
            Kind::Scalar => &[],
        }
    }

    pub fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self.kind, Kind::Array(_))
    }

    /// Returns a value of an object.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let items = self.items().iter().filter(|_| self.is_object());
        let mut found = items.filter(|item| item.key == key);
        found.next().map(|item| &item.value)
    }

    /// Returns the text of a string.
    pub fn string(&self, text: &str) -> Option<String> {
        serde_json::from_str(&text[self.range.clone()]).ok()
    }

    /// Returns true if this container was made here, and not there before.
    pub fn is_made_here(&self, text: &str) -> bool {
        text[self.range.start + 1..].starts_with([' ', '\n'])
    }
}

/// Returns the text with a part added at the end of a container, laid out like its other parts.
pub fn insert(text: &str, container: &Node, key: Option<&str>, value: &Value) -> String {
    let unit = unit_of(text);
    let start = container.range.start;
    let (at, before, indent, on_lines) = match container.items() {
        [] => (start + 1, String::new(), indent_of_line(text, start), true),
        [first, .., last] | [first @ last] => {
            let gap = &text[start + 1..first.range.start];
            match gap.rfind('\n') {
                Some(newline) => {
                    let indent = &gap[newline + 1..];
                    (last.range.end, format!(",\n{indent}"), indent, true)
                }
                None => (last.range.end, ", ".into(), "", false),
            }
        }
    };
    let shown = if on_lines {
        on_lines_of(value, unit, indent)
    } else {
        let lines = on_lines_of(value, "", "");
        lines.split('\n').collect::<Vec<_>>().join(" ")
    };
    let key = key.map(|key| format!("{}: ", Value::from(key)));
    let added = format!("{before}{}{shown}", key.unwrap_or_default());
    format!("{}{added}{}", &text[..at], &text[at..])
}

/// Returns the text without a part of a container, and without its comma and blanks.
pub fn remove(text: &str, container: &Node, index: usize) -> String {
    let items = container.items();
    let range = match (index, items.get(index + 1)) {
        (0, None) => container.range.start + 1..items[0].range.end,
        (0, Some(next)) => items[0].range.start..next.range.start,
        _ => items[index - 1].range.end..items[index].range.end,
    };
    format!("{}{}", &text[..range.start], &text[range.end..])
}

/// Returns a value on several lines, the first of which is not indented.
pub fn on_lines_of(value: &Value, unit: &str, indent: &str) -> String {
    use serde::Serialize;
    let mut bytes = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, format);
    let written = value.serialize(&mut serializer);
    written.expect("a JSON value is always serialisable");
    let shown = String::from_utf8(bytes).expect("JSON is UTF-8");
    shown.replace('\n', &format!("\n{indent}"))
}

/// Returns the indentation of the first part of the text, or two blanks if it has none.
fn unit_of(text: &str) -> &str {
    let root = Node::parse(text);
    let Some(first) = root.items().first() else {
        return "  ";
    };
    let gap = &text[root.range.start + 1..first.range.start];
    gap.rfind('\n').map_or("  ", |newline| &gap[newline + 1..])
}

fn indent_of_line(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start().len()]
}

/// Reads the value that begins with a token.
fn value(tokens: &mut Lexer<'_>, (start, token): (usize, &str)) -> Node {
    let (kind, end) = match token {
        "{" => {
            let (items, end) = items(tokens, true);
            (Kind::Object(items), end)
        }
        "[" => {
            let (items, end) = items(tokens, false);
            (Kind::Array(items), end)
        }
        scalar => (Kind::Scalar, start + scalar.len()),
    };
    let range = start..end;
    Node { range, kind }
}

/// Reads the parts of a container whose bracket was read, and returns the place of its end.
fn items(tokens: &mut Lexer<'_>, keyed: bool) -> (Vec<Item>, usize) {
    let (mut items, mut end) = (Vec::new(), 0);
    while let Some((start, token)) = tokens.find(|(_, token)| *token != ",") {
        if matches!(token, "}" | "]") {
            return (items, start + 1);
        }
        let (key, first) = match keyed {
            // A colon is between the key and the value.
            true => (serde_json::from_str(token), tokens.nth(1)),
            false => (Ok(String::new()), Some((start, token))),
        };
        let value = value(tokens, first.unwrap_or((start, token)));
        end = value.range.end;
        items.push(Item {
            key: key.unwrap_or_default(),
            range: start..end,
            value,
        });
    }
    (items, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Adds a part to the container under a key and takes it out again.
    fn there_and_back(text: &str, under: Option<&str>) -> String {
        let find = |text: &str| Node::parse(text);
        let at = |root: &Node| under.map_or(0, |key| root.get(key).unwrap().range.start);
        let root = find(text);
        let container = under.map_or(&root, |key| root.get(key).unwrap());
        let key = container.is_object().then_some("new");
        let with = insert(text, container, key, &json!({"a": ["}", 1]}));
        let read: Value = serde_json::from_str(&with).unwrap();
        assert!(read.to_string().contains(r#"{"a":["}",1]}"#), "{with}");
        let root = find(&with);
        let container = under.map_or(&root, |key| root.get(key).unwrap());
        assert_eq!(container.range.start, at(&root));
        assert_eq!(remove(&with, container, container.items().len() - 1), text);
        with
    }

    #[test]
    fn what_is_added_and_taken_out_again_leaves_every_byte() {
        for text in [
            "{}",
            "{ }\n",
            "{\n}\n",
            r#"{"x":1}"#,
            "{\n\t\"x\": \"a\\\"}\",\n\t\"y\":[1,2 ]\n}\n",
        ] {
            there_and_back(text, None);
        }
        for text in [
            "{\"x\":[]}",
            "{\n  \"x\": [ ]\n}",
            "{\n    \"x\": [\n        1\n    ]\n}\n",
            r#"{"x":{"k":null},"y":2}"#,
        ] {
            there_and_back(text, Some("x"));
        }
    }

    #[test]
    fn a_part_is_laid_out_as_those_beside_it() {
        let with = there_and_back("{\n    \"x\": 1\n}\n", None);
        let expected = "{\n    \"x\": 1,\n    \"new\": {\n        \"a\": [\n            \"}\",\n            1\n        ]\n    }\n}\n";
        assert_eq!(with, expected);
        let with = there_and_back(r#"{"x": 1}"#, None);
        assert_eq!(with, r#"{"x": 1, "new": { "a": [ "}", 1 ] }}"#);
    }
}
