//! The text that is put into `tenure.toml`: before and after the existing text, so that comments
//! stay and the addition can be taken out exactly.

use std::path::Path;

use tenure::Result;
use tenure::config::Config;

/// The key of the store, as an addition names it.
pub const STORE_KEY: &str = "store = \"user:\"";
const STORE_BLOCK: &str = "\
# tenure agent install: a store that agents reach whose sandbox makes .git read-only
store = \"user:\"
";

const GUARD_KEY: &str = "[guard] edits = true";
const GUARD_BLOCK: &str = "
# tenure agent install: agents do not overwrite each other's edits
[guard]
edits = true
";
/// The commented part, which people may uncomment: the rest of the addition can then still be taken
/// out.
const COMMANDS_BLOCK: &str = "
# Commands that agents run only in a slot, and how many run at once:
# [guard.commands]
# \"cargo test\" = \"slot build:2\"
#
# [slot]
# build = 2
";

/// The text to add, and the obstacles.
#[derive(Debug, Default)]
pub struct Addition {
    /// The new text of the file, if it changes.
    pub text: Option<String>,
    /// The keys that the addition sets.
    pub added: Vec<String>,
    /// Another store that the file names.
    pub other_store: Option<String>,
    /// True if the file has a guard of its own that leaves edits alone.
    pub is_guard_kept: bool,
}

/// Adds the keys that are missing. `old` is the text of the file, if that exists.
pub fn add(old: Option<&str>, path: &Path) -> Result<Addition> {
    let old = old.unwrap_or_default();
    let Config { store, guard, .. } = Config::parse(old, path)?;
    let mut addition = Addition::default();
    let mut text = old.to_owned();
    match store {
        None => {
            // A key after a table would belong to the table, so it goes before everything.
            text.insert_str(0, STORE_BLOCK);
            addition.added.push(STORE_KEY.into());
        }
        Some(store) if store == "user:" => {}
        other => addition.other_store = other,
    }
    let guarded = format!("{text}{GUARD_BLOCK}{COMMANDS_BLOCK}");
    // A guard that is written in another form cannot be extended by text.
    match Config::parse(&guarded, path) {
        _ if guard.edits => {}
        Ok(_) => {
            text = guarded;
            addition.added.push(GUARD_KEY.into());
        }
        Err(_) => addition.is_guard_kept = true,
    }
    Config::parse(&text, path)?;
    addition.text = (!addition.added.is_empty()).then_some(text);
    Ok(addition)
}

/// Takes out the additions that were not changed since. Returns the text that is left, and the keys
/// that were removed.
pub fn take_out(old: &str) -> (String, Vec<String>) {
    let mut text = old.to_owned();
    let mut removed = Vec::new();
    for (block, key) in [
        (STORE_BLOCK, Some(STORE_KEY)),
        (GUARD_BLOCK, Some(GUARD_KEY)),
        (COMMANDS_BLOCK, None),
    ] {
        if let Some(at) = text.find(block) {
            text.replace_range(at..at + block.len(), "");
            removed.extend(key.map(str::to_owned));
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
    fn a_guard_of_the_file_is_completed_or_kept_and_told() {
        let path = Path::new("tenure.toml");
        let commands = "[guard.commands]\nmake = \"slot build:2\"\n";
        let text = add(Some(commands), path).unwrap().text.unwrap();
        assert!(Config::parse(&text, path).unwrap().guard.edits, "{text}");
        for own in [
            "guard.edits = false\n",
            "guard = { edits = false }\n",
            "[guard]\nedits_until = \"turn\"\n",
        ] {
            let addition = add(Some(own), path).unwrap();
            assert!(addition.is_guard_kept, "{own}");
            let text = addition.text.unwrap();
            assert!(!Config::parse(&text, path).unwrap().guard.edits, "{text}");
        }
        let own = "[guard]\nedits = true\n";
        assert!(!add(Some(own), path).unwrap().is_guard_kept);
    }

    #[test]
    fn the_guard_goes_also_after_the_sample_below_it_was_used() {
        let path = Path::new("tenure.toml");
        let text = add(None, path).unwrap().text.unwrap();
        let used = text.replace("# [guard.commands]\n# ", "[guard.commands]\n");
        assert_ne!(used, text);
        let (left, removed) = take_out(&used);
        assert_eq!(removed, [STORE_KEY, GUARD_KEY]);
        let left = Config::parse(&left, path).unwrap();
        assert!(!left.guard.edits && left.guard.commands.len() == 1);
    }

    #[test]
    fn another_store_is_kept_and_told() {
        let old = "store = 'sqlite:x.db'\n";
        let addition = add(Some(old), Path::new("tenure.toml")).unwrap();
        assert_eq!(addition.other_store.as_deref(), Some("sqlite:x.db"));
        let text = addition.text.unwrap();
        assert_eq!(text, format!("{old}{GUARD_BLOCK}{COMMANDS_BLOCK}"));
        assert_eq!(take_out(old), (old.to_owned(), vec![]));
    }
}
