//! JSON, read as far as it can be read.
//!
//! The body of a hook was written by another program, and may be wrong in a place that does not
//! matter: half of a character that was cut, a number that no float holds, endlessly nested lists.
//! A strict reader refuses all of it, and a guard would decide without having seen anything. This
//! reader takes the parts that it can read:
//!
//! | fault | reading |
//! |---|---|
//! | a byte order mark at the beginning | passed over |
//! | half of a surrogate pair, bytes that are no UTF-8, an unknown escape | `\u{fffd}` |
//! | a control character inside of a text | the character |
//! | a number that no float holds, an unknown word | its text |
//! | a value that is nested more than [`DEPTH_MAX`] levels deep | null |
//! | values after the first [`VALUES_MAX`] | nothing, and a problem is reported |
//! | no proper end, or something after the end | everything before it, and a problem is reported |
//!
//! If a name is repeated, its last value counts. The time is linear in the number of bytes, and
//! values that are too deep are passed over without recursion.

use serde_json::{Map, Value};

/// The deepest nesting of a value that is kept.
pub const DEPTH_MAX: usize = 32;
/// The largest number of values that are kept.
pub const VALUES_MAX: usize = 200_000;

/// An object, as far as it could be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// The fields, by name.
    pub fields: Map<String, Value>,
    /// The reason why there may be more in it than was read.
    pub problem: Option<String>,
}

/// Reads an object. Returns `None` if the text does not begin as one.
pub fn object(bytes: &[u8]) -> Option<Object> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = Reader {
        bytes,
        at: 0,
        values: 0,
    };
    if !reader.take(b'{') {
        return None;
    }
    let mut fields = Map::new();
    let is_whole = reader.fields(&mut fields, 1);
    reader.skip_blanks();
    let is_at_end = reader.at == bytes.len();
    let problem = match (is_whole, is_at_end) {
        (true, true) if reader.values > VALUES_MAX => {
            Some(format!("it has more than {VALUES_MAX} values"))
        }
        (true, true) => None,
        (true, false) => Some(format!("there is more after its end at byte {}", reader.at)),
        (false, true) => Some("it has no end".to_owned()),
        (false, false) => Some(format!("it is no JSON from byte {} on", reader.at)),
    };
    Some(Object { fields, problem })
}

/// Every method that reads something returns false, or no value, if that does not end properly.
/// Nothing is read afterwards.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of values that were read.
    values: usize,
}

