//! The command as a surface: it reads its environment, once, and calls operations.

use std::cell::OnceCell;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tenure::config::Commands;
use tenure::request::command_line;
use tenure::store_choice::{Environment, VARIABLES};
use tenure::{Error, Owner, Result};
use tenure_api::Operation;
use tenure_api::text::Span;
use tenure_run::Signals;
use tenure_service::around::Outers;
use tenure_service::observer::{CopyObserver, Observer, WaitObserver};
use tenure_service::{Caller, Handle, Service, Surroundings, doctor};
use tenure_work::agents::identity;
use tokio::runtime::Runtime;

use crate::cli::Global;
use crate::commands::publish::CopyLine;
use crate::output::{self, word};
use crate::people::this_host;
use crate::report::{self, Failure};
use crate::runtime;
use crate::waiting::{Interruption, Screen};

/// The service of this process, and the form of its answers.
pub struct Surface {
    pub service: Service,
    json: bool,
    /// The one runtime of all calls: the background work of a store goes on between them.
    runtime: OnceCell<Runtime>,
    /// Passes signals on while this thread works on files.
    interruption: OnceCell<Arc<Interruption>>,
}

impl Surface {
    /// Chooses the store and reads the settings.
    pub fn open(global: &Global) -> Result<Self> {
        Self::with(global, global.store.clone(), environment()?)
    }

    /// Reads the settings without choosing a store, so that a missing store is no failure.
    pub fn without_store(global: &Global) -> Result<Self> {
        Self::with(global, Some("memory:".into()), environment()?)
    }

    /// Reads the settings for a board, where the variables of `jit` count, too.
    pub fn for_board(global: &Global) -> Result<Self> {
        let environment = environment()?.for_board();
        Self::with(global, Some("memory:".into()), environment)
    }

    /// Opens the service as if the command were called in another directory.
    pub fn at(global: &Global, directory: Option<PathBuf>) -> Result<Self> {
        let mut environment = environment()?;
        environment.directory = directory.unwrap_or(environment.directory);
        Self::with(global, global.store.clone(), environment)
    }

    /// Opens the service. A `tenure.toml` that does not count gets a word on standard error.
    fn with(global: &Global, store: Option<String>, environment: Environment) -> Result<Self> {
        let known = environment.variable("TENURE_STORE").map(str::to_owned);
        let service = Service::new(Surroundings {
            environment,
            store,
            addresses: known.into_iter().collect(),
        })?;
        for ignored in &service.located().ignored {
            word(&ignored.to_string());
        }
        Ok(Self::of(service, global))
    }

    /// Opens the service without settings, for commands that change them: the present ones may be
    /// broken.
    pub fn without_settings(global: &Global) -> Result<Self> {
        let surroundings = Surroundings {
            environment: environment()?,
            store: None,
            addresses: Vec::new(),
        };
        Ok(Self::of(Service::without_settings(surroundings), global))
    }

    fn of(service: Service, global: &Global) -> Self {
        Self {
            service,
            json: global.json,
            runtime: OnceCell::new(),
            interruption: OnceCell::new(),
        }
    }

    /// Makes calls on several threads, so that a call that works on files for long does not keep
    /// leases from being renewed.
    pub fn on_threads(self) -> Result<Self> {
        let runtime = OnceCell::from(runtime::start_threads()?);
        Ok(Self { runtime, ..self })
    }

