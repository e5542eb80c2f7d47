//! The name of what is locked: `kind:id`.
//!
//! # Grammar
//!
//! ```text
//! resource = [ kind ":" ] id            a bare id is name:id
//! kind     = a-z *( a-z / 0-9 / "-" / "_" )              at most 32 bytes
//! id       = 1*( plain / "%" hex hex )                   resource at most 1024 bytes
//! plain    = any UTF-8 character but  , = # %  blanks and control characters
//! ```
//!
//! A bare id has no `:`; an id after its kind may have any number of them.
//!
//! # Invariant
//!
//! One resource has one spelling. [`Resource::parse`] decodes a text and encodes it again,
//! so `name:a%2cb` and `name:a%2Cb` are the same lock, and so are `%61` and `a`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::text_conversions;

/// The longest kind, in bytes.
pub const KIND_BYTES_MAX: usize = 32;
/// The longest resource in its canonical spelling, in bytes.
pub const RESOURCE_BYTES_MAX: usize = 1024;

/// The kind of the leases that keep others from a resource whose run may have ended.
const HOLD_KIND: &str = "hold";

/// A resource in its one canonical spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct Resource {
    text: String,
    kind_len: usize,
}

/// The reason why a text is not a resource, and the byte at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad resource {text:?}: byte {at}: {problem}")]
pub struct ResourceError {
    /// The text as it was given.
    pub text: String,
    /// Offset of the offending byte, from 0.
    pub at: usize,
    /// The problem there, and the allowed values.
    pub problem: String,
}

impl Resource {
    /// Parses `kind:id`, or a bare `id` as `name:id`.
    pub fn parse(text: &str) -> Result<Self, ResourceError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// Parses a resource from bytes that may not be UTF-8.
    pub fn parse_bytes(text: &[u8]) -> Result<Self, ResourceError> {
        let fail = |at: usize, problem: String| ResourceError {
            text: shortened(text),
            at,
            problem,
        };
        // This check comes before the decoding, so that a huge input costs nothing.
        if text.len() > 3 * RESOURCE_BYTES_MAX {
            return Err(fail(RESOURCE_BYTES_MAX, too_long()));
        }
        let (kind, id_at) = match text.iter().position(|byte| *byte == b':') {
            Some(colon) => (&text[..colon], colon + 1),
            None => (&b"name"[..], 0),
        };
        check_kind(kind).map_err(|(at, problem)| fail(at, problem))?;
        let raw = decode(&text[id_at..]).map_err(|(at, problem)| fail(id_at + at, problem))?;
        let kind = String::from_utf8_lossy(kind);
        Self::canonical(&kind, &raw).map_err(|problem| fail(id_at, problem))
    }

    /// Makes a resource from a kind and any bytes. Encodes the bytes that an id may not contain.
    pub fn new(kind: &str, raw_id: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let fail = |at, problem| ResourceError {
            text: format!("{kind}:{}", shortened(raw_id.as_ref())),
            at,
            problem,
        };
        check_kind(kind.as_bytes()).map_err(|(at, problem)| fail(at, problem))?;
        Self::canonical(kind, raw_id.as_ref()).map_err(|problem| fail(kind.len() + 1, problem))
    }

    fn canonical(kind: &str, raw_id: &[u8]) -> Result<Self, String> {
        if raw_id.is_empty() {
            return Err("the id is missing; write kind:id or a bare name".into());
        }
        let text = format!("{kind}:{}", encode(raw_id));
        if text.len() > RESOURCE_BYTES_MAX {
            return Err(too_long());
        }
        Ok(Self {
            text,
            kind_len: kind.len(),
        })
    }

    /// Returns the part before the first `:`.
    pub fn kind(&self) -> &str {
        &self.text[..self.kind_len]
    }

    /// Returns the part after the first `:`, in its canonical spelling.
    pub fn id(&self) -> &str {
        &self.text[self.kind_len + 1..]
    }

    /// Returns the id as it was before it was encoded.
    pub fn raw_id(&self) -> Vec<u8> {
        decode(self.id().as_bytes()).unwrap_or_else(|_| self.id().into())
    }

    /// Returns the hold of this resource, whose holder keeps others from it.
    pub fn hold(&self) -> Result<Self, ResourceError> {
        Self::new(HOLD_KIND, &self.text)
    }

    /// Returns the resource that this hold keeps, or `None` if it is no hold.
    pub fn kept(&self) -> Option<Self> {
        let is_hold = self.kind() == HOLD_KIND;
        is_hold.then(|| Self::parse_bytes(&self.raw_id()).ok())?
    }

    /// Returns the whole canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn too_long() -> String {
    format!("longer than {RESOURCE_BYTES_MAX} bytes; use a shorter id, for example a hash")
}

