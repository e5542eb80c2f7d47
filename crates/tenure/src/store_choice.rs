//! The choice of the store.
//!
//! The first of these counts: the store that is asked for, `TENURE_STORE`, the nearest
//! `tenure.toml` upwards that names one, the git repository around the current directory (its
//! common directory, so that all worktrees meet in one store), the user's state directory.
//!
//! `user:` names a database in the user's state directory that belongs to the repository around the
//! `tenure.toml` that says so, else to that around the current directory (`user`). A `.git` that
//! cannot be written is refused, and is never a reason to choose `user:`. Otherwise two processes,
//! one of them in a sandbox, would hold one lock in two stores.
//!
//! In a linked worktree without a `tenure.toml` of its own, that of the main worktree counts before
//! those further up: it need not be committed to be the same for all worktrees. A `tenure.toml`
//! that names no store leaves the choice to the next one up to the root of its repository, and to
//! that of the main worktree: all processes in a repository meet in one store.
//!
//! Slots are counted per user and machine. They have a store of their own, on which none of this
//! has an effect ([`slots`]).
//!
//! Everything the choice depends on comes in an [`Environment`], but for the files themselves.
//!
//! # Limitations
//!
//! Worktrees whose own `tenure.toml` files name different stores, and processes of one user with
//! different `HOME` or `XDG_STATE_HOME`, do not meet. `tenure doctor` tells of the former.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};
use tenure_os::filesystem;

use crate::config::{self, Config, ConfigFile};

mod git;
mod user;

/// The file name of the database of a store, where no address gives one.
const DATABASE: &str = "tenure.db";
/// The file name of the database of the slots.
const SLOTS_DATABASE: &str = "slots.db";

/// The variables that count for the store and the settings.
pub const VARIABLES: [&str; 14] = [
    "TENURE_STORE",
    "TENURE_HEARTBEAT",
    "TENURE_TRUST_FLOCK",
    config::LOCK_TIMEOUT[0],
    config::LOCK_TIMEOUT[1],
    config::MAX_ATTEMPTS[0],
    config::MAX_ATTEMPTS[1],
    config::INITIAL_DELAY[0],
    config::INITIAL_DELAY[1],
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// The input of the choice, but for the files themselves.
#[derive(Clone)]
pub struct Environment {
    /// The current directory.
    pub directory: PathBuf,
    /// The effective user.
    pub uid: u32,
    variables: BTreeMap<OsString, OsString>,
    /// True if variables of the issue tracker `jit` count, too.
    hears_jit: bool,
}

impl Environment {
    /// Returns an environment without variables.
    pub fn new(directory: impl Into<PathBuf>, uid: u32) -> Self {
        Self {
            directory: directory.into(),
            uid,
            variables: BTreeMap::new(),
            hears_jit: false,
        }
    }

    /// Adds a variable.
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Adds several variables.
    pub fn with_variables(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Returns a variable that is text.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(OsStr::new(name))?.to_str()?;
        Some(value).filter(|value| !value.is_empty())
    }

    /// Lets the variables of the issue tracker `jit` count where ours are not set.
    pub fn for_board(mut self) -> Self {
        self.hears_jit = true;
        self
    }

    /// Returns our variable, else that of `jit` if it counts, and its name.
    pub(crate) fn either(
        &self,
        [ours, jits]: config::Names,
    ) -> Result<Option<(&'static str, &str)>> {
        match (self.text(ours)?, self.hears_jit) {
            (Some(text), _) => Ok(Some((ours, text))),
            (None, true) => Ok(self.text(jits)?.map(|text| (jits, text))),
            (None, false) => Ok(None),
        }
    }

    /// Returns a variable. An empty one counts as not set.
    fn get(&self, name: &str) -> Option<&OsString> {
        debug_assert!(VARIABLES.contains(&name), "{name} is not read");
        let value = self.variables.get(OsStr::new(name));
        value.filter(|value| !value.is_empty())
    }

    /// Returns a variable that names a directory, which must be the same wherever a process is.
    fn absolute(&self, name: &str) -> Result<Option<&Path>> {
        match self.get(name).map(Path::new) {
            Some(path) if !path.is_absolute() => Err(Error::configuration(
                format!("bad {name} {path:?}: it is not absolute"),
                format!("set {name} to a path that begins with /"),
            )),
            path => Ok(path),
        }
    }

    /// Returns a variable that must be text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        value.to_str().map(Some).ok_or_else(|| {
            Error::configuration(
                format!("bad {name} {value:?}: it is not UTF-8"),
                format!("set {name} to plain text"),
            )
        })
    }
}