    /// Runs a future on the runtime of all calls. A process that it starts is a child of this very
    /// thread.
    pub fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        // The future is boxed at once: the state of a command is large, and would be copied from
        // call to call.
        self.runtime()?.block_on(Box::pin(work))
    }

    fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let runtime = runtime::start()?;
        Ok(self.runtime.get_or_init(|| runtime))
    }

    /// Returns true if answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Returns the caller. Its owner is the one asked for, else `TENURE_OWNER`, the coding agent
    /// that this process runs under, or `user@host`.
    pub fn caller(&self, asked: Option<Owner>) -> Result<Caller> {
        let environment = self.service.environment();
        let agent = identity::running_under(|name| environment.variable(name).map(str::to_owned));
        let named = owner_given(asked)?;
        let is_named = named.is_some();
        let owner = named.or_else(|| agent.clone()).unwrap_or_else(user_at_host);
        let trusts = environment.variable("TENURE_TRUST_FLOCK") == Some("1");
        Ok(Caller::new(owner, self.own_command())
            .named(is_named)
            .under_agent(agent)
            .trusting_file_systems(trusts)
            .told_in(report::word)
            .observed_by(Arc::new(Terminal)))
    }

    /// Returns the caller for a command that takes locks: the locks of the `run`s around it count
    /// as held.
    pub fn caller_within(&self, asked: Option<Owner>) -> Result<Caller> {
        Ok(self.caller(asked)?.within(outers()?))
    }

    /// Calls an operation that waits for nothing but its store.
    pub fn call<O>(&self, request: O, caller: &Caller) -> Result<O::Response, Failure>
    where
        O: Operation,
        Service: Handle<O>,
        Failure: From<O::Error>,
    {
        let calling = self.service.handle(request, caller);
        Ok(self.runtime()?.block_on(Box::pin(calling))?)
    }

    /// Calls an operation that waits: a signal that asks for the end cancels it.
    pub fn call_waiting<O>(&self, request: O, caller: &Caller) -> Result<O::Response, Failure>
    where
        O: Operation,
        Service: Handle<O>,
        Failure: From<O::Error>,
    {
        self.block_on(async {
            let (mut signals, cancel) = (Signals::listen()?, caller.cancel().clone());
            // The listener is a task of its own, as work on files can block this one.
            let listening = tokio::spawn(async move {
                signals.interruption().await;
                cancel.cancel();
            });
            let response = self.service.handle(request, caller).await;
            listening.abort();
            Ok(response?)
        })
    }

    /// Calls an operation that waits for files, on this very thread.
    pub fn call_on_files<O>(&self, request: O, caller: &Caller) -> Result<O::Response, Failure>
    where
        O: Operation,
        Service: Handle<O>,
        Failure: From<O::Error>,
    {
        self.on_files(caller, async |service, caller| {
            Ok(service.handle(request, caller).await?)
        })
    }

    /// Does work on files on this very thread, so that a command that it starts is a child of it. A
    /// signal that asks for the end cancels its waits.
    pub fn on_files<T>(
        &self,
        caller: &Caller,
        work: impl AsyncFnOnce(&Service, &Caller) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let interruption = self.interruption()?;
        let caller = caller.clone().that_may_block();
        let caller = caller.cancelled_by(interruption.cancel());
        let runtime = runtime::start_beside()?;
        interruption.wait();
        let done = runtime.block_on(work(&self.service, &caller));
        interruption.end();
        done
    }

    /// Begins to listen to signals, before any thread of a runtime is started.
    pub fn interruption(&self) -> Result<Arc<Interruption>> {
        if let Some(interruption) = self.interruption.get() {
            return Ok(Arc::clone(interruption));
        }
        let interruption = Arc::new(Interruption::listen()?);
        Ok(Arc::clone(self.interruption.get_or_init(|| interruption)))
    }

    /// Prints a response: as JSON as it is, or in words.
    pub fn answer(
        &self,
        response: &impl Serialize,
        in_words: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        output::answer(self.json, response, in_words)
    }

    /// Returns the line of this command as listings show it.
    pub fn own_command(&self) -> String {
        let words = env::args_os().skip(1);
        self.shown_command(iter::once("tenure".into()).chain(words))
    }

    /// Returns a command line as listings show it.
    pub fn shown_command(&self, words: impl IntoIterator<Item: AsRef<OsStr>>) -> String {
        let mut words = words.into_iter();
        match self.service.located().config.commands.unwrap_or_default() {
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
}

/// Returns a caller for requests that any caller may make: a bad owner in the environment is no
/// hindrance.
pub fn anyone() -> Caller {
    let agent = identity::running_under(|name| env::var(name).ok());
    let owner = owner_given(None).ok().flatten().or_else(|| agent.clone());
    Caller::new(owner.unwrap_or_else(user_at_host), "tenure")
        .under_agent(agent)
        .told_in(report::word)
        .observed_by(Arc::new(Terminal))
}

/// Carries out a call to its end; a signal that asks for the end cancels its waits.
pub async fn cancelled_by_signals<T>(
    calling: impl Future<Output = T>,
    caller: &Caller,
    signals: &mut Signals,
) -> T {
    let mut calling = pin!(calling);
    tokio::select! {
        biased;
        done = &mut calling => return done,
        _ = signals.interruption() => caller.cancel().cancel(),
    }
    calling.await
}

/// Returns the wait that the command line asks for, by `--no-wait` or `--wait`.
pub fn asked_wait(no_wait: bool, wait: Option<Duration>) -> Option<Span> {
    let wait = if no_wait { Some(Duration::ZERO) } else { wait };
    wait.map(Span)
}

/// Shows waits and words on standard error.
struct Terminal;

impl Observer for Terminal {
    fn word(&self, text: &str) {
        word(text);
    }

    fn begin_wait(&self) -> Option<Box<dyn WaitObserver>> {
        Some(Box::new(Screen::of_process()))
    }

    fn begin_copy(&self) -> Option<Box<dyn CopyObserver>> {
        CopyLine::of_process().map(|line| Box::new(line) as Box<dyn CopyObserver>)
    }
}

/// Reads the environment of this process.
pub fn environment() -> Result<Environment> {
    let directory = env::current_dir();
    let directory = directory.map_err(|error| Error::io("find", ".", error))?;
    let uid = rustix::process::geteuid().as_raw();
    // The other variables are not copied, as an environment can be long.
    let known = VARIABLES.into_iter().chain(identity::VARIABLES);
    let known = known.chain(doctor::VARIABLES);
    let set = known.filter_map(|name| Some((name.into(), env::var_os(name)?)));
    Ok(Environment::new(directory, uid).with_variables(set))
}

/// Reads the leases that the outer `run`s left in the environment.
pub fn outers() -> Result<Outers> {
    let Some(text) = env::var_os("TENURE_LEASES").filter(|text| !text.is_empty()) else {
        return Ok(Outers::default());
    };
    let outers = Outers::from_json(text.as_encoded_bytes());
    outers.map_err(|error| {
        Error::configuration(
            format!("bad TENURE_LEASES: {error}"),
            "unset TENURE_LEASES; only tenure run sets it",
        )
    })
}

/// Returns the owner that the caller names: the one asked for, else `TENURE_OWNER`. The agent
/// around this process does not count as named: any caller that has the id of a lease may end it,
/// but an agent only leases that it took itself, which the keeper checks.
pub fn owner_given(asked: Option<Owner>) -> Result<Option<Owner>> {
    if asked.is_some() {
        return Ok(asked);
    }
    let Some(text) = env::var_os("TENURE_OWNER").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let owner = text.to_str().ok_or("it is not UTF-8".to_owned());
    let owner = owner.and_then(|text| Owner::parse(text).map_err(|error| error.to_string()));
    owner.map(Some).map_err(|problem| {
        Error::configuration(
            format!("bad TENURE_OWNER: {problem}"),
            "set TENURE_OWNER to text such as agent:42, or use --owner",
        )
    })
}

/// Returns `user@host`. The name is for people: it comes from the environment, as shells set it,
/// else from the local list of users, since asking the system can mean asking a server.
pub fn user_at_host() -> Owner {
    let named = |name| env::var(name).ok().filter(|user: &String| !user.is_empty());
    let number = rustix::process::getuid().as_raw();
    let uid = || format!("uid{number}");
    let listed = || name_in(&fs::read_to_string("/etc/passwd").ok()?, number);
    let host = this_host();
    let user = named("USER")
        .or_else(|| named("LOGNAME"))
        .or_else(listed)
        .unwrap_or_else(uid);
    let owner = Owner::parse(&format!("{user}@{host}"));
    let owner = owner.or_else(|_| Owner::parse(&format!("{}@{host}", uid())));
    let owner = owner.or_else(|_| Owner::parse(&uid()));
    owner.expect("uid and a number are printable")
}

/// Returns the name of a user in a list such as `/etc/passwd`.
fn name_in(list: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1) == Some(&uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_owner_names_user_and_machine() {
        let owner = user_at_host();
        assert!(owner.as_str().ends_with(&this_host()), "{owner}");
    }

    #[test]
    fn a_user_is_found_by_number() {
        let list = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(name_in(list, 1000).as_deref(), Some("ana"));
        assert_eq!(name_in(list, 7), None);
    }
}
