//! Hooks in the settings of coding agents, and the store that all of them reach.
//!
//! Everything is read and checked before anything is written. One call at a time changes a
//! worktree; leftovers of a killed call are removed by the next. The new texts come from
//! `tenure_work::agents::install`; `settings_file` checks whose files they are, and reads and
//! writes them.

mod settings_file;

use std::path::{Path, PathBuf};

use tenure::config::{Config, FILE_NAME, WhenUnsure};
use tenure::store_choice::{self, Environment};
use tenure::{Error, Remedy, Result};
use tenure_api::agents::{Apply, ChangeState, FileChange, HookAction, HookChanges, Plan, Program};
use tenure_os::blocking::blocking;
use tenure_os::replace::replace_file;
use tenure_work::agents::install::{ProgramSettings, hooks, tenure_toml};

use crate::{Caller, Handle, Service};

/// Tells what people should know.
type Tell<'a> = &'a dyn Fn(Remedy);

impl Handle<Plan> for Service {
    async fn handle(&self, request: Plan, caller: &Caller) -> Result<HookChanges> {
        let target = Target::find(self.environment())?;
        let Plan { action, program } = request;
        blocking(|| target.planned(action, program, &|word| caller.tell(word)))
    }
}

impl Handle<Apply> for Service {
    async fn handle(&self, request: Apply, _: &Caller) -> Result<HookChanges> {
        let target = Target::find(self.environment())?;
        let Apply { action, program } = request;
        blocking(|| match action {
            HookAction::Install => target.install(program),
            HookAction::Uninstall => target.uninstall(program),
        })
    }
}

/// The directory whose settings are changed.
struct Target<'a> {
    environment: &'a Environment,
    worktree: PathBuf,
}

