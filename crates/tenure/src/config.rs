//! Settings from `tenure.toml` and the environment.
//!
//! ```toml
//! store = "sqlite:.tenure/locks.db"   # relative to the main worktree, else to this file
//! wait = "5m"                         # how long a lock is waited for
//! heartbeat = "10s"                   # how often a holder writes that it is alive
//! stale_grace = "5m"                  # how long after its heartbeat an expired lease is kept
//! order = ["project", "map"]          # kinds in the order they are taken
//! trust_flock = false                 # "I know that flock works on this file system"
//! automated = ["agent:*", "job:*"]    # owners that may never break a lock
//! automated_wait_max = "10m"          # they wait no longer than this
//! automated_ttl_max = "1h"            # and take no longer leases
//! commands = "name"                   # what others see of a holder's command; else "line"
//! policy = "maps"                     # operations that are compiled in (docs/operations.md)
//!
//! [slot]
//! build = 2                           # how many may run at once: callers need not choose it
//!
//! [pool]
//! deploy = 2                          # how many at once, counted in the store
//!
//! [guard]                             # what the hooks of coding agents enforce (docs/agents.md)
//! edits = true                        # one agent edits a file at a time
//! edits_until = "session"             # or "turn"
//!
//! [guard.commands]
//! "cargo test" = "slot build"         # run through this slot
//!
//! [agents]
//! gone_after = "1h"                   # an agent that was not seen for so long is called gone
//! hook_wait = "1s"                    # how long a hook waits before its event is put off
//! summary = ["summarise", "--short"]  # summarises turns; only after `tenure doctor --trust`
//! summary_max = "60s"                 # how long that may take
//!
//! [retry]
//! attempts = 3
//! initial_delay = "50ms"
//!
//! [operation."shop.price"]            # an operation of your own
//! about = "Change prices"
//! locks = ["shop:{shop}=write"]
//! ```
//!
//! Flags beat the environment, the environment beats `tenure.toml`, and that beats
//! the defaults. A key that is not known is refused, with its line: a misspelled
//! setting that is silently ignored protects nothing.

mod agents;
mod operation;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use tenure_core::internal::OrCannot;
use tenure_core::leases::{check_heartbeat, check_stale_grace};
use tenure_core::{Error, Ranking, Resource, Result, RetryPolicy, duration};

use crate::Automated;
use crate::store_choice::{Distrust, Environment, Ignored};
pub use agents::{AgentsConfig, EditsUntil, GuardConfig, WhenUnsure};
pub use operation::{CountRule, LockPattern, Operation};

/// The name of the file.
pub const FILE_NAME: &str = "tenure.toml";
/// A longer file is refused.
pub const FILE_BYTES_MAX: u64 = 64 * 1024;
/// More tries than this are refused.
pub const ATTEMPTS_MAX: u32 = 1000;
/// More operations than this are refused.
pub const OPERATIONS_MAX: usize = 500;
/// A longer first delay is refused.
pub const INITIAL_DELAY_MAX: Duration = Duration::from_secs(60);

/// A variable, and the name that the issue tracker `jit` has for it.
pub(crate) type Names = [&'static str; 2];

pub(crate) const LOCK_TIMEOUT: Names = ["TENURE_LOCK_TIMEOUT", "JIT_LOCK_TIMEOUT"];
pub(crate) const MAX_ATTEMPTS: Names = ["TENURE_RETRY_MAX_ATTEMPTS", "JIT_RETRY_MAX_ATTEMPTS"];
pub(crate) const INITIAL_DELAY: Names = [
    "TENURE_RETRY_INITIAL_DELAY_MS",
    "JIT_RETRY_INITIAL_DELAY_MS",
];

/// The content of a `tenure.toml`. One key names a command to be run, and counts only in a file
/// that a person trusts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The address of the store.
    pub store: Option<String>,
    /// The longest wait for a lock.
    #[serde(default, deserialize_with = "optional_duration")]
    pub wait: Option<Duration>,
    /// The interval of heartbeats of a holder.
    #[serde(default, deserialize_with = "optional_heartbeat")]
    pub heartbeat: Option<Duration>,
    /// The age that the heartbeat of an expired lease may reach before others may recover it.
    #[serde(default, deserialize_with = "optional_grace")]
    pub stale_grace: Option<Duration>,
    /// Kinds in the order they are taken.
    #[serde(default, deserialize_with = "optional_order")]
    pub order: Option<Vec<String>>,
    /// True to trust flock where the file system is not known to be safe.
    pub trust_flock: Option<bool>,
    /// The owners that are not people.
    #[serde(default, deserialize_with = "optional_automated")]
    pub automated: Option<Automated>,
    /// The longest wait of owners that are not people.
    #[serde(default, deserialize_with = "optional_duration")]
    pub automated_wait_max: Option<Duration>,
    /// The longest lease of owners that are not people.
    #[serde(default, deserialize_with = "optional_duration")]
    pub automated_ttl_max: Option<Duration>,
    /// The part of a holder's command that others see.
    pub commands: Option<Commands>,
    /// The name of the policy that is compiled in.
    pub policy: Option<String>,
    /// Operations besides those of the policy, by name.
    #[serde(default, deserialize_with = "operations")]
    pub operation: BTreeMap<String, Operation>,
    /// The number of places of slots, by name.
    #[serde(default, deserialize_with = "agents::slots")]
    pub slot: BTreeMap<String, u32>,
    /// The number of places of pools, by name.
    #[serde(default, deserialize_with = "agents::pools")]
    pub pool: BTreeMap<String, u32>,
    /// The rules that the hooks of coding agents enforce.
    #[serde(default)]
    pub guard: GuardConfig,
    /// The background work on coding agents.
    #[serde(default)]
    pub agents: AgentsConfig,
    /// The retries of passing faults.
    #[serde(default)]
    pub retry: Retry,
}

