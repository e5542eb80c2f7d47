//! The text that is put into `tenure.toml`: text before and after what is there, so that comments stay and it can be taken out exactly.

use std::path::Path;

use tenure::Result;
use tenure::config::Config;

const STORE_KEY: &str = "store = \"user:\"";
const STORE_BLOCK: &str = "\
# tenure agent install: a store that agents reach whose sandbox makes .git read-only
store = \"user:\"
";

/// Returns the text that turns the guards on.
pub fn guard_block() -> &'static str {
    "
# tenure agent install: agents do not overwrite each other's edits
[guard]
edits = true

# Commands that agents run only in a slot, and how many run at once:
# [guard.commands]
# \"cargo test\" = \"slot build:2\"
#
# [slot]
# build = 2
"
}

/// The text to add, and the obstacles.
#[derive(Debug, Default)]
pub struct Addition {
    /// The new text, if there is one.
    pub text: Option<String>,
    /// The keys that it sets.
    pub added: Vec<String>,
    /// Another store that the file names.
    pub other_store: Option<String>,
}

/// Adds what is missing; `old` is the text of the file, if it is there.
pub fn add(old: Option<&str>, path: &Path) -> Result<Addition> {
    let old = old.unwrap_or_default();
    let store = Config::parse(old, path)?.store;
    let mut addition = Addition::default();
    let mut text = old.to_owned();
    match store {
        None => {
            // A key after a table would be the table's, so it goes before everything.
            text.insert_str(0, STORE_BLOCK);
            addition.added.push(STORE_KEY.into());
        }
        Some(store) if store == "user:" => {}
        other => addition.other_store = other,
    }
    let guarded = old
        .lines()
        .any(|line| line.trim_start().starts_with("[guard"));
    if !guarded {
        text.push_str(guard_block());
        addition.added.push("[guard] edits = true".into());
    }
    Config::parse(&text, path)?;
    addition.text = (!addition.added.is_empty()).then_some(text);
    Ok(addition)
}

/// Takes out what was added and not changed since. Returns the text that is left, and the keys that went.
pub fn take_out(old: &str) -> (String, Vec<String>) {
    let mut text = old.to_owned();
    let mut removed = Vec::new();
    for (block, key) in [
        (STORE_BLOCK, STORE_KEY),
        (guard_block(), "[guard] edits = true"),
    ] {
        if let Some(at) = text.find(block) {
            text.replace_range(at..at + block.len(), "");
            removed.push(key.to_owned());
        }
    }
    (text, removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_counts_and_goes_again_without_a_trace() {
        for old in ["", "# mine", "wait = '5s' # why\n[retry]\nattempts = 2\n"] {
            let path = Path::new("tenure.toml");
            let addition = add(Some(old), path).unwrap();
            let text = addition.text.unwrap();
            assert_eq!(
                Config::parse(&text, path).unwrap().store.as_deref(),
                Some("user:")
            );
            assert!(add(Some(&text), path).unwrap().text.is_none(), "once");
            assert!(Config::parse(&text, path).unwrap().guard.edits);
            assert_eq!(take_out(&text).0, old);
        }
    }

    #[test]
    fn another_store_is_kept_and_told() {
        let old = "store = 'sqlite:x.db'\n";
        let addition = add(Some(old), Path::new("tenure.toml")).unwrap();
        assert_eq!(addition.other_store.as_deref(), Some("sqlite:x.db"));
        let text = addition.text.unwrap();
        assert_eq!(text, format!("{old}{}", guard_block()));
        assert_eq!(take_out(old), (old.to_owned(), vec![]));
    }
}
