//! Values that are text in JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tenure_core::{Mode, Resource, duration};

/// A time such as `500ms`, `30s`, `5m` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span(pub Duration);

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        let millis = span.0.as_millis();
        match millis % 1000 {
            0 => format!("{}s", millis / 1000),
            _ => format!("{millis}ms"),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = duration::DurationError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        duration::parse(&text).map(Self)
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

/// A resource that is to be locked, in a mode of its own or in that of the request: `map:a=read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Wanted {
    /// The resource.
    pub resource: Resource,
    /// The mode, or `None` for that of the request.
    pub mode: Option<Mode>,
}

impl Wanted {
    /// Splits a text at the last `=`, if a mode follows it.
    ///
    /// # Errors
    ///
    /// The word that is no mode, in a sentence.
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

impl TryFrom<String> for Wanted {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
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

impl From<Wanted> for String {
    fn from(wanted: Wanted) -> Self {
        wanted.to_string()
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

/// JSON text that is kept as it was written.
pub(crate) mod raw_json {
    use serde::de::Deserialize;
    use serde::ser::{Error, Serialize};
    use serde::{Deserializer, Serializer};
    use serde_json::value::RawValue;

    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
        value.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(value.get().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        for text in ["500ms", "30s", "3600s"] {
            let span: Span = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(span).unwrap(), text);
        }
        for text in ["map:a/b=read", "name:x"] {
            let wanted: Wanted = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(wanted).unwrap(), text);
        }
        assert!("x=bad".parse::<Wanted>().unwrap_err().contains("%3D"));
    }
}
