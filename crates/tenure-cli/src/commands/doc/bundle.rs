//! Several documents as one JSON object, `{"FILE": document, …}`, for a command that changes them
//! together. The documents are copied, not read into values, so that no number changes on its way.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Puts texts, which are JSON, together under their names.
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

/// Takes the texts apart again, in the order of `names`: each of them, and no other. The bundle is
/// JSON in which every key is there once.
pub fn unpack(bundle: &str, names: &[&str]) -> Result<Vec<String>, String> {
    let text = bundle.strip_prefix('\u{feff}').unwrap_or(bundle);
    let found = serde_json::from_str::<HashMap<String, Box<RawValue>>>(text);
    let mut found = found.map_err(|_| "that is no object with a key for each file".to_owned())?;
    let mut texts = Vec::with_capacity(names.len());
    for name in names {
        let text = found.remove(*name);
        let text = text.ok_or_else(|| format!("without the key {name:?}"))?;
        texts.push(text.get().to_owned());
    }
    match found.keys().next() {
        None => Ok(texts),
        Some(key) => Err(format!("with the key {key:?}, which is none of the files")),
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
    fn every_name_must_be_there_and_no_other() {
        let refused = |bundle: &str| unpack(bundle, &["a", "b"]).unwrap_err();
        assert!(refused("{\"a\":1}").contains("without the key \"b\""));
        assert!(refused("{\"a\":1,\"b\":2,\"c\":3}").contains("\"c\", which is none"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(unpack("[1]", &[]).unwrap_err().contains("no object"));
    }
}