/// The part of a holder's command that others see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Commands {
    /// The whole line, but for the secrets that are known as such.
    #[default]
    Line,
    /// The name of the program alone.
    Name,
}

/// The retries of passing faults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Retry {
    /// Tries in all, the first included.
    #[serde(default, deserialize_with = "optional_attempts")]
    pub attempts: Option<u32>,
    /// The pause after the first failure.
    #[serde(default, deserialize_with = "optional_delay")]
    pub initial_delay: Option<Duration>,
}

/// The permission bit with which every user may change a file.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The outcome of a look for a `tenure.toml` in one directory.
#[derive(Debug)]
pub(crate) enum ConfigFile {
    /// There is no such file.
    Nothing,
    /// There is a file, but another user could change it.
    Ignored(Ignored),
    /// There is a file, and no other user could change it.
    Ours(PathBuf, Box<Config>),
}

const KNOWN: &str = "known keys are store, wait, heartbeat, stale_grace, order, trust_flock, automated, automated_wait_max, \
    automated_ttl_max, commands, policy, [operation.NAME] (see docs/operations.md), [slot], [pool], [guard] and \
    [agents] (see docs/agents.md), and attempts and initial_delay under [retry]";

const KNOWN_IN_OPERATION: &str = "an operation has about, why, locks, count, needs_approval and [[operation.NAME.above]] with more_than, why \
    and locks (see docs/operations.md)";

