//! `tenure agent install` and `uninstall`: hooks in the settings of coding agents, and the store that all of them reach.
//!
//! | file | what it holds |
//! |---|---|
//! | `program` | the programs: files, events, shapes, sandboxes |
//! | `hooks` | hooks added to a text, and taken out of it |
//! | `json_text` | JSON as text, changed in one place |
//! | `tenure_toml` | what `tenure.toml` gets |
//! | `settings_file` | whose files these are; reading and writing them |
//!
//! Files are changed by a text that is put into theirs, so that every other byte stays. Everything is read and checked before
//! anything is written. One install at a time changes a worktree; what a killed one left is removed by the next.
//!
//! # Limitations
//!
//! A settings file with comments is no JSON, and refused.

pub mod hooks;
mod json_text;
mod program;
mod settings_file;
mod tenure_toml;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tenure::config::{Config, FILE_NAME, WhenUnsure};
use tenure::store_choice::{self, Environment};
use tenure::{Error, Result};
use tenure_os::replace::replace_file;

use crate::cli::{AgentInstall, AgentUninstall, Global};
use crate::output::{self, word};
use crate::report::Failure;
pub use program::{InstallProgram, ON_FAILURE};

/// The answer of `install`.
#[derive(Serialize)]
struct Installed {
    changes: Vec<FileChange>,
    allow: Vec<String>,
}

/// A file, and what is added to it or taken out of it.
#[derive(Serialize)]
struct FileChange {
    file: String,
    program: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<String>>,
    state: &'static str,
}

/// The answer of `uninstall`.
#[derive(Serialize)]
struct Uninstalled {
    changes: Vec<FileChange>,
}

/// The directory whose settings are changed.
struct InstallTarget {
    environment: Environment,
    worktree: PathBuf,
}

