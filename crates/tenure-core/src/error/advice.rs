//! Remedies for errors, without the words of any surface.
//!
//! A command calls an operation by a command line, a server by a route, a library by a method. A
//! remedy therefore names the operation in braces, and each surface puts its own [`Words`] there:
//!
//! | in braces | is |
//! |---|---|
//! | `{board.renew issue}` | an operation, with a field of its request and the next of the values |
//! | `{ledger.verify directory=DIR repair=true}` | the same, with values of the sentence itself |
//! | `{.wait}` | a field of the request that failed |
//! | `{$store}` | a setting of the surface or of its user |
//! | `{}` | the next of the values, as text |
//!
//! Braces are read only in the text of the program itself, never in values.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The words of a surface for a part that is not text.
pub type Words = fn(&Part) -> String;

type Name = Cow<'static, str>;

/// The next step after an error, in one sentence. Over a wire it is a text, or a list of parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Remedy {
    /// A sentence that is the same for every surface.
    Plain(String),
    /// A sentence with names in it.
    Parts(Vec<Part>),
}

/// A part of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Part {
    /// Words that are the same for every surface.
    Text(String),
    /// An operation to call.
    Operation {
        /// The name of the operation.
        operation: Name,
        /// Fields of its request, each with a value.
        arguments: Vec<(Name, String)>,
    },
    /// A field of the request that failed.
    Field {
        /// The name of the field.
        field: Name,
    },
    /// A setting of the surface or of its user.
    Setting {
        /// The name of the setting.
        setting: Name,
    },
}

impl Remedy {
    /// Makes a sentence with values in it: one for each `{}`, and for each field of an operation
    /// that has none in the sentence itself.
    pub fn of(sentence: &'static str, values: &[&str]) -> Self {
        let mut values = values.iter().map(|value| (*value).to_owned());
        let (mut parts, mut rest) = (Vec::new(), sentence);
        while let Some((text, (name, after))) = rest
            .split_once('{')
            .and_then(|(text, after)| Some((text, after.split_once('}')?)))
        {
            parts.extend([Part::Text(text.into()), Part::of(name, &mut values)]);
            rest = after;
        }
        parts.push(Part::Text(rest.into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        match &mut parts[..] {
            [Part::Text(text)] => Remedy::Plain(std::mem::take(text)),
            _ => Remedy::Parts(parts),
        }
    }

    /// Adds another sentence, or the rest of this one.
    #[must_use]
    pub fn then(self, rest: impl Into<Self>) -> Self {
        let parts = self.into_parts().into_iter();
        Remedy::Parts(parts.chain(rest.into().into_parts()).collect())
    }

    /// Returns true if an operation of this name is in the sentence.
    pub fn names(&self, name: &str) -> bool {
        let is_it =
            |part: &Part| matches!(part, Part::Operation { operation, .. } if operation == name);
        matches!(self, Remedy::Parts(parts) if parts.iter().any(is_it))
    }

    /// Returns the sentence in the words of a surface.
    pub fn in_words(&self, words: Words) -> String {
        let word = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            named => words(named),
        };
        match self {
            Remedy::Plain(text) => text.clone(),
            Remedy::Parts(parts) => parts.iter().map(word).collect(),
        }
    }

    fn into_parts(self) -> Vec<Part> {
        match self {
            Remedy::Plain(text) => vec![Part::Text(text)],
            Remedy::Parts(parts) => parts,
        }
    }
}

impl Part {
    fn of(name: &'static str, values: &mut impl Iterator<Item = String>) -> Self {
        if let Some(field) = name.strip_prefix('.').map(Name::from) {
            return Part::Field { field };
        }
        if let Some(setting) = name.strip_prefix('$').map(Name::from) {
            return Part::Setting { setting };
        }
        let mut words = name.split(' ');
        let operation = words.next().map(Name::from).unwrap_or_default();
        if operation.is_empty() {
            return Part::Text(values.next().unwrap_or_default());
        }
        let argument = |word: &'static str| match word.split_once('=') {
            Some((name, value)) => (name.into(), value.into()),
            None => (word.into(), values.next().unwrap_or_default()),
        };
        Part::Operation {
            operation,
            arguments: words.map(argument).collect(),
        }
    }
}

impl From<&'static str> for Remedy {
    fn from(sentence: &'static str) -> Self {
        Self::of(sentence, &[])
    }
}

impl From<String> for Remedy {
    fn from(text: String) -> Self {
        Remedy::Plain(text)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(Part::to_string))
    }
}

impl fmt::Display for Part {
    /// Writes the part without the words of a surface: `board.renew issue=x1`, `wait`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Text(text) => f.write_str(text),
            Part::Operation {
                operation,
                arguments,
            } => {
                f.write_str(operation)?;
                let mut fields = arguments.iter();
                fields.try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
            Part::Field { field: name } | Part::Setting { setting: name } => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_in_the_words_of_its_surface_and_goes_over_a_wire() {
        let remedy = Remedy::of(
            "look at {} with {board.show issue}, or add {.store} sqlite:PATH",
            &["{x}", "a b"],
        );
        assert_eq!(
            remedy.to_string(),
            "look at {x} with board.show issue=a b, or add store sqlite:PATH"
        );
        let loud = |part: &Part| part.to_string().to_uppercase();
        assert_eq!(
            remedy.in_words(loud),
            "look at {x} with BOARD.SHOW ISSUE=A B, or add STORE sqlite:PATH"
        );
        let json = serde_json::to_string(&remedy).unwrap();
        assert!(
            json.starts_with(
                r#"["look at ","{x}"," with ",{"operation":"board.show","arguments":[["issue","a b"]]}"#
            ),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Remedy>(&json).unwrap(), remedy);
        assert_eq!(
            serde_json::to_string(&Remedy::from("wait")).unwrap(),
            "\"wait\""
        );
    }
}
