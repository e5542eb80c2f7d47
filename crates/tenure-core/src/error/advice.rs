//! What to do about an error, without the words of any surface.
//!
//! A command calls an operation by a command line, a server by a route, a library by a method. So a
//! remedy is a sentence in parts, and each surface names the operations, fields and settings in it
//! by [`Words`] of its own. Shown without any, it names them as `tenure-api` does.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The words of a surface for a part that is no text.
pub type Words = fn(&Part) -> String;

type Name = Cow<'static, str>;

/// What to do next, in one sentence. Over a wire it is a text, or a list of parts.
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
    /// An operation.
    Operation {
        /// Its name.
        operation: Name,
        /// Fields of its request, each with a value. The value of a switch is empty.
        arguments: Vec<(Name, String)>,
    },
    /// A field of the request that failed.
    Field {
        /// Its name.
        field: Name,
        /// The value to give it, if there is one to suggest.
        value: Option<Name>,
    },
    /// A setting of the surface or of its user.
    Setting {
        /// Its name.
        setting: Name,
        /// The value to give it, if there is one to suggest.
        value: Option<Name>,
    },
}

impl Remedy {
    /// Adds text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Part::Text(text.into()))
    }

    /// Adds the name of an operation, with fields of its request.
    #[must_use]
    pub fn operation<const N: usize>(
        self,
        name: &'static str,
        arguments: [(&'static str, &str); N],
    ) -> Self {
        let arguments = arguments.map(|(name, value)| (name.into(), value.to_owned()));
        self.with(Part::Operation {
            operation: name.into(),
            arguments: arguments.into(),
        })
    }

    /// Adds the name of a field of the request; `name=value` gives it a value.
    #[must_use]
    pub fn field(self, field: &'static str) -> Self {
        let (field, value) = named(field);
        self.with(Part::Field { field, value })
    }

    /// Adds the name of a setting; `name=value` gives it a value.
    #[must_use]
    pub fn setting(self, setting: &'static str) -> Self {
        let (setting, value) = named(setting);
        self.with(Part::Setting { setting, value })
    }

    /// Adds another sentence, or the rest of this one.
    #[must_use]
    pub fn then(self, rest: impl Into<Self>) -> Self {
        rest.into().into_parts().into_iter().fold(self, Self::with)
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

    fn with(self, part: Part) -> Self {
        let mut parts = self.into_parts();
        parts.push(part);
        Remedy::Parts(parts)
    }

    fn into_parts(self) -> Vec<Part> {
        match self {
            Remedy::Plain(text) if text.is_empty() => Vec::new(),
            Remedy::Plain(text) => vec![Part::Text(text)],
            Remedy::Parts(parts) => parts,
        }
    }
}

fn named(text: &'static str) -> (Name, Option<Name>) {
    let (name, value) = text.split_once('=').unzip();
    (name.unwrap_or(text).into(), value.map(Name::from))
}

impl From<&str> for Remedy {
    fn from(text: &str) -> Self {
        Remedy::Plain(text.into())
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
    /// `board.renew issue=x1`, `wait`, `store=sqlite:PATH`.
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
            Part::Field { field: name, value }
            | Part::Setting {
                setting: name,
                value,
            } => {
                f.write_str(name)?;
                value.iter().try_for_each(|value| write!(f, "={value}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_in_the_words_of_its_surface_and_goes_over_a_wire() {
        let remedy = Remedy::from("look with ")
            .operation("board.show", [("issue", "a b")])
            .text(", or add ")
            .field("store=sqlite:PATH");
        assert_eq!(
            remedy.to_string(),
            "look with board.show issue=a b, or add store=sqlite:PATH"
        );
        let loud = |part: &Part| part.to_string().to_uppercase();
        assert_eq!(
            remedy.in_words(loud),
            "look with BOARD.SHOW ISSUE=A B, or add STORE=SQLITE:PATH"
        );
        let json = serde_json::to_string(&remedy).unwrap();
        assert!(
            json.starts_with(
                r#"["look with ",{"operation":"board.show","arguments":[["issue","a b"]]}"#
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