impl InstallTarget {
    fn find() -> Result<Self> {
        let environment = crate::surface::environment()?;
        let worktree = store_choice::main_worktree(&environment)?;
        let worktree = worktree.unwrap_or_else(|| environment.directory.clone());
        Ok(Self {
            environment,
            worktree,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.worktree.join(name)
    }

    /// Returns what becomes of a tool where a guard cannot decide.
    fn when_unsure(&self) -> Result<WhenUnsure> {
        let text = settings_file::read(&self.worktree, FILE_NAME)?.unwrap_or_default();
        Ok(Config::parse(&text, &self.path(FILE_NAME))?
            .guard
            .when_unsure)
    }

    /// Reads the settings of a program, which must be JSON.
    fn settings(&self, program: InstallProgram) -> Result<Option<String>> {
        let text = settings_file::read(&self.worktree, program.file())?;
        settings_file::check(text.as_deref(), &self.path(program.file()))?;
        Ok(text)
    }
}

/// Shows what would be added, and adds it if that is wanted.
pub fn install(global: &Global, options: &AgentInstall) -> Result<ExitCode, Failure> {
    let target = InstallTarget::find()?;
    let programs = chosen(&target.worktree, options.program)?;
    let state = store_choice::state_directory(&target.environment)?;
    let when_unsure = target.when_unsure()?;
    let planned = plan(&target, &programs, when_unsure)?;
    let allow = state.display().to_string();
    if !global.json {
        output::text(&in_words(&planned, &programs, &allow, when_unsure))?;
    }
    let changes = match options.write {
        true => make_changes(&target, &programs, planned, &state, when_unsure)?,
        false => planned,
    };
    if global.json {
        let allow = vec![allow];
        output::json(&Installed { changes, allow })?;
    } else if options.write {
        word("done; commit these files so that other worktrees and people have the hooks");
    } else {
        let named = options
            .program
            .map(|program| format!(" {}", program.name()));
        word(&format!(
            "nothing is changed; to do it: tenure agent install --write{}",
            named.unwrap_or_default()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the programs to install for: the one named, else those that are used here.
fn chosen(worktree: &Path, named: Option<InstallProgram>) -> Result<Vec<InstallProgram>> {
    if let Some(program) = named {
        return Ok(vec![program]);
    }
    let used = InstallProgram::ALL.into_iter();
    let used: Vec<InstallProgram> = used.filter(|it| it.is_used_in(worktree)).collect();
    match used.is_empty() {
        false => Ok(used),
        true => Err(Error::NotFound(format!(
            "no coding agent is used in {}; name one: tenure agent install {}",
            worktree.display(),
            InstallProgram::ALL.map(InstallProgram::name).join("|")
        ))),
    }
}

/// Returns what would be added to each file.
fn plan(
    target: &InstallTarget,
    programs: &[InstallProgram],
    when_unsure: WhenUnsure,
) -> Result<Vec<FileChange>> {
    let mut changes = Vec::new();
    for program in programs {
        let path = target.path(program.file());
        let old = target.settings(*program)?;
        let shown = path.display().to_string();
        let changed = hooks::add(*program, when_unsure, old.as_deref(), &shown)?;
        changes.push(addition(&path, Some(*program), hooks_of(&changed.events)));
    }
    let path = target.path(FILE_NAME);
    let old = settings_file::read(&target.worktree, FILE_NAME)?;
    let planned = tenure_toml::add(old.as_deref(), &path)?;
    if let Some(store) = &planned.other_store {
        let store = tenure::shown_address(store);
        word(&format!(
            "{} names the store {store}, which is kept: see with tenure doctor that agents reach it",
            path.display()
        ));
    }
    if planned.is_guard_kept {
        word(&format!(
            "{} has a guard of its own, which is kept: set its edits = true, and agents do not overwrite each other's edits",
            path.display()
        ));
    }
    if planned
        .added
        .iter()
        .any(|added| added == tenure_toml::STORE_KEY)
    {
        tell_of_old_store(target)?;
    }
    changes.push(addition(&path, None, planned.added));
    Ok(changes)
}

fn hooks_of(events: &[&str]) -> Vec<String> {
    events
        .iter()
        .map(|event| format!("hooks.{event}"))
        .collect()
}

fn addition(path: &Path, program: Option<InstallProgram>, added: Vec<String>) -> FileChange {
    let state = match added.is_empty() {
        true => "present",
        false => "would add",
    };
    FileChange {
        file: path.display().to_string(),
        program: program.map(InstallProgram::name),
        added: Some(added),
        removed: None,
        state,
    }
}

/// Tells of locks and issues in the repository that the new store does not have.
fn tell_of_old_store(target: &InstallTarget) -> Result<()> {
    let Some(common) = store_choice::common_directory(&target.environment)? else {
        return Ok(());
    };
    let old = common.join("tenure");
    if old.join("tenure.db").exists() {
        let old = old.display();
        word(&format!(
            "locks held in {old}/tenure.db do not count in the new store: see tenure ls --store sqlite:{old}/tenure.db"
        ));
    }
    if old.join("board").exists() {
        let old = old.display();
        word(&format!(
            "the board in {old}/board is not moved: when nobody uses it, move it beside the new store, which tenure doctor names"
        ));
    }
    Ok(())
}

/// Makes the change, each file under its own lock.
fn make_changes(
    target: &InstallTarget,
    programs: &[InstallProgram],
    planned: Vec<FileChange>,
    state: &Path,
    when_unsure: WhenUnsure,
) -> Result<Vec<FileChange>> {
    settings_file::make_state_directory(state)?;
    let _lock = settings_file::lock_worktree(&target.worktree)?;
    clean(target, programs)?;
    let mut changes = Vec::new();
    for (index, mut change) in planned.into_iter().enumerate() {
        if change.state == "would add" {
            let added = match programs.get(index) {
                Some(program) => {
                    let path = target.path(program.file());
                    hooks_of(&settings_file::add_hooks(*program, when_unsure, &path)?.events)
                }
                None => add_to_toml(target)?,
            };
            change.state = match added.is_empty() {
                true => "present",
                false => "added",
            };
            change.added = Some(added);
        }
        changes.push(change);
    }
    Ok(changes)
}

/// Removes what killed installs left.
fn clean(target: &InstallTarget, programs: &[InstallProgram]) -> Result<()> {
    for program in programs {
        settings_file::clean(&target.path(program.file()))?;
    }
    settings_file::remove_temporaries(&target.path(FILE_NAME))
}

fn add_to_toml(target: &InstallTarget) -> Result<Vec<String>> {
    let path = target.path(FILE_NAME);
    let old = settings_file::read(&target.worktree, FILE_NAME)?;
    let addition = tenure_toml::add(old.as_deref(), &path)?;
    if let Some(text) = &addition.text {
        replace_file(&path, text.as_bytes())?;
        if old.is_none() {
            settings_file::let_others_read(&path)?;
        }
    }
    Ok(addition.added)
}

fn in_words(
    changes: &[FileChange],
    programs: &[InstallProgram],
    allow: &str,
    when_unsure: WhenUnsure,
) -> String {
    let mut text = String::new();
    for change in changes {
        let FileChange { file, state, .. } = change;
        let _ = writeln!(text, "{file}: {state}");
        let program = programs.iter().find(|it| Some(it.name()) == change.program);
        for part in change.added.iter().flatten() {
            let _ = match program {
                Some(program) => {
                    let event = part.trim_start_matches("hooks.");
                    let on_failure = program.on_failure(event, when_unsure);
                    let on_failure = on_failure.map(|it| format!(" ({ON_FAILURE}: {it})"));
                    let on_failure = on_failure.unwrap_or_default();
                    writeln!(text, "  + {part}: {}{on_failure}", program.command())
                }
                None => writeln!(text, "  + {part}"),
            };
        }
    }
    let _ = writeln!(text, "allow agents to write {allow} in their sandbox:");
    for program in programs {
        let _ = writeln!(text, "  {}: {}", program.name(), program.allowing(allow));
    }
    text
}

/// Takes out what was added, for one program or for all. What `tenure.toml` got goes with the hooks of the last one.
pub fn uninstall(global: &Global, options: &AgentUninstall) -> Result<ExitCode, Failure> {
    let target = InstallTarget::find()?;
    let meant = InstallProgram::ALL.into_iter();
    let meant = meant.filter(|program| options.program.is_none_or(|named| named == *program));
    let meant: Vec<InstallProgram> = meant.collect();
    let _lock = settings_file::lock_worktree(&target.worktree)?;
    clean(&target, &meant)?;
    let mut changes = Vec::new();
    let mut is_used = false;
    for program in InstallProgram::ALL {
        let is_meant = meant.contains(&program);
        let old = match target.settings(program) {
            // A file that this command is not about is not its business.
            Err(_) if !is_meant => None,
            old => old?,
        };
        let found = old.map(|old| hooks::take_out(program, &old).events);
        let is_there = found.is_some_and(|events| !events.is_empty());
        let path = target.path(program.file());
        match (is_meant, is_there) {
            (true, true) => {
                let removed = settings_file::take_out_hooks(program, &path)?.events;
                changes.push(removal(&path, Some(program), hooks_of(&removed)));
            }
            (true, false) if options.program.is_some() => {
                changes.push(removal(&path, Some(program), Vec::new()));
            }
            (true, false) => {}
            (false, is_there) => is_used |= is_there,
        }
    }
    if !is_used {
        changes.extend(take_out_of_toml(&target)?);
    }
    let answer = Uninstalled { changes };
    output::answer(global.json, &answer, || {
        let mut text = String::new();
        for change in &answer.changes {
            let _ = writeln!(text, "{}: {}", change.file, change.state);
            for part in change.removed.iter().flatten() {
                let _ = writeln!(text, "  - {part}");
            }
        }
        if answer.changes.is_empty() {
            word("nothing of tenure agent install is here");
        }
        output::text(&text)
    })
}

fn removal(path: &Path, program: Option<InstallProgram>, removed: Vec<String>) -> FileChange {
    let state = match removed.is_empty() {
        true => "absent",
        false => "removed",
    };
    FileChange {
        file: path.display().to_string(),
        program: program.map(InstallProgram::name),
        added: None,
        removed: Some(removed),
        state,
    }
}

fn take_out_of_toml(target: &InstallTarget) -> Result<Option<FileChange>> {
    let path = target.path(FILE_NAME);
    let Some(old) = settings_file::read(&target.worktree, FILE_NAME)? else {
        return Ok(None);
    };
    let (text, removed) = tenure_toml::take_out(&old);
    if removed.is_empty() {
        return Ok(None);
    }
    match text.is_empty() {
        true => settings_file::remove(&path)?,
        false => replace_file(&path, text.as_bytes())?,
    }
    Ok(Some(removal(&path, None, removed)))
}
