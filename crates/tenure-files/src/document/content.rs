//! The content of a document: its text, its version, its values.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use tenure_api::doc::Version;
use tenure_core::{Error, Result};

use super::json::{self, Flaw};

/// The content of a document when it was read. The bytes are checked when text or a value is asked
/// for.
#[derive(Debug, Clone)]
pub struct Content {
    path: PathBuf,
    /// The bytes on disk, a byte order mark included.
    bytes: Vec<u8>,
    version: OnceLock<Version>,
}

impl Content {
    /// Returns the content of the document at `path`.
    pub(crate) fn new(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            path,
            bytes,
            version: OnceLock::new(),
        }
    }

    /// Returns the path of the file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the JSON text without a byte order mark. It is strictly checked: JSON, and every key
    /// once.
    ///
    /// # Errors
    ///
    /// `Corrupt`, with the byte at which the text stops being a document.
    pub fn text(&self) -> Result<&str> {
        json::check(&self.bytes).map_err(|flaw| corrupt(&self.path, flaw))
    }

    /// Returns the bytes as they are on disk.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the version, for a write that expects it.
    pub fn version(&self) -> Version {
        *self.version.get_or_init(|| Version::of(&self.bytes))
    }

    /// Reads the content into a value. A repeated key passes here, and fails in
    /// [`text`](Self::text): a caller that writes the value back checks that first.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(json::without_mark(&self.bytes))
            .map_err(|error| self.explain(&error))
    }

    /// Fails if a key is repeated. The content must have been parsed before: the grammar is not
    /// checked again.
    pub(crate) fn require_keys_once(&self) -> Result<()> {
        json::check_parsed(&self.bytes).map_err(|flaw| corrupt(&self.path, flaw))
    }

    /// Returns the error for content that is not JSON, or does not fit the type.
    fn explain(&self, error: &serde_json::Error) -> Error {
        let text = match json::check(&self.bytes) {
            Ok(text) => text,
            Err(flaw) => return corrupt(&self.path, flaw),
        };
        let flaw = Flaw::of_value(&self.bytes, text, error);
        Error::corrupt(
            self.path.clone(),
            format!("not what it should hold {}: {}", flaw.place(), flaw.problem),
        )
    }
}

fn corrupt(path: &Path, flaw: Flaw) -> Error {
    Error::corrupt(path, flaw.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tenure_core::Class;

    fn content(text: &str) -> Content {
        Content::new("/d/a.json".into(), text.into())
    }

    #[test]
    fn the_byte_order_mark_counts_for_the_version_and_not_for_the_text() {
        let marked = content("\u{feff}{\"a\":1}");
        assert_eq!(marked.text().unwrap(), "{\"a\":1}");
        assert_eq!(marked.parse::<Value>().unwrap(), json!({"a": 1}));
        assert_eq!(marked.version(), Version::of(b"\xef\xbb\xbf{\"a\":1}"));
        assert_ne!(marked.version(), content("{\"a\":1}").version());
    }

    #[test]
    fn what_is_not_a_document_is_refused_with_the_path_and_the_byte() {
        let error = content("{\"a\": 1,\n \"a\": 2}");
        let error = error.text().unwrap_err();
        assert_eq!(error.class(), Class::BadInput);
        assert_eq!(
            error.to_string(),
            "/d/a.json: not JSON at byte 10 (line 2, column 2): the key \"a\" is there twice"
        );
        assert!(content("").text().is_err() && content("").parse::<Value>().is_err());
        let not_utf8 = Content::new("/d/a.json".into(), vec![b'"', 0xff, b'"']);
        assert!(not_utf8.text().is_err() && not_utf8.parse::<Value>().is_err());
    }

    #[test]
    fn reading_only_finds_what_is_not_json_all_the_same() {
        let broken = content("\u{feff}[1,\n x]");
        assert_eq!(
            broken.parse::<Value>().unwrap_err().to_string(),
            broken.text().unwrap_err().to_string()
        );
        let good = content("[1, 2]\n");
        assert_eq!(good.parse::<Vec<u32>>().unwrap(), [1, 2]);
    }

    #[test]
    fn json_that_does_not_fit_the_type_is_not_called_broken() {
        let content = content("{\"é\": [1,\n \"x\"]}");
        let error = content.parse::<std::collections::HashMap<String, Vec<u32>>>();
        assert_eq!(
            error.unwrap_err().to_string(),
            "/d/a.json: not what it should hold at byte 14 (line 2, column 4): \
             invalid type: string \"x\", expected u32"
        );
    }

    #[test]
    fn a_number_no_float_can_hold_is_a_document_that_a_value_cannot_hold() {
        let content = content("[1e400]");
        assert!(content.text().is_ok());
        let message = content.parse::<Value>().unwrap_err().to_string();
        assert!(message.contains("not what it should hold"), "{message}");
        assert!(message.ends_with("number out of range"), "{message}");
    }
}