/// The reason for the choice of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It was asked for.
    Asked,
    /// `TENURE_STORE` names it.
    Variable,
    /// This `tenure.toml` names it.
    File(PathBuf),
    /// It belongs to the git repository with this common directory.
    Repository(PathBuf),
    /// Nothing else applied: the user's state directory.
    User,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Asked => f.write_str("--store names it"),
            Why::Variable => f.write_str("TENURE_STORE names it"),
            Why::File(path) => write!(f, "{} names it", path.display()),
            Why::Repository(path) => {
                write!(f, "it belongs to the git repository {}", path.display())
            }
            Why::User => f.write_str("the user's state directory, as nothing else names one"),
        }
    }
}

/// A `tenure.toml` that does not count, because another user could change it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The path of the file.
    pub path: PathBuf,
    /// The way in which another user could change it.
    pub distrust: Distrust,
}

/// The way in which another user could change a `tenure.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distrust {
    /// It belongs to this user.
    OwnedBy(u32),
    /// Every user may write it.
    WritableByAll,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ignored: ", self.path.display())?;
        match self.distrust {
            Distrust::OwnedBy(uid) => write!(f, "it belongs to another user (uid {uid})"),
            Distrust::WritableByAll => f.write_str("everybody may write it"),
        }
    }
}

/// The store chosen, and the settings found on the way.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Located {
    /// The address of the store.
    pub url: String,
    /// The reason for the choice.
    pub why: Why,
    /// True if it was named as `user:`.
    pub is_user: bool,
    /// The nearest `tenure.toml` with the environment laid over it.
    pub config: Config,
    /// The path of that `tenure.toml`.
    pub config_path: Option<PathBuf>,
    /// The files that do not count.
    pub ignored: Vec<Ignored>,
}

impl Located {
    /// Returns the choice of no store at all, with the default settings.
    pub fn nowhere() -> Self {
        Self {
            url: "memory:".into(),
            why: Why::Asked,
            is_user: false,
            config: Config::default(),
            config_path: None,
            ignored: Vec::new(),
        }
    }
}

/// Chooses the store; `asked` is what `--store` says.
pub fn locate(asked: Option<&str>, environment: &Environment) -> Result<Located> {
    let Nearest {
        file,
        store,
        ignored,
    } = nearest_config(environment)?;
    let (config_path, config) = file.unzip();
    let config = config.unwrap_or_default();
    let (url, why) = choose(asked, environment, store)?;
    let is_user = user::is(&url);
    let named_in = match &why {
        Why::File(path) => Some(path.as_path()),
        _ => None,
    };
    let url = if is_user {
        sqlite_url(&user::directory(&url, named_in, environment)?.join(DATABASE))?
    } else {
        url
    };
    Ok(Located {
        url,
        why,
        is_user,
        config: config.with_environment(environment)?,
        config_path,
        ignored,
    })
}

fn choose(
    asked: Option<&str>,
    environment: &Environment,
    store: Option<(PathBuf, String)>,
) -> Result<(String, Why)> {
    let here = &environment.directory;
    if let Some(url) = asked {
        return Ok((absolute(url, here)?, Why::Asked));
    }
    if let Some(url) = environment.text("TENURE_STORE")? {
        return Ok((absolute(url, here)?, Why::Variable));
    }
    if let Some((path, url)) = store {
        let own = path.parent().unwrap_or(&path);
        // A broken repository does no harm if the path is absolute.
        let repository = match relative(&url) {
            Some(_) => git::around(own)?,
            None => None,
        };
        let main = repository.and_then(|repository| repository.main_worktree);
        let url = absolute(&url, main.as_deref().unwrap_or(own))?;
        return Ok((url, Why::File(path)));
    }
    if let Some(common) = git::common_directory(environment)? {
        let url = sqlite_url(&common.join("tenure").join(DATABASE))?;
        return Ok((url, Why::Repository(common)));
    }
    let database = state_directory(environment)?.join(DATABASE);
    Ok((sqlite_url(&database)?, Why::User))
}

/// The settings and the store that the files name.
#[derive(Default)]
struct Nearest {
    /// The nearest `tenure.toml`.
    file: Option<(PathBuf, Config)>,
    /// The store, and the file that names it: the nearest one, or one further up in the same
    /// repository.
    store: Option<(PathBuf, String)>,
    ignored: Vec<Ignored>,
}

fn nearest_config(environment: &Environment) -> Result<Nearest> {
    let mut nearest = Nearest::default();
    let here = &environment.directory;
    // A broken repository is told of by the choice of the store, if it matters.
    let repository = git::around(here).ok().flatten();
    for directory in here.ancestors() {
        let root = repository.as_ref().filter(|it| it.found_in == directory);
        let main = root.and_then(|repository| repository.main_worktree.as_deref());
        let main = main.filter(|main| *main != directory);
        for place in [Some(directory), main].into_iter().flatten() {
            match config::look(place, environment.uid)? {
                ConfigFile::Nothing => {}
                ConfigFile::Ignored(ignored) => nearest.ignored.push(ignored),
                ConfigFile::Ours(path, config) => {
                    nearest.store = config.store.clone().map(|store| (path.clone(), store));
                    nearest.file.get_or_insert((path, *config));
                }
            }
            if nearest.store.is_some() {
                return Ok(nearest);
            }
        }
        // A file above the repository counts only if there is none in it.
        let is_within = repository
            .as_ref()
            .is_some_and(|it| directory.starts_with(&it.found_in) && root.is_none());
        if nearest.file.is_some() && !is_within {
            break;
        }
    }
    Ok(nearest)
}

