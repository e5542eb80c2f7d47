//! The check whether the hooks of coding agents really run.
//!
//! For each program whose settings have hooks of ours it checks, in this order, and reports the
//! first failure:
//!
//! 1. its settings in this worktree are those that it reads, and no hook is missing there,
//! 2. it does not skip them: they are not turned off, and it trusts them (`codex`),
//! 3. `tenure` is found with the PATH that it has: that of a process of it, if one runs in this
//!    worktree, else ours,
//! 4. the installed command, run as the program runs it, brings an event into this store: the end
//!    of a session that never was, whose record is removed again.
//!
//! A repository brings its settings along, so a command in them may come from a stranger: it is run
//! only if it is, to the letter, the one that install adds.
//!
//! # Limitations
//!
//! - An event that comes into another store stays there, as one of an agent that is done.
//! - Settings of the user and of an administrator that turn hooks off are known for Claude Code
//!   (`disableAllHooks`, of the user) and Codex alone.
//! - The limits that a sandbox or container of a program sets to its hooks are not seen here.
//! - The event of a hook that found its store busy comes into it later. Its agent is then shown in
//!   the list of all agents.

mod codex;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::records::{Changes, RecordChange, Seen};
use tenure::store::Examined;
use tenure::store_choice::{self, Why};
use tenure::{Error, Keeper, Remedy, Result, clock};
use tenure_api::agents::Program;
use tenure_core::store::Found;
use tenure_run::{CallLimits, call};
use tenure_work::agents::identity;
use tenure_work::agents::install::{COMMAND, ProgramSettings, hooks};
use tenure_work::agents::state::agent_key;
use tenure_work::publish::new_id;

use super::counted;
use crate::{Caller, Service};

/// The variables that count here, beside `HOME`.
pub const VARIABLES: [&str; 3] = ["PATH", "CLAUDE_CONFIG_DIR", "CODEX_HOME"];
const NAME: &str = "hooks";
/// The longest time that the hook of a program may take here.
const HOOK_MAX: Duration = Duration::from_secs(20);

/// Checks every program that has hooks here, and reports programs that are used without hooks.
pub async fn all(service: &Service, caller: &Caller, keeper: &Keeper, url: &str) -> Vec<Examined> {
    let environment = service.environment();
    let here = worktree(&environment.directory);
    let main = store_choice::main_worktree(environment).ok().flatten();
    let mut checks = Vec::new();
    for program in Program::ALL {
        let settings = Settings {
            service,
            caller,
            program,
            path: here.join(program.file()),
            here: &here,
            main: main.as_deref().filter(|main| *main != here),
        };
        let found = settings.examine(keeper, url).await;
        let found = found.map(|found| found.map(|found| found.of(NAME)));
        checks.extend(found.unwrap_or_else(|error| Some(service.failed(NAME, &error))));
    }
    checks
}

/// Returns the advice to install the hooks of a program.
fn install(program: Program) -> Remedy {
    Remedy::of("{agent.apply program}", &[&program.to_string()])
}

/// Returns the worktree that a directory is in, or the directory itself.
fn worktree(directory: &Path) -> PathBuf {
    let mut above = directory.ancestors();
    let root = above.find(|above| above.join(".git").exists());
    root.unwrap_or(directory).to_owned()
}

/// The settings of a program in a worktree.
struct Settings<'a> {
    service: &'a Service,
    caller: &'a Caller,
    program: Program,
    path: PathBuf,
    here: &'a Path,
    /// The main worktree, if this one is another.
    main: Option<&'a Path>,
}

