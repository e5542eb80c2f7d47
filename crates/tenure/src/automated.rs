//! Owners that are not people, and their limits: they may not break a lock, wait for very long, or
//! take a lease for very long.
//!
//! If a wait outlasts the shell of an agent, its lock is taken for no use, and a long lease of an
//! agent that died is a morning lost. People set the limits, and only people go beyond them.

use std::time::Duration;

use tenure_core::{Error, Owner, Result, duration};

/// The default patterns.
pub const AUTOMATED_DEFAULT: [&str; 2] = ["agent:*", "job:*"];
/// The longest lease of an automated owner, unless it is set.
pub const TTL_MAX_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// The longest wait of an automated owner, unless it is set.
pub const WAIT_MAX_DEFAULT: Duration = Duration::from_secs(10 * 60);
/// The default time that the command of an automated owner waits for locks: the shells of agents
/// end commands after two minutes.
pub const AUTOMATED_WAIT_DEFAULT: Duration = Duration::from_secs(90);
/// More patterns than this are refused.
pub const PATTERNS_MAX: usize = 100;
/// A longer pattern is refused, in bytes: no owner is longer.
pub const PATTERN_BYTES_MAX: usize = tenure_core::owner::OWNER_BYTES_MAX;

/// Patterns of owners that are not people. A `*` stands for any text, also none; everything else
/// for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automated {
    patterns: Vec<String>,
    /// The coding agent that this process runs under, if any. Then no person asks, whatever owner
    /// is named.
    agent: Option<Owner>,
    /// The longest lease they may take.
    pub ttl_max: Duration,
    /// The longest wait they may ask for.
    pub wait_max: Duration,
}

impl Default for Automated {
    fn default() -> Self {
        Self::of(AUTOMATED_DEFAULT.map(str::to_owned).to_vec())
    }
}

impl Automated {
    /// Takes patterns in place of the default ones.
    ///
    /// # Errors
    ///
    /// `Configuration` for a pattern that no owner could match: it would protect nothing, against
    /// the intention of its author.
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
        Ok(Self::of(patterns))
    }

    fn of(patterns: Vec<String>) -> Self {
        Self {
            patterns,
            agent: None,
            ttl_max: TTL_MAX_DEFAULT,
            wait_max: WAIT_MAX_DEFAULT,
        }
    }

    /// Refuses a lease that is too long for this owner.
    ///
    /// # Errors
    ///
    /// `NotAllowed` for an automated owner above the limit.
    pub fn check_ttl(&self, owner: &Owner, ttl: Duration) -> Result<()> {
        self.check(
            owner,
            "take a lease of",
            ttl,
            self.ttl_max,
            "automated_ttl_max",
        )
    }

    /// Refuses a wait that is too long for this owner.
    ///
    /// # Errors
    ///
    /// `NotAllowed` for an automated owner above the limit.
    pub fn check_wait(&self, owner: &Owner, wait: Duration) -> Result<()> {
        self.check(owner, "wait for", wait, self.wait_max, "automated_wait_max")
    }

    fn check(
        &self,
        owner: &Owner,
        what: &str,
        asked: Duration,
        most: Duration,
        key: &str,
    ) -> Result<()> {
        if asked <= most || !self.covers(owner) {
            return Ok(());
        }
        // If both look alike, the seconds tell them apart.
        let shown = |value| match duration::show(asked) == duration::show(most) {
            true => format!("{}s", Duration::as_secs(&value)),
            false => duration::show(value),
        };
        let (asked, most) = (shown(asked), shown(most));
        Err(Error::not_allowed(
            format!(
                "{owner} may not {what} {asked}: {}, and {most} is the most",
                self.reason(owner)
            ),
            format!("ask for {most} or less, or let a person set {key} in tenure.toml"),
        ))
    }

    /// Sets the coding agent that this process runs under. Every owner is automated then.
    pub fn under_agent(mut self, agent: Option<Owner>) -> Self {
        self.agent = agent;
        self
    }

    /// Returns the coding agent that this process runs under.
    pub fn agent(&self) -> Option<&Owner> {
        self.agent.as_ref()
    }

    /// Returns the asker for the audit: the coding agent, whatever owner is named, else the owner.
    pub fn actor<'a>(&'a self, owner: &'a Owner) -> &'a Owner {
        self.agent.as_ref().unwrap_or(owner)
    }

    /// Returns true if this owner is automated.
    pub fn covers(&self, owner: &Owner) -> bool {
        let matches = |pattern: &String| matches(pattern, owner.as_str());
        self.agent.is_some() || self.patterns.iter().any(matches)
    }

    /// Returns the reason why an automated owner is one, as the end of a sentence.
    pub fn reason(&self, owner: &Owner) -> String {
        match &self.agent {
            Some(agent) if agent != owner => format!("it runs under the coding agent {agent}"),
            _ => "it is automated".into(),
        }
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
    fn only_people_wait_and_lease_beyond_the_limits() {
        let automated = Automated::default();
        let (agent, person) = (owner("agent:42"), owner("ana@desk"));
        let (hour, minutes) = (Duration::from_secs(3600), Duration::from_secs(600));
        let second = Duration::from_secs(1);
        automated.check_ttl(&agent, hour).unwrap();
        automated.check_wait(&agent, minutes).unwrap();
        for refused in [
            automated.check_ttl(&agent, hour + second),
            automated.check_wait(&agent, minutes + second),
        ] {
            assert_eq!(refused.unwrap_err().class(), tenure_core::Class::NotAllowed);
        }
        let said = automated.check_ttl(&agent, hour + second).unwrap_err();
        assert!(said.to_string().contains("a lease of 3601s"), "{said}");
        automated.check_ttl(&person, hour * 24).unwrap();
        automated.check_wait(&person, hour).unwrap();
    }

    #[test]
    fn under_a_coding_agent_nobody_is_a_person() {
        let automated = Automated::default().under_agent(Some(owner("agent:claude-1")));
        assert!(automated.covers(&owner("ana@desk")));
        let said = automated.reason(&owner("ana@desk"));
        assert_eq!(said, "it runs under the coding agent agent:claude-1");
        assert_eq!(
            automated.reason(&owner("agent:claude-1")),
            "it is automated"
        );
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