fn shortened(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

fn check_kind(kind: &[u8]) -> Result<(), (usize, String)> {
    const ALLOWED: &str = "a kind is a-z, then a-z, 0-9, '-' or '_'";
    if kind.is_empty() {
        return Err((0, format!("the kind before ':' is missing; {ALLOWED}")));
    }
    for (at, byte) in kind.iter().enumerate() {
        let allowed = match byte {
            b'a'..=b'z' => true,
            b'0'..=b'9' | b'-' | b'_' => at > 0,
            _ => false,
        };
        if !allowed {
            let byte = byte.escape_ascii();
            return Err((at, format!("'{byte}' is not allowed here; {ALLOWED}")));
        }
    }
    if kind.len() > KIND_BYTES_MAX {
        let problem = format!("the kind is longer than {KIND_BYTES_MAX} bytes");
        return Err((KIND_BYTES_MAX, problem));
    }
    Ok(())
}

/// Returns true for characters that must be encoded in an id: the command line, lists and
/// environment variables use them as separators, or they are invisible.
fn must_be_encoded(c: char) -> bool {
    matches!(c, ',' | '=' | '#' | '%') || c.is_whitespace() || c.is_control()
}

fn decode(id: &[u8]) -> Result<Vec<u8>, (usize, String)> {
    let mut raw = Vec::with_capacity(id.len());
    let mut at = 0;
    for chunk in id.utf8_chunks() {
        let mut chars = chunk.valid().char_indices();
        while let Some((offset, c)) = chars.next() {
            if c == '%' {
                let hex = chunk.valid().as_bytes().get(offset + 1..offset + 3);
                let byte = hex.and_then(hex_byte).ok_or_else(|| {
                    let problem = "'%' is not followed by two hex digits; write '%25' for a '%'";
                    (at + offset, problem.to_string())
                })?;
                raw.push(byte);
                chars.nth(1);
            } else if must_be_encoded(c) {
                let mut plain = [0; 4];
                let encoded = encode(c.encode_utf8(&mut plain).as_bytes());
                let problem = format!("{c:?} is not allowed in an id; write '{encoded}'");
                return Err((at + offset, problem));
            } else {
                raw.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        at += chunk.valid().len();
        if let Some(byte) = chunk.invalid().first() {
            let problem = format!("byte 0x{byte:02X} is not UTF-8; write '%{byte:02X}'");
            return Err((at, problem));
        }
    }
    Ok(raw)
}

fn hex_byte(hex: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(hex[0])? * 16 + digit(hex[1])?;
    u8::try_from(value).ok()
}

fn encode(raw: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(raw.len());
    let percent = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(text, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    };
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            if must_be_encoded(c) {
                percent(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        percent(&mut text, chunk.invalid());
    }
    text
}

text_conversions!(Resource, ResourceError);

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> usize {
        Resource::parse(text).unwrap_err().at
    }

    #[test]
    fn an_id_is_read_back_as_it_was() {
        for raw in [
            &b"/a b,c=d#e%41"[..],
            b"plain",
            b"/\xff\x00\n%",
            "/é".as_bytes(),
        ] {
            let resource = Resource::new("file", raw).unwrap();
            assert_eq!(resource.raw_id(), raw, "{resource}");
        }
    }

    #[test]
    fn a_bare_name_is_of_kind_name() {
        let build = Resource::parse("build").unwrap();
        assert_eq!(build.as_str(), "name:build");
        assert_eq!((build.kind(), build.id()), ("name", "build"));
    }

    #[test]
    fn only_the_first_colon_separates() {
        let resource = Resource::parse("map:atlas:m3/x").unwrap();
        assert_eq!((resource.kind(), resource.id()), ("map", "atlas:m3/x"));
    }

    #[test]
    fn one_resource_has_one_spelling() {
        for spelling in ["name:a%2cb", "name:%61%2Cb", "a%2Cb"] {
            assert_eq!(Resource::parse(spelling).unwrap().as_str(), "name:a%2Cb");
        }
        assert_eq!(Resource::parse("%C3%A9").unwrap().as_str(), "name:é");
        assert_eq!(Resource::new("name", "a,b").unwrap().as_str(), "name:a%2Cb");
    }

    #[test]
    fn every_raw_byte_survives_encoding_and_parsing() {
        let raw: Vec<u8> = (0..=255).collect();
        let resource = Resource::new("file", &raw).unwrap();
        assert_eq!(Resource::parse(resource.as_str()).unwrap(), resource);
        assert_eq!(decode(resource.id().as_bytes()).unwrap(), raw);
    }

    #[test]
    fn errors_point_at_the_byte() {
        assert_eq!(at("Map:x"), 0);
        assert_eq!(at("ma p:x"), 2);
        assert_eq!(at("1x:y"), 0);
        assert_eq!(at(":y"), 0);
        assert_eq!(at("map:"), 4);
        assert_eq!(at(""), 0);
        assert_eq!(at("name:a b"), 6);
        assert_eq!(at("é,"), 2);
        assert_eq!(at("a%zz"), 1);
        assert_eq!(at("a%4"), 1);
        assert_eq!(at("a\u{a0}b"), 1);
        assert_eq!(Resource::parse_bytes(b"ab\xff").unwrap_err().at, 2);
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        let error = Resource::parse("name:a=b").unwrap_err().to_string();
        assert!(error.contains("write '%3D'"), "{error}");
        let error = Resource::parse_bytes(b"\xfe").unwrap_err().to_string();
        assert!(error.contains("write '%FE'"), "{error}");
    }

    #[test]
    fn length_is_limited() {
        let longest = format!("name:{}", "x".repeat(RESOURCE_BYTES_MAX - 5));
        assert!(Resource::parse(&longest).is_ok());
        assert!(Resource::parse(&format!("{longest}x")).is_err());
        assert!(Resource::parse(&"x".repeat(1 << 20)).is_err());
        assert!(Resource::parse(&format!("{}:x", "k".repeat(33))).is_err());
    }
}
