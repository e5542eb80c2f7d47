//! Documents: JSON files that many processes read and change.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tenure_core::Error;

use crate::operation::operation;
use crate::text::{Json, Span, TokenOf, on_one_line};

/// Reads a document, or several at one moment: no write falls between them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The paths of the documents.
    pub files: Vec<PathBuf>,
    /// The content with which a missing document is made. Left out, a missing document is an error.
    #[serde(default)]
    pub create: Option<Json>,
    /// The protocol of other programs whose lock is taken as well. Left out, none is.
    #[serde(default)]
    pub compat: Option<Compat>,
    /// The longest wait for the documents; `0s` does not wait. Left out, it is that of the
    /// settings, else 5s, or 15s with `compat`.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("doc.read", Read, OneOrSeveral<Document>);

/// Replaces a document, or makes it. The content is written byte for byte as it is given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The path of the document.
    pub file: PathBuf,
    /// The whole new content.
    pub content: Json,
    /// The version that the document must have for the write to succeed, or `absent` if it must not
    /// exist. Left out, any will do.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// The lock under which the document is written, as `RESOURCE#N`. The write is refused unless N
    /// is the newest token that the store granted. The document remembers it, and refuses older
    /// ones.
    #[serde(default)]
    pub token: Option<TokenOf>,
    /// True to write although the document remembers another lock, or a token that was never
    /// granted. It remembers `token` from then on.
    #[serde(default)]
    pub rebind: bool,
    /// The protocol of other programs whose lock is taken as well. Left out, none is.
    #[serde(default)]
    pub compat: Option<Compat>,
    /// The longest wait for the document; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s, or 15s with `compat`.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("doc.write", Write, OneOrSeveral<Written>);

/// Replaces the value of a document. Its indentation, byte order mark and last newline stay as they
/// were.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// The path of the document. It must exist unless `expect` is `absent`.
    pub file: PathBuf,
    /// The whole new content.
    pub content: Json,
    /// The version that the document must have for the write to succeed, or `absent` if it must not
    /// exist. Left out, any will do.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// The lock under which the document is written, as `RESOURCE#N`. The write is refused unless N
    /// is the newest token that the store granted. The document remembers it, and refuses older
    /// ones.
    #[serde(default)]
    pub token: Option<TokenOf>,
    /// True to write although the document remembers another lock, or a token that was never
    /// granted. It remembers `token` from then on.
    #[serde(default)]
    pub rebind: bool,
    /// The protocol of other programs whose lock is taken as well. Left out, none is.
    #[serde(default)]
    pub compat: Option<Compat>,
    /// The longest wait for the document; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s, or 15s with `compat`.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("doc.update", Update, OneOrSeveral<Written>);

/// Removes the files that crashed writers of a document left.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clean {
    /// The path of the document.
    pub file: PathBuf,
    /// True to remove nothing, and only list the files that would be removed.
    #[serde(default)]
    pub dry_run: bool,
    /// The protocol of other programs whose lock is taken as well. Left out, none is.
    #[serde(default)]
    pub compat: Option<Compat>,
    /// The longest wait for the document; `0s` does not wait. Left out, it is that of the settings,
    /// else 5s, or 15s with `compat`.
    #[serde(default)]
    pub wait: Option<Span>,
}
operation!("doc.clean", Clean, Cleaned);

/// The files that were removed, or that would be.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cleaned {
    /// The paths of the files.
    pub removed: Vec<String>,
    /// Always null: the list is complete.
    pub next: Option<String>,
}

/// A document as it was read.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Document {
    /// The version that was read. A write can `expect` it.
    pub version: Version,
    /// The content of the document. Numbers are spelled as they are in the file.
    #[serde(rename = "document", serialize_with = "on_one_line")]
    #[schemars(with = "Value")]
    pub text: String,
}

/// A document that was written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Written {
    /// The version of the document after the write.
    pub version: Version,
}

/// The answer about one document, or about each of several, in the order in which they were named.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrSeveral<T> {
    /// The answer if one document was named.
    One(T),
    /// The answers if several documents were named.
    Several {
        /// The documents, each with its file.
        documents: Vec<InFile<T>>,
        /// Always null: the list is complete.
        next: Option<String>,
    },
}

/// The answer about a document, with its file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InFile<T> {
    /// The path of the document, as it was named.
    pub file: PathBuf,
    /// The answer about the document.
    #[serde(flatten)]
    pub answer: T,
}

