//! What an error is about.

use std::fmt;

use crate::{Mode, Resource};

/// What an error is about: what was asked for, how, and where it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What was asked for.
    pub resource: Resource,
    /// How.
    pub mode: Mode,
    /// The address of the store.
    pub store: String,
    /// Path, table or key in it.
    pub location: String,
}

impl Place {
    /// The command that shows who has the lock file open, for a lock whose holder only knows
    /// flock and left no record. None where locks are no files.
    pub fn without_record(&self) -> Option<String> {
        self.store
            .starts_with("file:")
            .then(|| format!("fuser {}", for_shell(&self.location)))
    }

    /// Whether it is a lock that programs of Node take, which says nothing about its holder.
    pub(super) fn is_nodes(&self) -> bool {
        self.store == "node:"
    }
}

/// Quotes a path so that it can be pasted into a shell.
fn for_shell(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    match !path.is_empty() && path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}", self.resource, self.mode, self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(for_shell("/s/name:x%2F.lock"), "/s/name:x%2F.lock");
        assert_eq!(for_shell("/my locks/it's"), "'/my locks/it'\\''s'");
    }
}