impl<'a> Target<'a> {
    fn find(environment: &'a Environment) -> Result<Self> {
        let worktree = store_choice::main_worktree(environment)?;
        let worktree = worktree.unwrap_or_else(|| environment.directory.clone());
        Ok(Self {
            environment,
            worktree,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.worktree.join(name)
    }

    /// Returns the setting for tools on which a guard cannot decide.
    fn when_unsure(&self) -> Result<WhenUnsure> {
        let text = settings_file::read(&self.worktree, FILE_NAME)?.unwrap_or_default();
        Ok(Config::parse(&text, &self.path(FILE_NAME))?
            .guard
            .when_unsure)
    }

    /// Reads the settings of a program, which must be JSON.
    fn settings(&self, program: Program) -> Result<Option<String>> {
        let text = settings_file::read(&self.worktree, program.file())?;
        settings_file::check(text.as_deref(), &self.path(program.file()))?;
        Ok(text)
    }

    fn planned(
        &self,
        action: HookAction,
        program: Option<Program>,
        tell: Tell<'_>,
    ) -> Result<HookChanges> {
        match action {
            HookAction::Install => self.additions(program, tell),
            HookAction::Uninstall => Ok(HookChanges {
                changes: self.removals(program)?,
                allow: None,
                refuses_unanswered: false,
            }),
        }
    }

    /// Returns the additions to each file, and tells what people should know of them.
    fn additions(&self, program: Option<Program>, tell: Tell<'_>) -> Result<HookChanges> {
        let programs = self.chosen(program)?;
        let state = store_choice::state_directory(self.environment)?;
        let when_unsure = self.when_unsure()?;
        let mut changes = Vec::new();
        for program in programs {
            let path = self.path(program.file());
            let old = self.settings(program)?;
            let shown = path.display().to_string();
            let changed = hooks::add(program, when_unsure, old.as_deref(), &shown)?;
            let added = hooks_of(&changed.events);
            changes.push(change(&path, Some(program), HookAction::Install, added));
        }
        let path = self.path(FILE_NAME);
        let old = settings_file::read(&self.worktree, FILE_NAME)?;
        let addition = tenure_toml::add(old.as_deref(), &path)?;
        self.tell(&addition, &path, tell)?;
        changes.push(change(&path, None, HookAction::Install, addition.added));
        Ok(HookChanges {
            changes,
            allow: Some(vec![state.display().to_string()]),
            refuses_unanswered: when_unsure == WhenUnsure::Deny,
        })
    }

    /// Returns the programs to install for: the one named, else those that are used here.
    fn chosen(&self, named: Option<Program>) -> Result<Vec<Program>> {
        if let Some(program) = named {
            return Ok(vec![program]);
        }
        let used = Program::ALL.into_iter();
        let used: Vec<Program> = used.filter(|it| it.is_used_in(&self.worktree)).collect();
        if !used.is_empty() {
            return Ok(used);
        }
        Err(Error::NotFound(format!(
            "no coding agent is used in {}; name one: {}",
            self.worktree.display(),
            Program::ALL.map(|program| program.to_string()).join("|")
        )))
    }

    /// Tells of settings in `tenure.toml` that are kept, and of contents of the old store.
    fn tell(&self, planned: &tenure_toml::Addition, path: &Path, tell: Tell<'_>) -> Result<()> {
        let path = path.display().to_string();
        if let Some(store) = &planned.other_store {
            let store = tenure::shown_address(store);
            tell(Remedy::of(
                "{} names the store {}, which is kept: see with {doctor} that agents reach it",
                &[&path, &store],
            ));
        }
        if planned.is_guard_kept {
            tell(Remedy::of(
                "{} has a guard of its own, which is kept: set its edits = true, and agents do not overwrite each other's edits",
                &[&path],
            ));
        }
        let mut added = planned.added.iter();
        if added.any(|added| added == tenure_toml::STORE_KEY) {
            self.tell_of_old_store(tell)
        } else {
            Ok(())
        }
    }

    /// Tells of locks and issues in the repository that the new store does not have.
    fn tell_of_old_store(&self, tell: Tell<'_>) -> Result<()> {
        let Some(common) = store_choice::common_directory(self.environment)? else {
            return Ok(());
        };
        let old = common.join("tenure");
        let shown = old.display().to_string();
        if old.join("tenure.db").exists() {
            tell(Remedy::of(
                "locks held in {}/tenure.db do not count in the new store: see {ls store}",
                &[&shown, &format!("sqlite:{shown}/tenure.db")],
            ));
        }
        if old.join("board").exists() {
            tell(Remedy::of(
                "the board in {}/board is not moved: when nobody uses it, move it beside the new store, which {doctor} names",
                &[&shown],
            ));
        }
        Ok(())
    }

    /// Adds what is missing to the files, each under its own lock.
    fn install(&self, program: Option<Program>) -> Result<HookChanges> {
        let mut planned = self.additions(program, &|_| ())?;
        let when_unsure = self.when_unsure()?;
        settings_file::make_state_directory(&store_choice::state_directory(self.environment)?)?;
        let _lock = settings_file::lock_worktree(&self.worktree)?;
        self.clean(planned.changes.iter().filter_map(|change| change.program))?;
        carry_out(&mut planned, HookAction::Install, |program| match program {
            Some(program) => {
                let path = self.path(program.file());
                let added = settings_file::add_hooks(program, when_unsure, &path)?;
                Ok(hooks_of(&added.events))
            }
            None => self.add_to_toml(),
        })?;
        Ok(planned)
    }

    /// Removes temporary files that killed calls left.
    fn clean(&self, programs: impl Iterator<Item = Program>) -> Result<()> {
        for program in programs {
            settings_file::clean(&self.path(program.file()))?;
        }
        settings_file::remove_temporaries(&self.path(FILE_NAME))
    }

    fn add_to_toml(&self) -> Result<Vec<String>> {
        let path = self.path(FILE_NAME);
        let old = settings_file::read(&self.worktree, FILE_NAME)?;
        let addition = tenure_toml::add(old.as_deref(), &path)?;
        if let Some(text) = &addition.text {
            replace_file(&path, text.as_bytes())?;
            if old.is_none() {
                settings_file::let_others_read(&path)?;
            }
        }
        Ok(addition.added)
    }

    /// Returns the entries that would be taken out, for one program or for all. Those in
    /// `tenure.toml` are taken out with the hooks of the last program.
    fn removals(&self, named: Option<Program>) -> Result<Vec<FileChange>> {
        let mut changes = Vec::new();
        let mut is_used = false;
        for program in Program::ALL {
            let is_meant = named.is_none_or(|named| named == program);
            let old = match self.settings(program) {
                // An error in a file that this call does not change is ignored.
                Err(_) if !is_meant => None,
                old => old?,
            };
            let found = old.map(|old| hooks::take_out(program, &old).events);
            let found = found.unwrap_or_default();
            if !is_meant {
                is_used |= !found.is_empty();
            } else if named.is_some() || !found.is_empty() {
                let path = self.path(program.file());
                let found = hooks_of(&found);
                changes.push(change(&path, Some(program), HookAction::Uninstall, found));
            }
        }
        let path = self.path(FILE_NAME);
        let toml = if is_used {
            None
        } else {
            settings_file::read(&self.worktree, FILE_NAME)?
        };
        let (_, removed) = tenure_toml::take_out(&toml.unwrap_or_default());
        if !removed.is_empty() {
            changes.push(change(&path, None, HookAction::Uninstall, removed));
        }
        Ok(changes)
    }

    fn uninstall(&self, named: Option<Program>) -> Result<HookChanges> {
        let _lock = settings_file::lock_worktree(&self.worktree)?;
        let meant = Program::ALL.into_iter();
        self.clean(meant.filter(|program| named.is_none_or(|named| named == *program)))?;
        let mut planned = self.planned(HookAction::Uninstall, named, &|_| ())?;
        carry_out(
            &mut planned,
            HookAction::Uninstall,
            |program| match program {
                Some(program) => {
                    let removed =
                        settings_file::take_out_hooks(program, &self.path(program.file()))?;
                    Ok(hooks_of(&removed.events))
                }
                None => self.take_out_of_toml(),
            },
        )?;
        Ok(planned)
    }

    fn take_out_of_toml(&self) -> Result<Vec<String>> {
        let path = self.path(FILE_NAME);
        let old = settings_file::read(&self.worktree, FILE_NAME)?.unwrap_or_default();
        let (text, removed) = tenure_toml::take_out(&old);
        match (removed.is_empty(), text.is_empty()) {
            (true, _) => {}
            (false, true) => settings_file::remove(&path)?,
            (false, false) => replace_file(&path, text.as_bytes())?,
        }
        Ok(removed)
    }
}

fn hooks_of(events: &[&str]) -> Vec<String> {
    let hooks = events.iter().map(|event| format!("hooks.{event}"));
    hooks.collect()
}

/// Makes the planned changes, each by `work`, which returns the entries that it added or took out.
fn carry_out(
    planned: &mut HookChanges,
    action: HookAction,
    work: impl Fn(Option<Program>) -> Result<Vec<String>>,
) -> Result<()> {
    use ChangeState::{WouldAdd, WouldRemove};
    let changes = planned.changes.iter_mut();
    for change in changes.filter(|change| matches!(change.state, WouldAdd | WouldRemove)) {
        let parts = work(change.program)?;
        set(change, action, parts, true);
    }
    Ok(())
}

/// Returns the planned change of a file.
fn change(
    path: &Path,
    program: Option<Program>,
    action: HookAction,
    parts: Vec<String>,
) -> FileChange {
    let mut change = FileChange {
        file: path.display().to_string(),
        program,
        added: None,
        removed: None,
        state: ChangeState::Present,
    };
    set(&mut change, action, parts, false);
    change
}

/// Sets the entries and the state of a change, planned or done.
fn set(change: &mut FileChange, action: HookAction, parts: Vec<String>, is_done: bool) {
    let is_nothing = parts.is_empty();
    let (state, list) = match action {
        HookAction::Install if is_nothing => (ChangeState::Present, &mut change.added),
        HookAction::Install if is_done => (ChangeState::Added, &mut change.added),
        HookAction::Install => (ChangeState::WouldAdd, &mut change.added),
        HookAction::Uninstall if is_nothing => (ChangeState::Absent, &mut change.removed),
        HookAction::Uninstall if is_done => (ChangeState::Removed, &mut change.removed),
        HookAction::Uninstall => (ChangeState::WouldRemove, &mut change.removed),
    };
    *list = Some(parts);
    change.state = state;
}