impl Settings<'_> {
    async fn examine(&self, keeper: &Keeper, url: &str) -> Result<Option<Found>> {
        let name = self.program;
        let Some((text, hooks)) = self.hooks()? else {
            return Ok(self.without_hooks());
        };
        if let Some(problem) = self
            .missing(&text)?
            .or_else(|| self.narrowed(&hooks))
            .or_else(|| self.skipped(&text))
        {
            return Ok(Some(problem));
        }
        let (paths, whose) = self.path_of();
        let Some(binary) = binary_in(&paths) else {
            return Ok(Some(Found::bad(
                format!("{name}: tenure is not in the PATH of {whose}, so its hooks do nothing"),
                "install tenure into a directory of that PATH, or start the program with the directory of tenure in it",
            )));
        };
        let sent = self.send(keeper, url, &hooks, &paths).await?;
        Ok(Some(sent.unwrap_or_else(|| {
            Found::good(format!(
                "{name}: {} in {}; {} is found with the PATH of {whose}, and an event that was sent through it arrived here",
                counted(hooks.len(), "hook"),
                self.path.display(),
                binary.display()
            ))
        })))
    }

    /// Returns the text of the settings and the hooks of ours in it, or `None` if it has none.
    fn hooks(&self) -> Result<Option<(String, Vec<Hook>)>> {
        let Ok(text) = fs::read_to_string(&self.path) else {
            return Ok(None);
        };
        let settings: Value = serde_json::from_str(&text)
            .map_err(|error| Error::BadInput(format!("{}: {error}", self.path.display())))?;
        let found = installed(self.program, &settings);
        Ok((!found.is_empty()).then_some((text, found)))
    }

    /// Reports a program that is used here without hooks, or with hooks only in the main worktree.
    fn without_hooks(&self) -> Option<Found> {
        let (name, file) = (self.program, self.program.file());
        let text = self
            .main
            .and_then(|main| fs::read_to_string(main.join(file)).ok());
        let settings = text.and_then(|text| serde_json::from_str(&text).ok());
        if settings.is_some_and(|settings| !installed(self.program, &settings).is_empty()) {
            return Some(Found::bad(
                format!(
                    "{name}: its hooks are in the main worktree, and not in this one, so it has none here"
                ),
                format!("commit {file} there, and check it out here"),
            ));
        }
        self.program.is_used_in(self.here).then(|| {
            Found::good(format!(
                "{name} is used here without hooks, so no guard counts for it; for those: {}",
                self.caller.in_words(install(name))
            ))
        })
    }

    /// Reports events without a hook.
    fn missing(&self, text: &str) -> Result<Option<Found>> {
        let when_unsure = self.service.located().config.guard.when_unsure;
        let shown = self.path.display().to_string();
        let missing = hooks::add(self.program, when_unsure, Some(text), &shown)?.events;
        let name = self.program;
        Ok((!missing.is_empty()).then(|| {
            Found::bad(
                format!(
                    "{name}: {shown} lacks what install adds for {}",
                    missing.join(", ")
                ),
                install(name),
            )
        }))
    }

    /// Reports a hook that a matcher keeps from some of its events.
    fn narrowed(&self, hooks: &[Hook]) -> Option<Found> {
        let is_narrow = |matcher: &&str| !matches!(*matcher, "" | "*" | ".*");
        let (hook, matcher) = hooks
            .iter()
            .find_map(|hook| Some((hook, hook.matcher.as_deref().filter(is_narrow)?)))?;
        let (name, file) = (self.program, self.path.display());
        Some(Found::bad(
            format!(
                "{name}: its hook of {} in {file} is for {matcher:?} alone, so of all else nothing arrives",
                hook.event
            ),
            format!("take the matcher out of {file}"),
        ))
    }

    /// Reports hooks that the program skips.
    fn skipped(&self, text: &str) -> Option<Found> {
        match self.program {
            Program::Claude => self.turned_off(),
            Program::Codex => self.skipped_by_codex(text),
            _ => None,
        }
    }

    fn turned_off(&self) -> Option<Found> {
        let home = self.home("CLAUDE_CONFIG_DIR", ".claude");
        let files = [
            Some(self.path.clone()),
            Some(self.here.join(".claude/settings.local.json")),
            home.map(|home| home.join("settings.json")),
        ];
        let is_off = |path: &PathBuf| {
            let text = fs::read_to_string(path).ok()?;
            let settings: Value = serde_json::from_str(&text).ok()?;
            settings["disableAllHooks"].as_bool()
        };
        let off = files
            .into_iter()
            .flatten()
            .find(|path| is_off(path) == Some(true))?;
        let off = off.display();
        Some(Found::bad(
            format!("claude: {off} has disableAllHooks, so its hooks do not run"),
            format!("take disableAllHooks out of {off}"),
        ))
    }

    /// Returns the PATH of a program, and a word that says whose it is: that of a running process
    /// of the program, if this user has one in this worktree, else ours.
    fn path_of(&self) -> (OsString, String) {
        let (program, here) = (self.program, self.here);
        let own = rustix::process::geteuid().as_raw();
        let of_process = |directory: PathBuf| {
            let is_own = fs::metadata(&directory).ok()?.uid() == own
                && fs::read_link(directory.join("cwd")).ok()?.starts_with(here);
            let command = fs::read_to_string(directory.join("comm")).ok()?;
            let is_it = [program.to_string(), format!("{program}-agent")];
            let is_it = is_it.iter().any(|name| command.trim() == name);
            let environment =
                (is_own && is_it).then(|| fs::read(directory.join("environ")).ok())??;
            let mut variables = environment.split(|byte| *byte == 0);
            let path = variables.find_map(|variable| variable.strip_prefix(b"PATH="))?;
            let pid = directory.file_name()?.to_string_lossy().into_owned();
            let whose = format!("{program}, process {pid}");
            Some((OsString::from_vec(path.to_vec()), whose))
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut found = processes.filter_map(|process| of_process(process.path()));
        let ours = || {
            (
                self.variable("PATH").unwrap_or_default().into(),
                "this command".to_owned(),
            )
        };
        found.next().unwrap_or_else(ours)
    }

    /// Returns the directory in which a program keeps the settings of the user: the one that a
    /// variable names, else one in the home.
    fn home(&self, variable: &str, directory: &str) -> Option<PathBuf> {
        let named = self.variable(variable).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(self.variable("HOME")?).join(directory)))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        debug_assert!(VARIABLES.contains(&name) || name == "HOME", "{name}");
        self.service.environment().variable(name)
    }

    /// Sends an event as the program would. `None` if it arrived in the store.
    async fn send(
        &self,
        keeper: &Keeper,
        url: &str,
        hooks: &[Hook],
        paths: &OsString,
    ) -> Result<Option<Found>> {
        let name = self.program;
        let end = |hook: &&Hook| hook.event.eq_ignore_ascii_case("SessionEnd");
        let Some(hook) = hooks.iter().find(end) else {
            return Ok(None);
        };
        if hook.command != self.program.command() {
            return Ok(Some(Found::good(format!(
                "{name}: its hook {:?} is not what install adds, so no event was sent through it",
                hook.command
            ))));
        }
        let session = format!("doctor-{}", new_id());
        let body = json!({
            "hook_event_name": hook.event,
            "session_id": session,
            "cwd": self.here,
            "reason": "tenure doctor",
        });
        let mut command = Command::new("sh");
        command.args(["-c", &hook.command]).current_dir(self.here);
        command.env("PATH", paths).env_remove("CLAUDE_ENV_FILE");
        for variable in identity::VARIABLES {
            command.env_remove(variable);
        }
        for variable in ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"] {
            if variable.to_ascii_lowercase().starts_with(&name.to_string()) {
                command.env(variable, self.here);
            } else {
                command.env_remove(variable);
            }
        }
        if self.service.located().why == Why::Asked {
            command.env("TENURE_STORE", url);
        }
        let limits = CallLimits {
            end_ms: clock::boot_now() + HOOK_MAX.as_millis() as u64,
            time_max: HOOK_MAX,
            bytes_max: 1024,
        };
        let called = call(command, [], &body.to_string(), limits).await;
        let has_arrived = arrived(keeper, &session).await?;
        Ok(match called {
            _ if has_arrived => None,
            Err(error) => Some(Found::bad(
                format!("{name}: its hook {:?} {error}", hook.command),
                install(name),
            )),
            Ok(_) => Some(Found::bad(
                format!(
                    "{name}: its hook {:?} ran, and its event is not in this store",
                    hook.command
                ),
                format!("see what it says: echo '{body}' | {}", hook.command),
            )),
        })
    }
}

