//! Owners that are no people, and may never break a lock.

use tenure_core::{Error, Owner, Result};

/// The default patterns.
pub const AUTOMATED_DEFAULT: [&str; 2] = ["agent:*", "job:*"];
/// More patterns than this are refused.
pub const PATTERNS_MAX: usize = 100;
/// A longer pattern is refused, in bytes: no owner is longer.
pub const PATTERN_BYTES_MAX: usize = tenure_core::owner::OWNER_BYTES_MAX;

/// Patterns of owners that are no people. A `*` stands for any text, also none; everything else
/// for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automated {
    patterns: Vec<String>,
}

impl Default for Automated {
    fn default() -> Self {
        let patterns = AUTOMATED_DEFAULT.map(str::to_owned).to_vec();
        Self { patterns }
    }
}

impl Automated {
    /// Takes patterns in place of the default ones.
    ///
    /// # Errors
    ///
    /// `Configuration` for a pattern that no owner could match: it would protect nothing, against the
    /// intention of its author.
    pub fn new(patterns: impl IntoIterator<Item = String>) -> Result<Self> {
        let patterns: Vec<String> = patterns.into_iter().collect();
        if patterns.len() > PATTERNS_MAX {
            return Err(bad(format!("more than {PATTERNS_MAX} patterns")));
        }
        for pattern in &patterns {
            // A pattern must match some owner.
            let owner = pattern.replace('*', "x");
            if pattern.len() > PATTERN_BYTES_MAX || Owner::parse(&owner).is_err() {
                let shown: String = pattern.chars().take(80).collect();
                return Err(bad(format!("{shown:?} matches no owner")));
            }
        }
        Ok(Self { patterns })
    }

    /// Returns true if an owner is one of them.
    pub fn covers(&self, owner: &Owner) -> bool {
        let matches = |pattern: &String| matches(pattern, owner.as_str());
        self.patterns.iter().any(matches)
    }
}

fn bad(problem: String) -> Error {
    Error::configuration(
        format!("automated: {problem}"),
        "automated is a list of owners, such as [\"agent:*\", \"job:*\"]",
    )
}

/// Matches the fixed parts between the stars one after the other, each as early as it can be,
/// and the last at the end: linear in steps, whatever the pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> Owner {
        Owner::parse(text).unwrap()
    }

    fn patterns(patterns: &[&str]) -> Result<Automated> {
        Automated::new(patterns.iter().map(|pattern| (*pattern).to_owned()))
    }

    #[test]
    fn agents_and_jobs_are_automated_by_default() {
        let automated = Automated::default();
        for text in ["agent:42", "job:7", "agent:"] {
            assert!(automated.covers(&owner(text)), "{text}");
        }
        for text in ["ana@desk", "agent", "my agent:42", "jobs:7"] {
            assert!(!automated.covers(&owner(text)), "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text_and_the_rest_for_itself() {
        for (pattern, text, expected) in [
            ("*", "anyone", true),
            ("ci", "ci", true),
            ("ci", "ci2", false),
            ("*@ci", "bot@ci", true),
            ("*@ci", "bot@ci.org", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
            ("a**c", "ac", true),
            ("ab*ba", "aba", false),
            ("*é*", "café au lait", true),
            ("a.c", "abc", false),
        ] {
            let automated = patterns(&[pattern]).unwrap();
            assert_eq!(automated.covers(&owner(text)), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn an_empty_list_covers_nobody() {
        assert!(!patterns(&[]).unwrap().covers(&owner("agent:42")));
    }

    #[test]
    fn a_pattern_no_owner_can_match_is_refused() {
        for pattern in ["", " agent:*", "a\nb", &"x".repeat(201)] {
            let error = patterns(&[pattern]).unwrap_err();
            assert_eq!(error.class(), tenure_core::Class::Configuration);
        }
        assert!(patterns(&["*"; PATTERNS_MAX + 1]).is_err());
    }
}
