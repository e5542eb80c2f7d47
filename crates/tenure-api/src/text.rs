//! Values that are text in JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tenure_core::{Mode, Resource, Token, duration};

use crate::agents::{AgentState, ChangeState, Program};
use crate::board::{GateBy, GateState, IssueId};
use crate::doc::{Expect, Version};
use crate::ledger::ClaimState;
use crate::publish::ManifestState;

/// Makes a type display itself by the word that it has in JSON, so that the word is written once.
#[macro_export]
macro_rules! shown_as_in_json {
    ($($word:ty),*) => {
        $(impl std::fmt::Display for $word {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        })*
    };
}
shown_as_in_json!(AgentState, ChangeState, ClaimState);
shown_as_in_json!(GateBy, GateState, ManifestState, Program);

/// Makes types read from JSON by their `FromStr` and written to JSON by their `Display`.
macro_rules! text_in_json {
    ($($value:ty),*) => {
        $(impl From<$value> for String {
            fn from(value: $value) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $value {
            type Error = <$value as FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        })*
    };
}
text_in_json!(Expect, IssueId, Span, TokenOf, Version, Wanted);

/// A time such as `500ms`, `30s`, `5m` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span(pub Duration);

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis % 1000 {
            0 => write!(f, "{}s", millis / 1000),
            _ => write!(f, "{millis}ms"),
        }
    }
}

impl FromStr for Span {
    type Err = duration::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        duration::parse(text).map(Self)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]+(ms|s|m|h)$",
            "description": "A time such as 500ms, 30s, 5m or 1h.",
        })
    }
}

/// A resource to be locked, with a mode of its own, as in `map:a=read`, or in the mode of the
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Wanted {
    /// The resource to be locked.
    pub resource: Resource,
    /// The mode of its own, or `None` for that of the request.
    pub mode: Option<Mode>,
}

impl Wanted {
    /// Splits a text at the last `=`, if a mode follows it.
    ///
    /// # Errors
    ///
    /// Returns a sentence that names the word that is no mode.
    pub fn split(text: &[u8]) -> Result<(&[u8], Option<Mode>), String> {
        let Some(cut) = text.iter().rposition(|byte| *byte == b'=') else {
            return Ok((text, None));
        };
        let word = &text[cut + 1..];
        let mode = str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        match mode {
            Some(mode) => Ok((&text[..cut], Some(mode))),
            None => Err(format!(
                "there is no mode {:?}; modes are read, write and upgradeable. \
                 A `=` in a name is written %3D",
                String::from_utf8_lossy(word)
            )),
        }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, mode) = Self::split(text.as_bytes())?;
        let resource = Resource::parse_bytes(name).map_err(|error| error.to_string())?;
        Ok(Self { resource, mode })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Some(mode) => write!(f, "{}={mode}", self.resource),
            None => write!(f, "{}", self.resource),
        }
    }
}

impl JsonSchema for Wanted {
    fn schema_name() -> Cow<'static, str> {
        "Wanted".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A resource such as map:atlas/m3, with =read, =write or =upgradeable \
                            behind it if it is to be locked in a mode of its own.",
        })
    }
}

/// A resource and the token of a grant of it, as `RESOURCE#N`, such as `deploy#7`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct TokenOf {
    /// The resource that was granted.
    pub resource: Resource,
    /// The token of the grant.
    pub token: Token,
}

impl TokenOf {
    /// Splits a text at its last `#`. The token stands behind it.
    ///
    /// # Errors
    ///
    /// Returns a sentence that says what is wrong with the text.
    pub fn split(text: &[u8]) -> Result<(&[u8], Token), String> {
        let wrong = || "a token is RESOURCE#N, such as deploy#7".to_owned();
        let cut = text.iter().rposition(|byte| *byte == b'#');
        let (name, number) = text.split_at(cut.ok_or_else(wrong)?);
        let number = str::from_utf8(&number[1..]).map_err(|_| wrong())?;
        let token = number.parse::<Token>();
        let token = token.map_err(|error| format!("{}: {error}", wrong()))?;
        Ok((name, token))
    }
}

impl FromStr for TokenOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, token) = Self::split(text.as_bytes())?;
        let resource = Resource::parse_bytes(name).map_err(|error| error.to_string())?;
        Ok(Self { resource, token })
    }
}

impl fmt::Display for TokenOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.resource, self.token)
    }
}

/// The text of a JSON value, token for token. In a request it stands as the value itself. Text that
/// does not come out of a request is not checked to be JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub String);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_written(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(value.get().to_owned()))
    }
}

impl JsonSchema for Json {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Any JSON value." })
    }
}

/// Serializes the text of a JSON value as that value, exactly as it was written.
pub(crate) fn as_written<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value = RawValue::from_string(text.trim().to_owned());
    value.map_err(S::Error::custom)?.serialize(serializer)
}

/// Serializes the text of a JSON value as that value, without the blanks between its tokens.
pub(crate) fn on_one_line<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    as_written(&without_blanks(text), serializer)
}

