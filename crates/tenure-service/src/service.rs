//! The service: its stores, settings and places, opened once and shared by all calls.
//!
//! A store is opened by the first call that needs it. A call that only looks makes no store.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tenure::store::Reply;
use tenure::store_choice::{self, Environment, Located, Why, locate};
use tenure::{
    Automated, Error, Keeper, LeaseId, Ranking, Resource, Result, Settings, shown_address,
};
use tenure_board::Board;
use tenure_files::document::Documents;
use tenure_lockfile::FileCaller;
use tenure_postgres::advisory::{self, AdvisoryLocks};
use tokio::sync::OnceCell;

use crate::store_identity::{is_same_store, is_server, is_there};
use crate::waiting::WaitTeller;
use crate::{Caller, Limit, WAIT_DEFAULT, opening};

/// The surroundings of a surface, read once.
#[derive(Clone)]
pub struct Surroundings {
    /// The directory, the user and the variables.
    pub environment: Environment,
    /// The address of the store that was asked for, if any.
    pub store: Option<String>,
    /// Addresses with passwords that may be known here, for stores that a `run` around the call
    /// names without.
    pub addresses: Vec<String>,
}

/// The state that all calls share.
pub struct Service {
    surroundings: Surroundings,
    located: Located,
    locks: OnceCell<Keeper>,
    slots: OnceCell<Keeper>,
    /// The boards that are open, by their directories.
    pub(crate) boards: Mutex<HashMap<PathBuf, Board>>,
    documents: OnceLock<Documents>,
    advisory: OnceCell<AdvisoryLocks>,
}

impl Service {
    /// Chooses the store and reads the settings. Opens nothing.
    pub fn new(surroundings: Surroundings) -> Result<Self> {
        let located = locate(surroundings.store.as_deref(), &surroundings.environment)?;
        Ok(Self::with(surroundings, located))
    }

    /// Returns a service without a store and with the default settings, for operations that change
    /// the settings: the present ones may be broken.
    pub fn without_settings(surroundings: Surroundings) -> Self {
        Self::with(surroundings, Located::nowhere())
    }

    fn with(surroundings: Surroundings, located: Located) -> Self {
        Self {
            surroundings,
            located,
            locks: OnceCell::new(),
            slots: OnceCell::new(),
            boards: Mutex::default(),
            documents: OnceLock::new(),
            advisory: OnceCell::new(),
        }
    }

    /// Returns a service with the surroundings of this one, in another directory.
    pub fn at(&self, directory: PathBuf) -> Result<Self> {
        let mut surroundings = self.surroundings.clone();
        surroundings.environment.directory = directory;
        Self::new(surroundings)
    }

    /// Returns the store that was chosen, the reason, and the settings.
    pub fn located(&self) -> &Located {
        &self.located
    }

    /// Returns the directory, the user and the variables.
    pub fn environment(&self) -> &Environment {
        &self.surroundings.environment
    }

    /// Returns the settings of a keeper for a caller.
    pub fn settings(&self, caller: &Caller) -> Settings {
        let config = &self.located.config;
        let mut settings = Settings::default()
            .with_ranking(config.ranking())
            .with_retry(config.retry_policy())
            .with_automated(self.automated(caller))
            .with_actor(Some(caller.owner().clone()));
        settings.heartbeat = config.heartbeat;
        settings.stale_grace = config.stale_grace;
        settings.trust_flock = self.trusts_file_systems();
        settings
    }

    /// Returns the default wait of a call: that of the settings, else `wait`.
    pub fn default_wait(&self, wait: Duration) -> Duration {
        self.located.config.wait.unwrap_or(wait)
    }

    /// Returns the rules for automated owners, who may not do what only people may. Under a coding
    /// agent every owner is automated, whatever it is named.
    pub fn automated(&self, caller: &Caller) -> Automated {
        caller.automated(self.located.config.automated())
    }

    /// Returns true if the caller is automated, and may not do what only people may.
    pub(crate) fn is_automated(&self, caller: &Caller) -> bool {
        self.automated(caller).covers(caller.owner())
    }

    /// Returns a caller of operations on files, whose waits end after `wait`. `teller` ends its
    /// report when the locks are held.
    pub(crate) fn file_caller(
        &self,
        caller: &Caller,
        wait: Duration,
        teller: &WaitTeller,
    ) -> FileCaller {
        let teller = teller.clone();
        let mut file_caller = FileCaller::new(caller.asker(), wait);
        file_caller.is_automated = self.is_automated(caller);
        file_caller.cancel = caller.cancel().clone();
        file_caller.on_locked = Arc::new(move || teller.end());
        file_caller
    }