/// Returns the user's state directory: `$XDG_STATE_HOME/tenure` or `~/.local/state/tenure`.
///
/// A relative path is refused: it would be another directory for each process that is elsewhere,
/// and two of them would hold one lock.
pub fn state_directory(environment: &Environment) -> Result<PathBuf> {
    if let Some(state) = environment.absolute("XDG_STATE_HOME")? {
        return Ok(state.join("tenure"));
    }
    match environment.absolute("HOME")? {
        Some(home) => Ok(home.join(".local/state/tenure")),
        None => Err(Error::configuration(
            "no place for a store: HOME is not set",
            "set HOME, or name a store with {$store}",
        )),
    }
}

/// Returns the address of the store of the slots: one for each user and machine, whatever store is
/// used otherwise.
///
/// It is in the state directory, or in the runtime directory where the former is on a network
/// file system: there, other machines would be counted, too, and locks do not hold. Neither
/// `--store` nor `tenure.toml` nor `TENURE_TRUST_FLOCK` counts: two processes that disagree
/// about the place would each have all the slots.
pub fn slots(environment: &Environment) -> Result<String> {
    let state = state_directory(environment)?;
    let runtime = if is_local(&state)? {
        None
    } else {
        environment.absolute("XDG_RUNTIME_DIR")?
    };
    // Without a runtime directory the opening of the store says why it refuses this one.
    let directory = runtime.map_or(state, |runtime| runtime.join("tenure"));
    sqlite_url(&directory.join(SLOTS_DATABASE))
}

/// Returns the directory of the board: in the git repository around the current directory, so that
/// its worktrees share it, else in the user's state directory, whatever `--store` and
/// `TENURE_STORE` say.
///
/// If `tenure.toml` says `store = "user:"`, it is beside that store, so that a sandbox lets a
/// process write both or neither. Only the file counts, since the command under `run` gets another
/// `TENURE_STORE` than `run` itself, and must find the same board.
/// another `TENURE_STORE` than `run` itself, and must find the same board.
pub fn board(environment: &Environment) -> Result<PathBuf> {
    let store = nearest_config(environment)?.store;
    if let Some((path, store)) = store.filter(|(_, store)| user::is(store)) {
        return Ok(user::directory(&store, Some(&path), environment)?.join("board"));
    }
    match git::common_directory(environment)? {
        Some(common) => Ok(common.join("tenure/board")),
        None => Ok(state_directory(environment)?.join("board")),
    }
}

/// Returns the worktree whose settings count for the repository around the current directory: the
/// main one, or the one around it if there is no main one. `None` outside of a repository.
pub fn main_worktree(environment: &Environment) -> Result<Option<PathBuf>> {
    let repository = git::around(&environment.directory)?;
    Ok(repository.map(|repository| repository.main_worktree.unwrap_or(repository.found_in)))
}

/// Returns the directory that all worktrees of the repository around the current directory share.
pub fn common_directory(environment: &Environment) -> Result<Option<PathBuf>> {
    git::common_directory(environment)
}

/// Returns true if locks hold in a directory or, if it is not made yet, in the nearest one above
/// it.
fn is_local(directory: &Path) -> Result<bool> {
    let exists = |above: &&Path| above.exists();
    match directory.ancestors().find(exists) {
        Some(above) => Ok(filesystem::of(above)?.trusted),
        None => Ok(false),
    }
}

/// Makes the path in an address absolute, since the command under `run` may go elsewhere.
fn absolute(url: &str, base: &Path) -> Result<String> {
    match relative(url) {
        Some((scheme, path)) => Ok(format!("{scheme}{}", utf8(&base.join(path))?)),
        None => Ok(url.to_owned()),
    }
}

/// Returns the scheme and the path of an address whose path is relative.
fn relative(url: &str) -> Option<(&'static str, &str)> {
    ["file:", "sqlite:"].into_iter().find_map(|scheme| {
        let path = url.strip_prefix(scheme)?;
        (!path.is_empty() && !path.starts_with('/')).then_some((scheme, path))
    })
}

fn sqlite_url(path: &Path) -> Result<String> {
    Ok(format!("sqlite:{}", utf8(path)?))
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Error::configuration(
            format!("the path of the store is not UTF-8: {}", path.display()),
            "name a store in another place with {$store}",
        )
    })
}

#[cfg(test)]
mod tests;
