//! The store, the owner and the settings of a command.

use std::env;
use std::ffi::OsStr;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::config::Commands;
use tenure::request::command_line;
use tenure::store_choice::{self, Environment, Located, Why, locate};
use tenure::{Automated, Error, Keeper, Owner, Ranking, Result, Settings, shown_address};
use tenure_work::agents::identity;

use crate::cli::Global;
use crate::opening::open_and_tell;
use crate::output::word;
use crate::surface::{owner_given, user_at_host};
use tenure_service::Limit;
use tenure_service::store_identity::{is_same_store, is_server};

/// The default wait of commands.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// The store and settings that every command starts with.
pub struct Context {
    /// The store chosen, why, and the settings found on the way.
    pub located: Located,
    environment: Environment,
}

impl Context {
    /// Chooses the store. A `tenure.toml` that does not count gets a word on standard error.
    pub fn new(global: &Global) -> Result<Self> {
        Self::with(global.store.as_deref(), crate::surface::environment()?)
    }

    /// Reads the settings without choosing a store, so that it does not matter if none can be found here.
    pub fn without_store() -> Result<Self> {
        Self::with(Some("memory:"), crate::surface::environment()?)
    }

    /// Does the same for a board, where the variables of `jit` count, too.
    pub fn for_board() -> Result<Self> {
        Self::with(Some("memory:"), crate::surface::environment()?.for_board())
    }

    fn with(store: Option<&str>, environment: Environment) -> Result<Self> {
        let located = locate(store, &environment)?;
        for ignored in &located.ignored {
            word(&ignored.to_string());
        }
        Ok(Self {
            located,
            environment,
        })
    }

    /// Returns the settings with `wait` as the default for waiting.
    pub fn settings(&self, wait: Duration) -> Settings {
        let config = &self.located.config;
        let mut settings = Settings::default()
            .with_ranking(config.ranking())
            .with_retry(config.retry_policy())
            .with_wait(config.wait.unwrap_or(wait))
            .with_automated(self.automated())
            .with_actor(owner(None).ok());
        settings.heartbeat = config.heartbeat;
        settings.stale_grace = config.stale_grace;
        settings.trust_flock = config.trust_flock.unwrap_or(false);
        settings
    }

    /// Returns who may not do what is for people. Under a coding agent that is everybody, whatever
    /// owner is named.
    pub fn automated(&self) -> Automated {
        let agent = identity::running_under(|name| env::var(name).ok());
        self.located.config.automated().under_agent(agent)
    }

    /// Opens the store.
    pub async fn keeper(&self, wait: Duration) -> Result<Keeper> {
        self.open(self.settings(wait)).await
    }

    /// Opens the store for a request whose limit includes the opening.
    pub async fn keeper_within(&self, wait: Duration, limit: Limit) -> Result<Keeper> {
        let settings = self.settings(wait).with_open(limit.for_opening());
        self.open(settings).await
    }

    /// Opens the store with settings.
    pub async fn open(&self, settings: Settings) -> Result<Keeper> {
        self.check_directory()?;
        let opening = Keeper::open_with(&self.located.url, settings);
        let keeper = open_and_tell(opening, &self.shown()).await?;
        if keeper.store().capabilities().cross_process {
            return Ok(keeper);
        }
        Err(Error::configuration(
            format!(
                "{} keeps no one out: other processes cannot see it",
                self.located.url
            ),
            "name a store that processes share, such as sqlite:PATH",
        ))
    }

    /// Returns the address by which the command under `run` opens the same store. That of a server is as
    /// the user gave it: with the password, and all it says about how to connect.
    pub fn for_command<'a>(&'a self, keeper: Option<&'a Keeper>) -> &'a str {
        match keeper {
            Some(keeper) if !is_server(&self.located.url) => keeper.store().url(),
            _ => &self.located.url,
        }
    }

    /// Returns the address by which a store that a `run` around this one named can be opened. It is
    /// passed on without its password; the one that this command is given has it.
    pub fn openable(&self, store: &str) -> String {
        let own = [
            Some(self.located.url.clone()),
            env::var("TENURE_STORE").ok(),
        ];
        let mut own = own.into_iter().flatten();
        let same = own.find(|own| is_server(store) && is_same_store(own, store));
        same.unwrap_or_else(|| store.to_owned())
    }

    /// Returns the address of the store as it may be shown: without a password.
    pub fn shown(&self) -> String {
        shown_address(&self.located.url)
    }