    /// Refuses an automated caller that trusts a file system of its own accord: only people may
    /// say, in the settings, that locks hold there.
    pub fn check_caller(&self, caller: &Caller) -> Result<()> {
        let (owner, automated) = (caller.owner(), self.automated(caller));
        if caller.trusts_file_systems && automated.covers(owner) {
            return Err(Error::not_allowed(
                format!(
                    "{owner} may not trust a file system: {}",
                    automated.reason(owner)
                ),
                "unset {$trust_flock}; a person may set trust_flock = true in tenure.toml",
            ));
        }
        Ok(())
    }

    /// Returns how long a call waits: as long as it asks, else as the settings say, else `default`.
    /// Without a wish of its own, an automated owner waits no longer than its limit. Refuses an
    /// automated owner that asks for a longer wait or lease than it may.
    pub fn limit(
        &self,
        caller: &Caller,
        asked: Option<Duration>,
        default: Duration,
        ttl: Option<Duration>,
    ) -> Result<Limit> {
        self.check_caller(caller)?;
        let (owner, automated) = (caller.owner(), self.automated(caller));
        let mut setting = self.default_wait(default);
        if automated.covers(owner) {
            setting = setting.min(automated.wait_max);
        }
        let limit = Limit::chosen(asked, setting);
        automated.check_wait(owner, limit.whole())?;
        automated.check_ttl(owner, ttl.unwrap_or_default())?;
        Ok(limit)
    }

    /// Returns the keeper of the locks, for a caller.
    pub async fn locks(&self, caller: &Caller) -> Result<Keeper> {
        self.open_locks(self.settings(caller), None, caller).await
    }

    /// Returns the keeper of the locks, for a call whose limit includes the opening of the store.
    /// If it names the resource that it is going to wait for, a cancellation ends the opening.
    pub async fn locks_within(
        &self,
        caller: &Caller,
        limit: Limit,
        resource: Option<&Resource>,
    ) -> Result<Keeper> {
        let settings = self.settings(caller).with_open(limit.for_opening());
        self.open_locks(settings, resource, caller).await
    }