impl<T> OneOrSeveral<T> {
    /// Returns the answer about files, of which there is one for each.
    pub fn about(files: &[PathBuf], mut answers: Vec<T>) -> Self {
        if answers.len() == 1 {
            return Self::One(answers.remove(0));
        }
        let documents = files.iter().cloned().zip(answers);
        let documents = documents.map(|(file, answer)| InFile { file, answer });
        Self::Several {
            documents: documents.collect(),
            next: None,
        }
    }

    /// Returns the answers.
    pub fn answers(&self) -> impl Iterator<Item = &T> {
        let (one, several) = match self {
            Self::One(one) => (Some(one), &[][..]),
            Self::Several { documents, .. } => (None, &documents[..]),
        };
        one.into_iter().chain(several.iter().map(|it| &it.answer))
    }
}

/// A protocol of other programs that lock the same documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compat {
    /// The protocol of proper-lockfile, a package for Node.
    #[serde(rename = "proper-lockfile")]
    ProperLockfile,
}

/// The largest number of characters shown of a bad version.
const SHOWN_MAX: usize = 80;

/// The version of a document: the SHA-256 of its bytes on disk, 64 hexadecimal digits.
///
/// Two documents with the same value and another layout have different versions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct Version([u8; 32]);

impl Version {
    /// Returns the version of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the SHA-256 of two versions, one after the other.
    pub fn and(self, next: Self) -> Self {
        Self::of(&[self.0, next.0].concat())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

impl FromStr for Version {
    type Err = Error;

    /// Reads a version in small or capital digits.
    fn from_str(text: &str) -> Result<Self, Error> {
        digits(text).map(Self).ok_or_else(|| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            Error::BadInput(format!(
                "{shown:?} is not a version: a version is 64 hexadecimal digits, \
                 as a read shows it"
            ))
        })
    }
}

fn digits(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(bytes)
}

/// The state in which a document must be to be changed: a version, or `absent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Expect {
    /// The document must not exist.
    Absent,
    /// The document must have this version.
    Version(Version),
}

const ABSENT: &str = "absent";

impl FromStr for Expect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            ABSENT => Ok(Self::Absent),
            version => version.parse().map(Self::Version),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Absent => f.write_str(ABSENT),
            Expect::Version(version) => version.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tenure_core::Class;

    const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_version_is_the_sha256_in_hexadecimal() {
        let version = Version::of(b"");
        assert_eq!(version.to_string(), OF_NOTHING);
        assert_eq!(
            OF_NOTHING.to_uppercase().parse::<Version>().unwrap(),
            version
        );
        assert_eq!(serde_json::to_value(version).unwrap(), json!(OF_NOTHING));
        assert_eq!(
            serde_json::from_value::<Version>(json!(OF_NOTHING)).unwrap(),
            version
        );
    }

    #[test]
    fn what_is_not_a_version_is_told_what_one_looks_like() {
        let multi_byte = "é".repeat(32);
        let signed = format!("+{}", &OF_NOTHING[1..]);
        for text in [
            "",
            "1",
            &OF_NOTHING[1..],
            &format!("{OF_NOTHING}0"),
            &multi_byte,
            &signed,
        ] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error.class(), Class::BadInput);
            assert!(error.to_string().contains("64 hexadecimal digits"));
        }
        assert!(serde_json::from_value::<Version>(json!("x")).is_err());
        let long = "x".repeat(10_000).parse::<Version>().unwrap_err();
        assert!(long.to_string().len() < 250);
    }

    #[test]
    fn one_document_is_answered_without_its_name_and_several_with_theirs() {
        let version = Version::of(b"");
        let document = || Document {
            version,
            text: "{\n  \"n\": 1.50\n}\n".into(),
        };
        let shown = |files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            let answers = files.iter().map(|_| document()).collect();
            serde_json::to_string(&OneOrSeveral::about(&files, answers)).unwrap()
        };
        let fields = format!("\"version\":\"{version}\",\"document\":{{\"n\":1.50}}");
        assert_eq!(shown(&["a"]), format!("{{{fields}}}"));
        let [a, b] = ["a", "b"].map(|file| format!("{{\"file\":\"{file}\",{fields}}}"));
        let both = format!("{{\"documents\":[{a},{b}],\"next\":null}}");
        assert_eq!(shown(&["a", "b"]), both);
    }
}
