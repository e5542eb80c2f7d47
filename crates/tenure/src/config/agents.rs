//! `[slot]`, `[guard]` and `[agents]`: the rules for coding agents, and the background work on
//! them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use tenure_core::{Error, Resource};

use super::{Config, optional_duration};

/// The largest number of places of a slot: more would be no limit at all.
const CAPACITY_MAX: u32 = 1000;
/// A longer wait of a hook is refused.
const HOOK_WAIT_MAX: Duration = Duration::from_secs(60);
/// More rules than this are refused.
const RULES_MAX: usize = 100;

/// `[guard]`: the rules that the hooks of coding agents enforce. All of them are off by default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GuardConfig {
    /// True if one agent edits a file at a time.
    #[serde(default)]
    pub edits: bool,
    /// The event at which files are released.
    #[serde(default)]
    pub edits_until: EditsUntil,
    /// The decision about a tool where a guard has none.
    #[serde(default)]
    pub when_unsure: WhenUnsure,
    /// Heavy commands, and the slot that each goes through, with its places: `NAME:N`.
    #[serde(default, deserialize_with = "commands")]
    pub commands: BTreeMap<String, String>,
    /// Tools that Tenure does not know, and their effect: `edits FIELD`, with the field that names
    /// the file, or `reads`.
    #[serde(default, deserialize_with = "tools")]
    pub tools: BTreeMap<String, String>,
}

/// The latest event at which the files of an agent are released.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EditsUntil {
    /// The end of its session.
    #[default]
    Session,
    /// The end of its answer.
    Turn,
}

/// The decision about a tool where a guard has none: the store is away, its time is over, or the
/// event cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenUnsure {
    /// The tool goes on.
    #[default]
    Allow,
    /// The tool is refused.
    Deny,
}

/// `[agents]`: the background work on coding agents.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentsConfig {
    /// The time after which an agent that was not seen is called gone.
    #[serde(default, deserialize_with = "optional_duration")]
    pub gone_after: Option<Duration>,
    /// The time that a hook waits for its store and for the lock of its agent.
    #[serde(default, deserialize_with = "hook_wait")]
    pub hook_wait: Option<Duration>,
    /// The command that summarises a turn: the text on its standard input, the summary on its
    /// standard output.
    #[serde(default)]
    pub summary: Option<Vec<String>>,
    /// The time limit of that command.
    #[serde(default, deserialize_with = "optional_duration")]
    pub summary_max: Option<Duration>,
}

/// Reads a wait that the programs of agents allow.
fn hook_wait<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    match optional_duration(from)? {
        Some(wait) if wait > HOOK_WAIT_MAX => Err(de::Error::custom(
            "a hook waits for at most 60s: its agent waits for it",
        )),
        wait => Ok(wait),
    }
}

pub(super) fn slots<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u32>, D::Error> {
    places("slot", from)
}

pub(super) fn pools<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u32>, D::Error> {
    places("pool", from)
}

/// Reads the numbers of places, each from 1 to the most.
fn places<'de, D>(kind: &str, deserializer: D) -> Result<BTreeMap<String, u32>, D::Error>
where
    D: Deserializer<'de>,
{
    let slots = BTreeMap::<String, u32>::deserialize(deserializer)?;
    for (name, places) in &slots {
        if !(1..=CAPACITY_MAX).contains(places) || Resource::new(kind, name).is_err() {
            return Err(de::Error::custom(format!(
                "{kind} {name:?} has {places} places; a {kind} has a name, and 1 to {CAPACITY_MAX} places"
            )));
        }
    }
    Ok(slots)
}

/// Reads the rules for heavy commands, and keeps the slot of each.
fn commands<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let rules = BTreeMap::<String, String>::deserialize(deserializer)?;
    if rules.len() > RULES_MAX {
        let problem = format!("more than {RULES_MAX} commands are guarded");
        return Err(de::Error::custom(problem));
    }
    let rule = |(command, rule): (String, String)| {
        let slot = rule.strip_prefix("slot ").map(str::trim);
        match slot.filter(|slot| !slot.is_empty() && !command.trim().is_empty()) {
            Some(slot) => Ok((command, slot.to_owned())),
            None => Err(de::Error::custom(format!(
                "{command:?} = {rule:?}: a rule is \"slot NAME\" or \"slot NAME:N\""
            ))),
        }
    };
    rules.into_iter().map(rule).collect()
}

/// Reads the effects of tools.
fn tools<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let tools = BTreeMap::<String, String>::deserialize(deserializer)?;
    if tools.len() > RULES_MAX {
        let problem = format!("more than {RULES_MAX} tools are set");
        return Err(de::Error::custom(problem));
    }
    for (tool, does) in &tools {
        let field = does.strip_prefix("edits ").map(str::trim);
        if does != "reads" && field.is_none_or(str::is_empty) {
            return Err(de::Error::custom(format!(
                "{tool:?} = {does:?}: a tool \"edits FIELD\", which names its file, or \"reads\""
            )));
        }
    }
    Ok(tools)
}

impl Config {
    /// Completes the slots of heavy commands by their places: those under `[slot]`, else those in
    /// the rule.
    pub(super) fn with_places(mut self, path: &Path) -> tenure_core::Result<Self> {
        for (command, slot) in &mut self.guard.commands {
            let (name, said) = match slot.split_once(':') {
                Some((name, places)) => (name, places.parse().ok()),
                None => (slot.as_str(), None),
            };
            let places = self.slot.get(name).copied().or(said);
            let places = places.filter(|places| (1..=CAPACITY_MAX).contains(places));
            let Some(places) = places.filter(|_| Resource::new("slot", name).is_ok()) else {
                return Err(Error::configuration(
                    format!(
                        "{}: {command:?} goes through slot {slot}, and nothing says how many places it has",
                        path.display()
                    ),
                    format!(
                        "write [slot] {name} = 2, or \"slot {name}:2\"; a slot has 1 to {CAPACITY_MAX} places"
                    ),
                ));
            };
            *slot = format!("{name}:{places}");
        }
        Ok(self)
    }
}