    /// Returns a command line as listings show it.
    pub fn shown_command(&self, words: impl IntoIterator<Item: AsRef<OsStr>>) -> String {
        let mut words = words.into_iter();
        match self.located.config.commands.unwrap_or_default() {
            Commands::Line => command_line(words),
            Commands::Name => {
                let program = words.next();
                let name = program
                    .as_ref()
                    .and_then(|word| Path::new(word).file_name());
                command_line(name)
            }
        }
    }

    /// Returns the line of this command as listings show it.
    pub fn own_command(&self) -> String {
        let words = env::args_os().skip(1);
        self.shown_command(iter::once("tenure".into()).chain(words))
    }

    /// Returns where the board is, if nobody names a place.
    pub fn board_directory(&self) -> Result<PathBuf> {
        store_choice::board(&self.environment)
    }

    /// Returns the owner, see [`owner`]. An automated one may not trust a file system
    /// of its own accord: whether locks can be trusted there is for people to say, in `tenure.toml`.
    pub fn owner(&self, asked: Option<Owner>) -> Result<Owner> {
        let owner = owner(asked)?;
        let trusts = env::var_os("TENURE_TRUST_FLOCK").is_some_and(|value| value == "1");
        if trusts && self.automated().covers(&owner) {
            return Err(Error::not_allowed(
                format!(
                    "{owner} may not trust a file system: {}",
                    self.automated().reason(&owner)
                ),
                "unset TENURE_TRUST_FLOCK; a person may set trust_flock = true in tenure.toml",
            ));
        }
        Ok(owner)
    }

    /// Returns the owner, if it may lease for so long, and how long it waits: as asked, if it may wait for so long; else as set or by
    /// default, which for an automated owner is never above its limit.
    pub fn owner_and_limit(
        &self,
        asked: Option<Owner>,
        wait: Option<Duration>,
        default: Duration,
        ttl: Option<Duration>,
    ) -> Result<(Owner, Limit)> {
        let owner = self.owner(asked)?;
        let automated = self.automated();
        let setting = self.settings(default).wait;
        let setting = match automated.covers(&owner) {
            true => setting.min(automated.wait_max),
            false => setting,
        };
        let limit = Limit::chosen(wait, setting);
        automated.check_wait(&owner, limit.whole())?;
        automated.check_ttl(&owner, ttl.unwrap_or_default())?;
        Ok((owner, limit))
    }

    /// Returns where the slots are.
    pub fn slots_url(&self) -> Result<String> {
        store_choice::slots(&self.environment)
    }

    /// Opens the store of the slots: the same for this user in all directories.
    pub async fn slots(&self, wait: Duration) -> Result<Keeper> {
        let url = self.slots_url()?;
        let mut settings = self.settings(wait);
        // The trust and the order of one directory must not count for all.
        settings.trust_flock = false;
        settings.ranking = Ranking::default();
        Keeper::open_with(&url, settings).await
    }

    /// Refuses to make more than one directory for a database that was named by hand: two missing
    /// ones are a mistyped path, and locks taken there would keep nobody out.
    fn check_directory(&self) -> Result<()> {
        let Some(path) = self.located.url.strip_prefix("sqlite:") else {
            return Ok(());
        };
        if self.located.is_user {
            return Ok(());
        }
        let directory = Path::new(path).parent();
        let above = directory.and_then(Path::parent);
        let (Why::Asked | Why::Variable, Some(directory), Some(above)) =
            (&self.located.why, directory, above)
        else {
            return Ok(());
        };
        // A directory that cannot be looked at fails when it is opened.
        if !matches!(above.try_exists(), Ok(false)) {
            return Ok(());
        }
        let (why, directory) = (&self.located.why, directory.display());
        Err(Error::configuration(
            format!(
                "there is no directory {} for the database {path} ({why})",
                above.display()
            ),
            format!("correct it, or make the directory with: mkdir -p {directory}"),
        ))
    }
}

/// Returns the owner: the one asked for, `TENURE_OWNER`, the coding agent that this process runs under, else `user@host`.
pub fn owner(asked: Option<Owner>) -> Result<Owner> {
    if let Some(given) = owner_given(asked)? {
        return Ok(given);
    }
    let agent = identity::running_under(|name| env::var(name).ok());
    Ok(agent.unwrap_or_else(user_at_host))
}

/// Returns the wait that the command line asks for, by `--no-wait` or `--wait`.
pub fn asked(no_wait: bool, wait: Option<Duration>) -> Option<Duration> {
    if no_wait { Some(Duration::ZERO) } else { wait }
}
