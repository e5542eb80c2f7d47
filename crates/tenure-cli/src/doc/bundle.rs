//! Several documents as one JSON object, `{"FILE": document, …}`, for a command that changes them
//! together. What is in it is copied, not read into values: no number changes on its way.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Puts texts together under their names. The texts are JSON.
pub fn pack<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut bundle = String::from("{");
    for (number, (name, text)) in documents.into_iter().enumerate() {
        bundle.push_str(if number == 0 { "" } else { "," });
        bundle.push_str(&serde_json::Value::from(name).to_string());
        bundle.push(':');
        bundle.push_str(text.trim());
    }
    bundle + "}\n"
}

/// Takes the texts apart again, in the order of `names`: each of them once, and no other.
pub fn unpack(bundle: &str, names: &[&str]) -> Result<Vec<String>, String> {
    let text = bundle.strip_prefix('\u{feff}').unwrap_or(bundle);
    let mut from = serde_json::Deserializer::from_str(text);
    let found = from.deserialize_map(Members).and_then(|found| {
        from.end()?;
        Ok(found)
    });
    let mut found = found.map_err(|error| explain(bundle, text, &error))?;
    let mut texts = Vec::with_capacity(names.len());
    for name in names {
        let at = found.iter().position(|(found, _)| found == name);
        let at = at.ok_or_else(|| format!("without the key {name:?}"))?;
        texts.push(found.swap_remove(at).1.get().to_owned());
    }
    match found.first() {
        None => Ok(texts),
        Some((key, _)) if names.contains(&key.as_str()) => {
            Err(format!("with the key {key:?} twice"))
        }
        Some((key, _)) => Err(format!("with the key {key:?}, which is none of the files")),
    }
}

/// Where it is wrong, and how.
fn explain(bundle: &str, text: &str, error: &serde_json::Error) -> String {
    let lines = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum::<usize>() + bundle.len() - text.len();
    let at = before + error.column().saturating_sub(1);
    format!("that is no object with a key for each file, at byte {at}: {error}")
}

/// The members of an object in their order, one that is there twice included.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again_byte_for_byte() {
        let bundle = pack([("a \"x\".json", " {\"n\": 1.50}\n"), ("b.json", "[1e400]")]);
        assert_eq!(
            bundle,
            "{\"a \\\"x\\\".json\":{\"n\": 1.50},\"b.json\":[1e400]}\n"
        );
        let texts = unpack(&bundle, &["b.json", "a \"x\".json"]).unwrap();
        assert_eq!(texts, ["[1e400]", "{\"n\": 1.50}"]);
    }

    #[test]
    fn every_name_must_be_there_once_and_no_other() {
        let refused = |bundle: &str| unpack(bundle, &["a", "b"]).unwrap_err();
        assert!(refused("{\"a\":1}").contains("without the key \"b\""));
        assert!(refused("{\"a\":1,\"b\":2,\"c\":3}").contains("\"c\", which is none"));
        assert!(refused("{\"a\":1,\"b\":2,\"a\":3}").contains("\"a\" twice"));
    }

    #[test]
    fn what_is_no_object_is_told_with_the_byte() {
        for (bundle, at) in [
            ("", 0),
            ("[1]", 0),
            ("{\"a\":1,\n\"b\":x}", 12),
            ("{} {}", 3),
        ] {
            let refused = unpack(bundle, &[]).unwrap_err();
            assert!(
                refused.contains(&format!("at byte {at}: ")),
                "{bundle:?}: {refused}"
            );
        }
    }
}