impl Config {
    /// Reads the text of a `tenure.toml`; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            let problem = error.message();
            let header = text[..at].lines().rfind(|line| line.starts_with('['));
            let header = header.unwrap_or_default().trim_start_matches('[');
            let remedy = match header.starts_with("operation.") || problem.starts_with("operation ")
            {
                true => KNOWN_IN_OPERATION,
                false => KNOWN,
            };
            Error::configuration(
                format!("{}, line {line}: {problem}", path.display()),
                remedy,
            )
        })?;
        config.with_places(path)
    }

    /// Lays the variables of the environment over these settings.
    pub fn with_environment(mut self, environment: &Environment) -> Result<Self> {
        if let Some((name, text)) = environment.either(LOCK_TIMEOUT)? {
            let allowed = "seconds, or a duration such as 500ms, 30s, 5m or 1h";
            let wait = duration::parse_or_seconds(text);
            self.wait = Some(wait.map_err(|_| bad(name, text, allowed))?);
        }
        if let Some(text) = environment.text("TENURE_HEARTBEAT")? {
            let heartbeat = duration::parse_or_seconds(text).ok();
            let heartbeat = heartbeat.filter(|every| check_heartbeat(*every, None).is_ok());
            let allowed = "seconds, or a duration such as 10s, at least 1s";
            let fail = || bad("TENURE_HEARTBEAT", text, allowed);
            self.heartbeat = Some(heartbeat.ok_or_else(fail)?);
        }
        if let Some((name, text)) = environment.either(MAX_ATTEMPTS)? {
            let attempts = text.parse().ok().filter(|n| (1..=ATTEMPTS_MAX).contains(n));
            let allowed = format!("a whole number from 1 to {ATTEMPTS_MAX}");
            let fail = || bad(name, text, &allowed);
            self.retry.attempts = Some(attempts.ok_or_else(fail)?);
        }
        if let Some((name, text)) = environment.either(INITIAL_DELAY)? {
            let delay = text.parse().ok().map(Duration::from_millis);
            let delay = delay.filter(|delay| *delay <= INITIAL_DELAY_MAX);
            let most = INITIAL_DELAY_MAX.as_millis();
            let allowed = format!("a whole number of milliseconds, at most {most}");
            let fail = || bad(name, text, &allowed);
            self.retry.initial_delay = Some(delay.ok_or_else(fail)?);
        }
        if let Some(text) = environment.text("TENURE_TRUST_FLOCK")? {
            self.trust_flock = Some(match text {
                "1" => true,
                "0" => false,
                _ => return Err(bad("TENURE_TRUST_FLOCK", text, "1 or 0")),
            });
        }
        Ok(self)
    }

    /// Returns the order of kinds: the one set here, else the default.
    pub fn ranking(&self) -> Ranking {
        self.order
            .clone()
            .map_or_else(Ranking::default, Ranking::new)
    }

    /// Returns the owners that are not people: those set here, else the default.
    pub fn automated(&self) -> Automated {
        let mut automated = self.automated.clone().unwrap_or_default();
        automated.wait_max = self.automated_wait_max.unwrap_or(automated.wait_max);
        automated.ttl_max = self.automated_ttl_max.unwrap_or(automated.ttl_max);
        automated
    }

    /// Reads operations alone, as the policies that are compiled in hold them; `path` is for
    /// messages.
    ///
    /// # Errors
    ///
    /// `Configuration`, with the line, for an operation that is not well formed.
    pub fn parse_operations(text: &str, path: &Path) -> Result<BTreeMap<String, Operation>> {
        Ok(Self::parse(text, path)?.operation)
    }

    /// Returns the retries: the values set here, else the defaults.
    pub fn retry_policy(&self) -> RetryPolicy {
        let default = RetryPolicy::default();
        RetryPolicy {
            attempts: self.retry.attempts.unwrap_or(default.attempts),
            first: self.retry.initial_delay.unwrap_or(default.first),
            ..default
        }
    }
}

/// Looks for a `tenure.toml` in one directory.
///
/// The owner is asked of the open file, so that it cannot be swapped after the check.
/// It is opened without blocking: a pipe of that name must not make every command hang.
pub(crate) fn look(directory: &Path, uid: u32) -> Result<ConfigFile> {
    let path = directory.join(FILE_NAME);
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(ConfigFile::Nothing),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let metadata = file.metadata().or_cannot("look at", &path)?;
    let distrust = match metadata.uid() {
        owner if owner != uid => Some(Distrust::OwnedBy(owner)),
        _ if metadata.mode() & WRITABLE_BY_ALL != 0 => Some(Distrust::WritableByAll),
        _ => None,
    };
    if let Some(distrust) = distrust {
        return Ok(ConfigFile::Ignored(Ignored { path, distrust }));
    }
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(Error::configuration(
            format!(
                "{} is no file of at most {FILE_BYTES_MAX} bytes",
                path.display()
            ),
            "replace it, or move it away",
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .or_cannot("read", &path)?;
    let config = Config::parse(&text, &path)?;
    Ok(ConfigFile::Ours(path, Box::new(config)))
}

/// Returns true if there is no file, or its directory may not be looked into: such a directory
/// holds nothing of ours.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

fn bad(variable: &str, value: &str, allowed: &str) -> Error {
    Error::configuration(
        format!("bad {variable} {value:?}"),
        format!("{variable} is {allowed}"),
    )
}

fn optional_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map(Some).map_err(de::Error::custom)
}

fn optional_heartbeat<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let is_good = |every: &Duration| check_heartbeat(*every, None).is_ok();
    within(
        optional_duration(from)?,
        is_good,
        "heartbeat is at least 1s",
    )
}

fn optional_grace<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let is_good = |grace: &Duration| check_stale_grace(*grace).is_ok();
    within(
        optional_duration(from)?,
        is_good,
        "stale_grace is from 1s to 24h",
    )
}

/// Reads the order of kinds. A kind that cannot be, or that stands there twice, is a misspelling of
/// another one, which would then be taken in the wrong order.
fn optional_order<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let order = Vec::<String>::deserialize(from)?;
    for (index, kind) in order.iter().enumerate() {
        if Resource::new(kind, "x").is_err() {
            return Err(de::Error::custom(format!("order: {kind:?} is no kind")));
        }
        if order[..index].contains(kind) {
            return Err(de::Error::custom(format!("order: {kind:?} stands twice")));
        }
    }
    Ok(Some(order))
}