/// Returns true if the event that was sent is in the store. Its session never was, so its record is
/// removed.
async fn arrived(keeper: &Keeper, session: &str) -> Result<bool> {
    let records = keeper.records("agents")?;
    let key = agent_key(session)?;
    if records.read(&key).await?.is_none() {
        return Ok(false);
    }
    let remove = |_: &Seen| {
        let mut changes = Changes::default();
        changes.delete(key.clone());
        Ok(changes)
    };
    records
        .change(&RecordChange::new([key.clone()], &remove))
        .await?;
    Ok(true)
}

/// A hook of ours in the settings of a program.
struct Hook {
    event: &'static str,
    /// The index of its group in the list of the event, and its index in the group.
    place: (usize, usize),
    command: String,
    timeout: Option<u64>,
    /// The matcher of its group, if it has one.
    matcher: Option<String>,
}

/// Returns the hooks of ours.
fn installed(program: Program, settings: &Value) -> Vec<Hook> {
    let mut found = Vec::new();
    for event in program.events() {
        let groups = settings["hooks"][*event].as_array();
        for (group, entry) in groups.into_iter().flatten().enumerate() {
            let alone = std::slice::from_ref(entry);
            let hooks = entry["hooks"].as_array().map_or(alone, Vec::as_slice);
            for (index, hook) in hooks.iter().enumerate() {
                let command = hook["command"].as_str().or(hook["bash"].as_str());
                let ours = |command: &&str| command.trim_start().starts_with(COMMAND);
                found.extend(command.filter(ours).map(|command| Hook {
                    event,
                    place: (group, index),
                    command: command.to_owned(),
                    timeout: hook["timeout"].as_u64(),
                    matcher: entry["matcher"].as_str().map(str::to_owned),
                }));
            }
        }
    }
    found
}

fn binary_in(paths: &OsString) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(paths)
        .map(|path| path.join("tenure"))
        .find(is_program)
}
