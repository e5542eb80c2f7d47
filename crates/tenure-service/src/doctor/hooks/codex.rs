//! The hooks that Codex skips.
//!
//! Codex reads `.codex` only in directories that it was told to trust, and runs a hook there only
//! if a person trusted it: `config.toml` in its home has, under
//! `[hooks.state."FILE:EVENT:GROUP:HOOK"]`, the hash of the hook as it was then. A hook that is not
//! trusted is skipped; `codex exec` does so silently.
//!
//! # Limitations
//!
//! The hash is of the hook as Codex normalises it. With a version of Codex that normalises in
//! another way, an unchanged hook is reported as changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenure_core::store::Found;
use tenure_files::document::Version;

use tenure_api::agents::Program;

use super::{Hook, Settings, installed};

/// The longest time that Codex gives the hook for the end of a session, in seconds, whatever is
/// set.
const SESSION_END_MAX_S: u64 = 3;

impl Settings<'_> {
    /// Reports hooks that Codex does not run. For a user without Codex it reports nothing.
    pub(super) fn skipped_by_codex(&self, text: &str) -> Option<Found> {
        let (here, main) = (self.here, self.main);
        let home = self.home("CODEX_HOME", ".codex")?;
        if !home.is_dir() {
            return None;
        }
        let file = home.join("config.toml");
        let shown = file.display();
        let config = fs::read_to_string(&file).unwrap_or_default();
        let config: toml::Table = match config.parse() {
            Ok(config) => config,
            Err(error) => {
                return Some(Found::bad(
                    format!("codex: {shown}: {error}"),
                    format!("mend {shown}"),
                ));
            }
        };
        let features = config.get("features");
        let is_off = |name: &&str| features.and_then(|it| it.get(name)?.as_bool()) == Some(false);
        if let Some(feature) = ["hooks", "codex_hooks"].iter().find(|it| is_off(it)) {
            return Some(Found::bad(
                format!("codex: {shown} has features.{feature} = false, so its hooks do not run"),
                format!("take it out of {shown}"),
            ));
        }
        if !is_project_trusted(&config, here, main) {
            return Some(Found::bad(
                format!(
                    "codex: {shown} does not trust this directory, so nothing in .codex counts"
                ),
                format!("start codex in {} and trust it", here.display()),
            ));
        }
        let settings: Value = serde_json::from_str(text).ok()?;
        let hooks = installed(Program::Codex, &settings);
        let skipped = |wanted: Trust| {
            let of_it = |hook: &&Hook| trust(&config, &self.path, hook) == wanted;
            let events: Vec<&str> = hooks.iter().filter(of_it).map(|hook| hook.event).collect();
            (!events.is_empty()).then(|| events.join(", "))
        };
        let problem = skipped(Trust::None)
            .map(|events| format!("were never trusted: {events}"))
            .or_else(|| skipped(Trust::Off).map(|events| format!("are turned off: {events}")))
            .or_else(|| {
                skipped(Trust::Other)
                    .map(|events| format!("are not as they were trusted: {events}"))
            })?;
        Some(Found::bad(
            format!("codex: it skips hooks that {problem}"),
            "start codex here, and trust them with /hooks",
        ))
    }
}

fn is_project_trusted(config: &toml::Table, here: &Path, main: Option<&Path>) -> bool {
    let projects = config.get("projects").and_then(toml::Value::as_table);
    let is_ours = |path: &str| {
        let path = real(Path::new(path));
        path == real(here) || main.is_some_and(|main| path == real(main))
    };
    let mut ours = projects
        .into_iter()
        .flatten()
        .filter(|(path, _)| is_ours(path));
    ours.any(|(_, project)| {
        project.get("trust_level").and_then(toml::Value::as_str) == Some("trusted")
    })
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The trust of Codex in a hook.
#[derive(Debug, PartialEq, Eq)]
enum Trust {
    /// The hook is trusted as it is.
    As,
    /// The hook was trusted in another form.
    Other,
    /// The hook is turned off.
    Off,
    /// Codex was told nothing about the hook.
    None,
}

fn trust(config: &toml::Table, path: &Path, hook: &Hook) -> Trust {
    let states = config
        .get("hooks")
        .and_then(|hooks| hooks.get("state")?.as_table());
    let (group, index) = hook.place;
    let place = format!(":{}:{group}:{index}", label(hook.event));
    let is_its = |key: &str| {
        let file = key.strip_suffix(&place);
        file.is_some_and(|file| real(Path::new(file)) == real(path))
    };
    let mut states = states.into_iter().flatten();
    let Some((_, state)) = states.find(|(key, _)| is_its(key)) else {
        return Trust::None;
    };
    let trusted = state.get("trusted_hash").and_then(toml::Value::as_str);
    match trusted {
        _ if state.get("enabled").and_then(toml::Value::as_bool) == Some(false) => Trust::Off,
        None => Trust::None,
        Some(trusted) if hashes(hook).iter().any(|hash| hash == trusted) => Trust::As,
        Some(_) => Trust::Other,
    }
}

/// Returns the name of an event in keys and hashes, such as `pre_tool_use`.
fn label(event: &str) -> String {
    let mut label = String::new();
    for (index, letter) in event.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

/// Returns the hashes that a hook may have: with its own time, or with the longest that its event
/// gets.
fn hashes(hook: &Hook) -> Vec<String> {
    let label = label(hook.event);
    let own = hook.timeout.unwrap_or(600).max(1);
    let mut times = vec![own];
    if label == "session_end" {
        times.push(own.min(SESSION_END_MAX_S));
    }
    let matcher = hook
        .matcher
        .as_ref()
        .filter(|_| !matches!(&*label, "user_prompt_submit" | "stop"));
    let hash = |time: u64| {
        // The keys are in alphabetical order, as Codex hashes them.
        let handler =
            json!({"async": false, "command": hook.command, "timeout": time, "type": "command"});
        let mut identity = json!({"event_name": label, "hooks": [handler]});
        if let Some(matcher) = matcher {
            identity["matcher"] = matcher.as_str().into();
        }
        format!("sha256:{}", Version::of(identity.to_string().as_bytes()))
    };
    times.into_iter().map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(event: &'static str, timeout: u64) -> Hook {
        Hook {
            event,
            place: (0, 0),
            command: "tenure agent hook --program codex".into(),
            timeout: Some(timeout),
            matcher: None,
        }
    }

    #[test]
    fn the_hash_is_of_the_sorted_keys_of_what_counts() {
        assert_eq!(label("UserPromptSubmit"), "user_prompt_submit");
        // Computed with sha256sum, of
        // {"event_name":"stop","hooks":[{"async":false,"command":…,"timeout":10,"type":"command"}]}.
        let wanted = "sha256:5d82e9d5791a1d45fe4da44ba41b56140ba053b18265363870048f46e20d0566";
        assert_eq!(hashes(&hook("Stop", 10)), [wanted]);
        assert_eq!(hashes(&hook("SessionEnd", 10)).len(), 2);
    }
}