fn optional_automated<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Automated>, D::Error> {
    let patterns = Vec::<String>::deserialize(from)?;
    let automated = Automated::new(patterns);
    automated.map(Some).map_err(de::Error::custom)
}

/// Reads operations, whose names are like `map.calibrate`.
fn operations<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Operation>, D::Error> {
    let operations = BTreeMap::<String, Operation>::deserialize(from)?;
    if operations.len() > OPERATIONS_MAX {
        let problem = format!("more than {OPERATIONS_MAX} operations");
        return Err(de::Error::custom(problem));
    }
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    for (name, operation) in &operations {
        let named = (1..=64).contains(&name.len()) && name.bytes().all(allowed);
        let flaw = if named {
            operation.flaw()
        } else {
            Some("a name is 1 to 64 of a-z, 0-9, - and .".into())
        };
        if let Some(flaw) = flaw {
            let problem = format!("operation {name:?}: {flaw}");
            return Err(de::Error::custom(problem));
        }
    }
    Ok(operations)
}

fn optional_delay<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let is_good = |delay: &Duration| *delay <= INITIAL_DELAY_MAX;
    within(
        optional_duration(from)?,
        is_good,
        "initial_delay is at most 60s",
    )
}

fn optional_attempts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let attempts = u32::deserialize(from)?;
    let is_good = |attempts: &u32| (1..=ATTEMPTS_MAX).contains(attempts);
    within(
        Some(attempts),
        is_good,
        format!("attempts is 1 to {ATTEMPTS_MAX}"),
    )
}

