//! The watcher, which tends the agents in the background.
//!
//! It has two loops side by side: one of the workers, and one of the summaries, whose command may
//! take a minute.

mod summary;

use std::convert::Infallible;
use std::future::pending;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tenure::{Class, Error, Keeper, Result, Session, SessionOptions, duration};
use tenure_core::internal::lock;
pub use tenure_work::agents::workers::Cycle;
use tenure_work::agents::workers::{GONE_AFTER, Workers};
use tokio::time::sleep;

use super::locks::AgentLocks;
use crate::{Caller, Service, WAIT_DEFAULT};
use summary::{Made, Summariser};

impl Service {
    /// Tends the agents: once; or with a pause again and again, until it fails or the future is
    /// dropped. Each cycle is told.
    ///
    /// # Errors
    ///
    /// Errors of the store and of `tell`. With a pause, a cycle that finds the store away or busy,
    /// or that loses a lock, is only told of, and tried again.
    pub async fn tend_agents<E: From<Error>>(
        &self,
        pause: Option<Duration>,
        caller: &Caller,
        mut tell: impl FnMut(Cycle) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let keeper = self.locks(caller).await?;
        let state = self.state_directory()?;
        let (_, locks) = self.locks_of_agents(WAIT_DEFAULT, caller).await?;
        let session = session_of_watcher(&keeper, caller);
        let locks = AgentLocks::of(&session, locks);
        let config = &self.located().config.agents;
        let workers = Workers {
            processor: self.processor(&keeper, &locks, &state),
            gone_after: config.gone_after.unwrap_or(GONE_AFTER),
            panes: &panes,
        };
        let turns = session_of_watcher(&keeper, caller);
        let summariser = self.summary_command(caller)?.map(|command| Summariser {
            service: self,
            keeper: &keeper,
            session: &turns,
            command,
        });
        let made = Mutex::new(Made::default());
        let Some(pause) = pause else {
            let cycle = workers.cycle().await?;
            if let Some(summariser) = &summariser {
                summariser.go_through(&made).await?;
            }
            return tell(with_summaries(cycle, &made));
        };
        let working = async {
            loop {
                match workers.cycle().await {
                    // A store that is away comes back, and so does the lock that an agent's worker
                    // lost with its connection.
                    Err(error)
                        if matches!(
                            error.class(),
                            Class::Unreachable | Class::Lost | Class::Busy
                        ) =>
                    {
                        let pause = duration::show(pause);
                        let word = format!("{error}; trying again in {pause}");
                        caller.observer().word(&word);
                    }
                    cycle => tell(with_summaries(cycle?, &made))?,
                }
                sleep(pause).await;
            }
        };
        tokio::select! {
            ended = working => ended,
            never = summarise(summariser.as_ref(), pause, &made) => match never {},
        }
    }

    /// Returns the command that summarises turns, if a person trusts the file that names it.
    fn summary_command(&self, caller: &Caller) -> Result<Option<Vec<String>>> {
        if self.located().config.agents.summary.is_none() {
            return Ok(None);
        }
        let trusted = self.trusted_settings()?;
        if trusted.is_none() {
            caller.tell(
                "turns are not summarised: a person has to trust the command in tenure.toml with: {trust}",
            );
        }
        Ok(trusted.and_then(|config| config.agents.summary))
    }
}

/// Summarises turns, again and again. Failures are told with the next cycle, and tried again.
async fn summarise(
    summariser: Option<&Summariser<'_>>,
    pause: Duration,
    made: &Mutex<Made>,
) -> Infallible {
    let Some(summariser) = summariser else {
        return pending().await;
    };
    loop {
        if let Err(error) = summariser.go_through(made).await {
            let warning = format!("summaries: {error}");
            lock(made).warnings.push(warning);
        }
        sleep(pause).await;
    }
}

/// Adds to a cycle the summaries and failures since the last one.
fn with_summaries(mut cycle: Cycle, made: &Mutex<Made>) -> Cycle {
    let made = std::mem::take(&mut *lock(made));
    cycle.summaries = made.summaries;
    cycle.warnings.extend(made.warnings);
    cycle
}

/// Returns a session that asks in the name of the caller.
fn session_of_watcher(keeper: &Keeper, caller: &Caller) -> Session {
    let options = SessionOptions::new(caller.owner().clone()).with_command("tenure agent watch");
    keeper.session(options)
}

/// Returns the panes of the tmux at a socket: an empty list if that tmux is gone, `None` if it
/// cannot be asked.
fn panes(socket: &str) -> Option<Vec<String>> {
    let listed = Command::new("tmux")
        .args(["-S", socket, "list-panes", "-a", "-F", "#{pane_id}"])
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&listed.stderr);
    let is_gone = ["no server running", "No such file", "Connection refused"];
    let is_gone = is_gone.iter().any(|words| told.contains(words));
    if !listed.status.success() && !is_gone {
        return None;
    }
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    Some(text.lines().map(str::to_owned).collect())
}