impl Reader<'_> {
    /// Reads the fields of an object, after its `{`.
    fn fields(&mut self, fields: &mut Map<String, Value>, depth: usize) -> bool {
        if self.take(b'}') {
            return true;
        }
        loop {
            let mut name = String::new();
            if !(self.take(b'"') && self.text(&mut name) && self.take(b':')) {
                return false;
            }
            let mut value = None;
            let is_whole = self.value(&mut value, depth);
            fields.extend(value.map(|value| (name, value)));
            if !is_whole || !self.take(b',') {
                return is_whole && self.take(b'}');
            }
        }
    }

    /// Reads the values of a list, after its `[`.
    fn list(&mut self, values: &mut Vec<Value>, depth: usize) -> bool {
        if self.take(b']') {
            return true;
        }
        loop {
            let mut value = None;
            let is_whole = self.value(&mut value, depth);
            values.extend(value);
            if !is_whole || !self.take(b',') {
                return is_whole && self.take(b']');
            }
        }
    }

    /// Reads a value that is inside of `depth` others, as far as it is there.
    fn value(&mut self, value: &mut Option<Value>, depth: usize) -> bool {
        self.values += 1;
        let is_kept = self.values <= VALUES_MAX;
        self.skip_blanks();
        match self.bytes.get(self.at) {
            Some(b'{' | b'[') if depth >= DEPTH_MAX || !is_kept => {
                *value = is_kept.then_some(Value::Null);
                self.skip_nested()
            }
            Some(b'{') => {
                self.at += 1;
                let mut fields = Map::new();
                let is_whole = self.fields(&mut fields, depth + 1);
                *value = Some(Value::Object(fields));
                is_whole
            }
            Some(b'[') => {
                self.at += 1;
                let mut values = Vec::new();
                let is_whole = self.list(&mut values, depth + 1);
                *value = Some(Value::Array(values));
                is_whole
            }
            Some(b'"') => {
                self.at += 1;
                let mut text = String::new();
                let is_whole = self.text(&mut text);
                *value = is_kept.then_some(Value::String(text));
                is_whole
            }
            _ => {
                let word = self.word();
                let plain = || serde_json::from_str(&word).unwrap_or(Value::String(word.clone()));
                *value = (is_kept && !word.is_empty()).then(plain);
                !word.is_empty()
            }
        }
    }

    /// Reads a text, after its first quote.
    fn text(&mut self, text: &mut String) -> bool {
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let end = plain.unwrap_or(rest.len());
            text.push_str(&String::from_utf8_lossy(&rest[..end]));
            self.at += end;
            match self.next() {
                Some(b'"') => return true,
                Some(_) => text.push(self.escaped()),
                None => return false,
            }
        }
    }

    /// Reads the character after a backslash.
    fn escaped(&mut self) -> char {
        match self.next() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self
                .code_unit()
                .map_or('\u{fffd}', |unit| self.paired(unit)),
            _ => '\u{fffd}',
        }
    }

    /// Returns the character that begins with a unit of UTF-16.
    fn paired(&mut self, unit: u16) -> char {
        let before = self.at;
        let is_first = (0xd800..0xdc00).contains(&unit);
        let second = if is_first && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            self.code_unit()
        } else {
            None
        };
        let units = [unit].into_iter().chain(second);
        let decoded = char::decode_utf16(units).next().and_then(Result::ok);
        // The text after half of a pair is read by itself.
        if decoded.is_none() {
            self.at = before;
        }
        decoded.unwrap_or('\u{fffd}')
    }

    fn code_unit(&mut self) -> Option<u16> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }

    /// Reads a number or a word.
    fn word(&mut self) -> String {
        let rest = &self.bytes[self.at..];
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",:[]{}\"".contains(byte);
        let end = rest.iter().position(is_end).unwrap_or(rest.len());
        self.at += end;
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    /// Passes over a list or an object, however deep it is.
    fn skip_nested(&mut self) -> bool {
        let mut open = 0_usize;
        while let Some(byte) = self.next() {
            match byte {
                b'{' | b'[' => open += 1,
                b'}' | b']' if open == 1 => return true,
                b'}' | b']' => open -= 1,
                b'"' if !self.text(&mut String::new()) => return false,
                _ => {}
            }
        }
        false
    }

    fn skip_blanks(&mut self) {
        let rest = &self.bytes[self.at..];
        let is_blank = |byte: &&u8| byte.is_ascii_whitespace();
        self.at += rest.iter().take_while(is_blank).count();
    }

    /// Passes over blanks, and then over the byte `wanted`. Returns true if that was next.
    fn take(&mut self, wanted: u8) -> bool {
        self.skip_blanks();
        let is_there = self.bytes.get(self.at) == Some(&wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{hash_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Object {
        object(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_wrong_beside_the_fields_that_count_leaves_them_as_they_are() {
        for (wrong, wanted) in [
            (r#""\ud83d""#, json!("\u{fffd}")),
            (
                r#""a\ud83d\n\udc00\ud83d\ude00""#,
                json!("a\u{fffd}\n\u{fffd}\u{1f600}"),
            ),
            (r#""\q\u12""#, json!("\u{fffd}\u{fffd}12")),
            ("\"a\tb\u{1}\"", json!("a\tb\u{1}")),
            ("1e400", json!("1e400")),
            ("-01", json!("-01")),
            ("NaN", json!("NaN")),
            (
                "12345678901234567890123",
                json!(12345678901234567890123_f64),
            ),
        ] {
            let body = format!("\u{feff} {{\"x\": {wrong} , \"name\": \"a\"}}\n");
            let found = read(&body);
            assert_eq!(found.problem, None, "{wrong}");
            assert_eq!(found.fields["name"], "a", "{wrong}");
            assert_eq!(found.fields["x"], wanted, "{wrong}");
        }
        let deep = "[".repeat(100_000) + "\"]\"" + &"]".repeat(100_000);
        let found = read(&format!("{{\"x\":{deep},\"name\":\"a\"}}"));
        assert_eq!((&found.fields["name"], found.problem), (&json!("a"), None));
        let bytes = object(b"{\"x\":\"\xff\xf0\x9f\",\"name\":1}").unwrap();
        assert_eq!(bytes.fields["name"], 1);
    }

    #[test]
    fn of_what_has_no_proper_end_all_before_is_read_and_that_is_told() {
        for (text, wanted) in [
            (r#"{"a":{"b":"c"#, json!({"a": {"b": "c"}})),
            (r#"{"a":[1,{"b":2"#, json!({"a": [1, {"b": 2}]})),
            (r#"{"a":1,"b":}"#, json!({"a": 1})),
            (r#"{"a":1 "b":2}"#, json!({"a": 1})),
            (r#"{"a":1}x"#, json!({"a": 1})),
            (r#"{"a":1]"#, json!({"a": 1})),
            ("{", json!({})),
        ] {
            let found = read(text);
            assert_eq!(Value::Object(found.fields), wanted, "{text}");
            assert!(found.problem.is_some(), "{text}");
        }
        for text in ["", "[]", "x", "\"{}\""] {
            assert_eq!(object(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn of_too_many_values_the_first_are_kept_and_that_is_told() {
        let body = format!("{{\"a\":1,\"x\":[{}0]}}", "0,[0],".repeat(VALUES_MAX));
        let found = read(&body);
        assert_eq!(found.fields["a"], 1);
        assert!(found.problem.unwrap().contains("values"));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        plain.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                hash_map(any::<String>(), inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_a_strict_reader_reads_it(value in any_value(), pretty: bool) {
            let value = json!({"x": value});
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let found = read(&text);
            prop_assert_eq!(Value::Object(found.fields), value);
            prop_assert_eq!(found.problem, None);
        }

        #[test]
        fn whatever_the_bytes_are_something_is_returned(bytes in vec(any::<u8>(), 0..200)) {
            let _ = object(&bytes);
            let _ = object(&[b"{\"a\":".as_slice(), &bytes].concat());
        }

        #[test]
        fn json_that_was_cut_or_changed_somewhere_is_read(
            value in any_value(), at in any::<prop::sample::Index>(), byte: u8, is_cut: bool,
        ) {
            let mut bytes = json!({"x": value}).to_string().into_bytes();
            let at = at.index(bytes.len());
            match is_cut {
                true => bytes.truncate(at),
                false => bytes[at] = byte,
            }
            let _ = object(&bytes);
        }
    }
}