    async fn open_locks(
        &self,
        settings: Settings,
        resource: Option<&Resource>,
        caller: &Caller,
    ) -> Result<Keeper> {
        // The future is boxed as a trait object, or the type of every call would nest as deep as
        // the opening of every store.
        let opening: Reply<'_, Keeper> = Box::pin(async {
            self.check_directory()?;
            let shown = self.shown_store();
            let opening = Keeper::open_with(&self.located.url, settings.clone());
            let keeper = opening::open(opening, &shown, resource, caller).await?;
            match keeper.capabilities().cross_process {
                true => Ok(keeper),
                false => Err(Error::configuration(
                    format!(
                        "{} keeps no one out: other processes cannot see it",
                        self.located.url
                    ),
                    "name a store that processes share, such as sqlite:PATH",
                )),
            }
        });
        let keeper = self.locks.get_or_try_init(|| opening).await?;
        Ok(self.for_caller(keeper, caller))
    }

    /// Returns the keeper of the locks, and the advisory locks if the store is a server. If neither
    /// is open, both are opened together, with one connection each; two openings would take four.
    /// `wait` is the longest wait for a server.
    pub(crate) async fn locks_of_agents(
        &self,
        wait: Duration,
        caller: &Caller,
    ) -> Result<(Keeper, Option<AdvisoryLocks>)> {
        let settings = self.settings(caller).with_open(wait);
        if !self.is_on_server() {
            return Ok((self.open_locks(settings, None, caller).await?, None));
        }
        let advisory = advisory::Settings::default()
            .with_wait(wait)
            .with_open(wait);
        let opening: Reply<'_, AdvisoryLocks> = Box::pin(async {
            let url = &self.located.url;
            if self.locks.initialized() {
                return AdvisoryLocks::open(url, advisory).await;
            }
            let opening = Keeper::open_with_locks(url, settings.clone(), &advisory);
            let opened = opening::open(opening, &self.shown_store(), None, caller).await;
            let (keeper, locks) = opened?;
            // If another call opened it meanwhile, the keeper of that call counts.
            drop(self.locks.set(keeper));
            Ok(locks)
        });
        let locks = self.advisory.get_or_try_init(|| opening).await?.clone();
        let keeper = self.open_locks(settings, None, caller).await?;
        Ok((keeper, Some(locks)))
    }

    /// Returns a keeper of an open store that answers this caller.
    fn for_caller(&self, keeper: &Keeper, caller: &Caller) -> Keeper {
        keeper.asked_by(self.automated(caller), caller.owner().clone())
    }

    /// Returns the keeper of the slots, which this user shares in all directories.
    pub async fn slots(&self, caller: &Caller) -> Result<Keeper> {
        let opening: Reply<'_, Keeper> = Box::pin(async {
            let mut settings = self.settings(caller);
            // Trust in a file system and an order of locks are settings of one directory only.
            settings.trust_flock = false;
            settings.ranking = Ranking::default();
            Keeper::open_with(&self.slots_url()?, settings).await
        });
        let keeper = self.slots.get_or_try_init(|| opening).await?;
        Ok(self.for_caller(keeper, caller))
    }

    /// Returns the keeper of the slots if its store exists. A look for a lease does not make it.
    pub async fn slots_if_made(&self, caller: &Caller) -> Result<Option<Keeper>> {
        if is_there(&self.slots_url()?) {
            self.slots(caller).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the keeper of the slots, or that of the locks if `of_slots` is false.
    pub async fn locks_or_slots(&self, of_slots: bool, caller: &Caller) -> Result<Keeper> {
        if of_slots {
            self.slots(caller).await
        } else {
            self.locks(caller).await
        }
    }

    /// Returns the keeper that has a lease: that of the locks, or that of the slots. An id is never
    /// given twice, so it names one lease. The store of the slots is not made for this.
    pub async fn keeper_of(&self, lease: &LeaseId, caller: &Caller) -> Result<Keeper> {
        let locks = self.locks(caller).await?;
        if !matches!(locks.find(lease).await, Err(Error::NotFound(_))) {
            return Ok(locks);
        }
        if let Ok(Some(slots)) = self.slots_if_made(caller).await
            && !matches!(slots.find(lease).await, Err(Error::NotFound(_)))
        {
            return Ok(slots);
        }
        // This store reports that there is no such lease.
        Ok(locks)
    }

    /// Returns documents, which all calls share.
    pub(crate) fn documents(&self) -> &Documents {
        self.documents.get_or_init(|| {
            let documents = Documents::new(WAIT_DEFAULT);
            if self.trusts_file_systems() {
                documents.trusting_the_file_system()
            } else {
                documents
            }
        })
    }

    /// Returns true if the settings say that locks hold on every file system.
    pub(crate) fn trusts_file_systems(&self) -> bool {
        self.located.config.trust_flock.unwrap_or(false)
    }

    /// Returns the address of the store of the slots.
    pub fn slots_url(&self) -> Result<String> {
        store_choice::slots(self.environment())
    }

    /// Returns the user's state directory.
    pub fn state_directory(&self) -> Result<PathBuf> {
        store_choice::state_directory(self.environment())
    }

    /// Returns the usual directory of the board, for requests that name none.
    pub fn board_directory(&self) -> Result<PathBuf> {
        store_choice::board(self.environment())
    }

    /// Returns true if there is a `tenure.toml` or a repository around.
    pub fn has_project(&self) -> bool {
        let repository = store_choice::main_worktree(self.environment());
        self.located.config_path.is_some() || repository.is_ok_and(|found| found.is_some())
    }

    /// Returns the address of the store as it may be shown: without a password.
    pub fn shown_store(&self) -> String {
        shown_address(&self.located.url)
    }

    /// Returns true if the store is a server, which ends leases that are not renewed.
    pub fn is_on_server(&self) -> bool {
        is_server(&self.located.url)
    }

    /// Returns true if the store has leases that outlive a session and are known by their ids.
    pub fn keeps_leases(&self) -> bool {
        !self.located.url.starts_with("file:")
    }

    /// Returns the address by which another process opens the same store. The address of a server
    /// is as the user gave it, with the password and all options.
    pub fn address_for_others<'a>(&'a self, keeper: Option<&'a Keeper>) -> &'a str {
        match keeper {
            Some(keeper) if !self.is_on_server() => keeper.url(),
            _ => &self.located.url,
        }
    }

    /// Returns an address that opens a store which a `run` around this call named. A `run` passes
    /// an address on without its password; an address of our own may have the password.
    pub fn openable(&self, store: &str) -> String {
        let own = [&self.located.url].into_iter();
        let mut own = own.chain(&self.surroundings.addresses);
        let same = own.find(|own| is_server(store) && is_same_store(own, store));
        same.map_or_else(|| store.to_owned(), String::clone)
    }

    /// Returns the path of the database, if it does not exist yet. A look need not make it.
    pub fn missing_store(&self) -> Option<&Path> {
        missing(&self.located.url)
    }

    /// Refuses to make more than one directory for a database that was named by hand: if two are
    /// missing, the path is mistyped, and locks taken there would keep no other process out.
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

/// Returns the path of the database of an address, if it does not exist yet.
pub fn missing(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite:");
    let path = path.filter(|path| !path.is_empty()).map(Path::new)?;
    matches!(path.try_exists(), Ok(false)).then_some(path)
}