fn without_blanks(json: &str) -> String {
    let (mut in_text, mut is_escaped) = (false, false);
    let is_kept = |letter: &char| {
        let is_kept = in_text || !letter.is_ascii_whitespace();
        in_text ^= *letter == '"' && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

/// A slot, or a pool, as `NAME:N`: one of the N places that all callers of this name share. `NAME`
/// alone leaves the number to the settings. Slots are counted on a machine, pools in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The resource that stands for it: `slot:NAME` or `pool:NAME`.
    pub resource: Resource,
    /// The number of places that this caller names, or `None` to leave it to the settings.
    pub capacity: Option<u32>,
}

impl Slot {
    /// The kind of the resources that stand for slots.
    pub const KIND: &str = "slot";
    /// The kind of the resources that stand for pools.
    pub const POOL: &str = "pool";
    /// The largest number of places. More would be no limit at all.
    pub const CAPACITY_MAX: u32 = 1000;

    /// Returns true if the resource is a slot or a pool, which has places and is no lock.
    pub fn is_kind_of(resource: &Resource) -> bool {
        [Self::KIND, Self::POOL].contains(&resource.kind())
    }

    /// Reads a slot. It cuts at the last `:`, so that a name may have one in it.
    ///
    /// # Errors
    ///
    /// Returns a sentence that says why the text is no slot.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let cut = text.iter().rposition(|byte| *byte == b':');
        Self::cut(Self::KIND, text, cut)
    }

    /// Reads a pool, as [`Slot::parse`] does a slot. `NAME=N` is `NAME:N`.
    ///
    /// # Errors
    ///
    /// Returns a sentence that says why the text is no pool.
    pub fn parse_pool(text: &[u8]) -> Result<Self, String> {
        let cut = text.iter().rposition(|byte| b":=".contains(byte));
        Self::cut(Self::POOL, text, cut)
    }

    fn cut(kind: &str, text: &[u8], cut: Option<usize>) -> Result<Self, String> {
        let wrong = || format!("a {kind} is NAME:N, such as build:2");
        let (name, capacity) = match cut.map(|cut| text.split_at(cut)) {
            None => (text, None),
            Some((name, number)) => {
                let number = str::from_utf8(&number[1..]).ok().map(str::parse);
                let number = number.and_then(Result::ok);
                let number = number.filter(|number| (1..=Self::CAPACITY_MAX).contains(number));
                let capacity = number.ok_or_else(|| {
                    let most = Self::CAPACITY_MAX;
                    format!("{}; N is a whole number from 1 to {most}", wrong())
                })?;
                (name, Some(capacity))
            }
        };
        let spelled = [kind.as_bytes(), b":", name].concat();
        let resource = Resource::parse_bytes(&spelled).map_err(|error| error.to_string())?;
        Ok(Self { resource, capacity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_between_tokens_are_taken_out() {
        let text = "{\r\n\t\"a b\" : [ 1.50, \"x \\\" y\", \"\\\\\" , 1e400 ]\n}\n";
        assert_eq!(
            without_blanks(text),
            "{\"a b\":[1.50,\"x \\\" y\",\"\\\\\",1e400]}"
        );
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        for text in ["500ms", "30s", "3600s"] {
            let span: Span = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(span).unwrap(), text);
        }
        let token: TokenOf = serde_json::from_value("deploy#7".into()).unwrap();
        assert_eq!(serde_json::to_value(token).unwrap(), "name:deploy#7");
        let json: Json = serde_json::from_str(" [1.50,  1e400] ").unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), "[1.50,  1e400]");
        for text in ["map:a/b=read", "name:x"] {
            let wanted: Wanted = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(wanted).unwrap(), text);
        }
        assert!("x=bad".parse::<Wanted>().unwrap_err().contains("%3D"));
    }

    #[test]
    fn a_slot_is_a_name_and_a_number() {
        let slot = |text: &str| Slot::parse(text.as_bytes());
        let build = slot("build:2").unwrap();
        let places = (build.resource.as_str(), build.capacity);
        assert_eq!(places, ("slot:build", Some(2)));
        assert_eq!(slot("build").unwrap().capacity, None);
        for text in ["a:b:7", "a:b=7"] {
            let pool = Slot::parse_pool(text.as_bytes()).unwrap();
            assert_eq!(
                (pool.resource.as_str(), pool.capacity),
                ("pool:a:b", Some(7))
            );
        }
        assert!(slot("a=7").is_err());
        assert_eq!(slot("a:b:1000").unwrap().resource.as_str(), "slot:a:b");
        for text in [
            "",
            "build:",
            ":2",
            "build:0",
            "build:1001",
            "build:x",
            "a b:2",
        ] {
            assert!(slot(text).is_err(), "{text}");
        }
        assert!(slot("build:").unwrap_err().contains("build:2"));
        assert!(slot("build:0").unwrap_err().contains("from 1 to 1000"));
    }
}