/// Returns a value, or the problem if it is out of its bounds.
pub(super) fn within<T, E: de::Error>(
    value: Option<T>,
    is_good: impl Fn(&T) -> bool,
    problem: impl fmt::Display,
) -> Result<Option<T>, E> {
    if value.as_ref().is_none_or(is_good) {
        Ok(value)
    } else {
        Err(E::custom(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, Path::new("tenure.toml"))
    }

    fn problem(text: &str) -> String {
        let error = parse(text).unwrap_err();
        assert_eq!(error.class(), tenure_core::Class::Configuration);
        error.to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = "store = 'file:x'\nwait = '5m'\nheartbeat = '4s'\nstale_grace = '5m'\norder = ['b', 'a']\ntrust_flock = true\n\
                    automated = ['ci:*']\ncommands = 'name'\n[retry]\nattempts = 7\ninitial_delay = '20ms'\n";
        let config = parse(text).unwrap();
        assert_eq!(config.store.as_deref(), Some("file:x"));
        assert_eq!(config.wait, Some(Duration::from_secs(300)));
        assert_eq!(config.heartbeat, Some(Duration::from_secs(4)));
        assert_eq!(config.stale_grace, Some(Duration::from_secs(300)));
        assert_eq!(config.trust_flock, Some(true));
        assert_eq!(config.commands, Some(Commands::Name));
        let automated = Automated::new(["ci:*".into()]).unwrap();
        assert_eq!(config.automated(), automated);
        assert_eq!(config.ranking(), Ranking::new(["b".into(), "a".into()]));
        assert_eq!(config.retry_policy().attempts, 7);
        assert_eq!(config.retry_policy().first, Duration::from_millis(20));
    }

    #[test]
    fn nothing_set_means_the_defaults() {
        let config = parse("").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.ranking(), Ranking::default());
        assert_eq!(config.retry_policy(), RetryPolicy::default());
        assert_eq!(config.automated(), Automated::default());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let problem = problem("wait = '5m'\n\nstroe = 'file:x'\n");
        assert!(
            problem.contains("line 3") && problem.contains("stroe"),
            "{problem}"
        );
    }

    #[test]
    fn bad_values_are_refused_with_their_line() {
        for text in [
            "wait = 5\n",
            "wait = '5'\n",
            "heartbeat = '500ms'\n",
            "stale_grace = '0s'\n",
            "stale_grace = '25h'\n",
            "trust_flock = 'yes'\n",
            "[retry]\nattempts = 0\n",
            "[retry]\ninitial_delay = '2m'\n",
            "[retry]\nlongest = '2s'\n",
            "order = ['map', 'Map']\n",
            "order = ['']\n",
            "order = ['map:']\n",
            "order = ['map', 'name', 'map']\n",
            "automated = 'agent:*'\n",
            "automated = ['']\n",
            "automated = [' agent:*']\n",
            "commands = 'none'\n",
            "automated_wait_max = 7\n",
            "[operation.a]\nabout = 'x'\nlocks = []\n",
            "[operation.a]\nabout = 'x'\nlocks = ['map']\n",
            "[operation.'A b']\nabout = 'x'\nlocks = ['map:x']\n",
            "[operation.a]\nabout = 'x'\nlocks = ['map:x']\ncount = 'n'\n",
            "[operation.a]\nabout = 'x'\nlocks = ['map:x']\ncommand = 'make'\n",
            "run = 'make'\n",
            "= =\n",
        ] {
            let problem = problem(text);
            assert!(
                problem.contains("tenure.toml, line "),
                "{text:?}: {problem}"
            );
        }
    }

    #[test]
    fn a_kind_that_cannot_be_ordered_is_named() {
        assert!(problem("order = ['a', 'B b']\n").contains("\"B b\" is no kind"));
        assert!(problem("order = ['a', 'b', 'a']\n").contains("\"a\" stands twice"));
    }

    #[test]
    fn the_environment_beats_the_file() {
        let environment = Environment::new("/", 0)
            .with("TENURE_LOCK_TIMEOUT", "7")
            .with("TENURE_HEARTBEAT", "3")
            .with("TENURE_RETRY_MAX_ATTEMPTS", "9")
            .with("TENURE_RETRY_INITIAL_DELAY_MS", "12")
            .with("TENURE_TRUST_FLOCK", "0");
        let text = "wait = '5m'\ntrust_flock = true\nretry.attempts = 2";
        let config = parse(text).unwrap().with_environment(&environment).unwrap();
        assert_eq!(config.wait, Some(Duration::from_secs(7)));
        assert_eq!(config.heartbeat, Some(Duration::from_secs(3)));
        assert_eq!(config.retry.attempts, Some(9));
        assert_eq!(config.retry.initial_delay, Some(Duration::from_millis(12)));
        assert_eq!(config.trust_flock, Some(false));
    }

    #[test]
    fn the_names_of_jit_count_for_a_board_where_ours_are_not_set() {
        let environment = Environment::new("/", 0)
            .with("JIT_LOCK_TIMEOUT", "7")
            .with("JIT_RETRY_MAX_ATTEMPTS", "9")
            .with("TENURE_RETRY_MAX_ATTEMPTS", "4");
        let read = |environment: &Environment| Config::default().with_environment(environment);
        assert_eq!(read(&environment).unwrap().wait, None);
        let config = read(&environment.clone().for_board()).unwrap();
        assert_eq!(config.wait, Some(Duration::from_secs(7)));
        assert_eq!(config.retry.attempts, Some(4));
        let bad = environment.with("JIT_LOCK_TIMEOUT", "soon").for_board();
        assert!(
            read(&bad)
                .unwrap_err()
                .to_string()
                .contains("JIT_LOCK_TIMEOUT")
        );
    }

    #[test]
    fn a_bad_variable_is_named_with_what_is_allowed() {
        for (name, value) in [
            ("TENURE_LOCK_TIMEOUT", "soon"),
            ("TENURE_HEARTBEAT", "0.5"),
            ("TENURE_HEARTBEAT", "500ms"),
            ("TENURE_RETRY_MAX_ATTEMPTS", "0"),
            ("TENURE_RETRY_INITIAL_DELAY_MS", "1s"),
            ("TENURE_TRUST_FLOCK", "yes"),
        ] {
            let environment = Environment::new("/", 0).with(name, value);
            let error = Config::default()
                .with_environment(&environment)
                .unwrap_err();
            assert_eq!(error.class(), tenure_core::Class::Configuration);
            assert!(error.to_string().contains(name) && error.remedy().to_string().contains(name));
        }
    }

    #[test]
    fn an_error_in_an_operation_tells_what_an_operation_has() {
        for text in [
            "[operation.a]\nlocks = ['map:x']\ncommand = 'make'\n",
            "[operation.a]\nlocks = []\n",
        ] {
            let error = Config::parse(text, Path::new("tenure.toml")).unwrap_err();
            assert!(
                error
                    .remedy()
                    .to_string()
                    .starts_with("an operation has about"),
                "{error}"
            );
        }
        let error = Config::parse("[retry]\nx = 1\n", Path::new("tenure.toml")).unwrap_err();
        assert!(
            error
                .remedy()
                .to_string()
                .starts_with("known keys are store"),
            "{error}"
        );
    }
}
