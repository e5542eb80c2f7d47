//! `tenure agent watch`: the background workers.
//!
//! Two loops go on side by side: that of the workers, and that of the summaries, whose command may take a minute.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::pending;
use std::process::{Command, ExitCode, Stdio};

use tenure::config::{Commands, EditsUntil};
use tenure::{Class, Keeper, Session, SessionOptions};
use tenure_run::Signals;
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::processor::Processor;
use tenure_work::agents::spool::Spool;
use tenure_work::agents::workers::{Cycle, GONE_AFTER, Workers};
use tokio::time::sleep;

use super::locks::AgentLocks;
use super::summary::{Made, Summariser};
use crate::cli::{AgentWatch, Global};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::output::{self, word};
use crate::people::this_host;
use crate::report::Failure;
use crate::runtime;
use crate::trust;

/// Tends the agents, until it is interrupted.
pub fn watch(global: &Global, options: &AgentWatch) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let state = context.state_directory()?;
        let session = session_of_watcher(&keeper).await?;
        let locks = AgentLocks::open(&context, &session, WAIT_DEFAULT).await?;
        let config = &context.located.config.agents;
        let workers = Workers {
            processor: Processor {
                keeper: &keeper,
                locks: &locks,
                spool: Spool::new(
                    &state,
                    &tenure_service::store_identity::identity(&context.located.url),
                ),
                claim_notes: ClaimNotes::new(&state),
                host: this_host(),
                releases_files_at_stop: context.located.config.guard.edits_until
                    == EditsUntil::Turn,
                hides_commands: context.located.config.commands == Some(Commands::Name),
            },
            gone_after: config.gone_after.unwrap_or(GONE_AFTER),
            panes: &panes,
        };
        let turns = session_of_watcher(&keeper).await?;
        let summariser = summary_command(&context)?.map(|command| Summariser {
            context: &context,
            keeper: &keeper,
            session: &turns,
            command,
        });
        let made = RefCell::new(Made::default());
        let work = async {
            if options.once {
                let cycle = workers.cycle().await?;
                if let Some(summariser) = &summariser {
                    summariser.go_through(&made).await?;
                }
                return tell(global, with_summaries(cycle, &made), true);
            }
            let summaries = summarise(summariser.as_ref(), options, &made);
            tokio::select! {
                ended = go_on(global, options, &workers, &made) => ended,
                never = summaries => match never {},
            }
        };
        tokio::select! {
            _ = signals.interruption() => Ok(ExitCode::SUCCESS),
            worked = work => worked.map(|()| ExitCode::SUCCESS),
        }
    })
}

/// Goes through the agents, again and again.
async fn go_on(
    global: &Global,
    options: &AgentWatch,
    workers: &Workers<'_, AgentLocks<'_>>,
    made: &RefCell<Made>,
) -> Result<(), Failure> {
    loop {
        match workers.cycle().await {
            // A store that is away comes back, and so does the lock that an agent's worker lost with its connection.
            Err(error)
                if matches!(
                    error.class(),
                    Class::Unreachable | Class::Lost | Class::Busy
                ) =>
            {
                let every = tenure::duration::show(options.every);
                word(&format!("{error}; trying again in {every}"));
            }
            cycle => tell(global, with_summaries(cycle?, made), false)?,
        }
        sleep(options.every).await;
    }
}

/// Summarises turns, again and again. What fails is told with the next cycle, and tried again.
async fn summarise(
    summariser: Option<&Summariser<'_>>,
    options: &AgentWatch,
    made: &RefCell<Made>,
) -> Infallible {
    let Some(summariser) = summariser else {
        return pending().await;
    };
    loop {
        if let Err(error) = summariser.go_through(made).await {
            made.borrow_mut()
                .warnings
                .push(format!("summaries: {error}"));
        }
        sleep(options.every).await;
    }
}

/// Adds to a cycle what became of the summaries since the last one.
fn with_summaries(mut cycle: Cycle, made: &RefCell<Made>) -> Cycle {
    let made = made.take();
    cycle.summaries = made.summaries;
    cycle.warnings.extend(made.warnings);
    cycle
}

/// Returns the command that summarises turns, if a person trusts the file that names it.
fn summary_command(context: &Context) -> tenure::Result<Option<Vec<String>>> {
    if context.located.config.agents.summary.is_none() {
        return Ok(None);
    }
    let trusted = trust::trusted(context)?;
    if trusted.is_none() {
        word(
            "turns are not summarised: a person has to trust the command in tenure.toml with: tenure doctor --trust",
        );
    }
    Ok(trusted.and_then(|config| config.agents.summary))
}

/// Returns a session that asks in the name of the caller.
async fn session_of_watcher(keeper: &Keeper) -> tenure::Result<Session> {
    let options = SessionOptions::new(owner(None)?).with_command("tenure agent watch");
    keeper.session(options).await
}

fn tell(global: &Global, cycle: Cycle, once: bool) -> Result<(), Failure> {
    for warning in &cycle.warnings {
        word(warning);
    }
    if global.json {
        return output::json(&cycle);
    }
    let did = [
        (cycle.spooled, "agents with events from the spool"),
        (cycle.stopped, "stopped"),
        (cycle.gone, "called gone"),
        (cycle.turns, "turns from transcripts"),
        (cycle.contexts, "counts of tokens"),
        (cycle.summaries, "summaries"),
        (cycle.reaped, "claims in ledgers reaped"),
        (cycle.skipped, "skipped"),
    ];
    let did = did.into_iter().filter(|(count, _)| *count > 0);
    let did: Vec<String> = did.map(|(count, what)| format!("{count} {what}")).collect();
    match (did.is_empty(), once) {
        (true, true) => output::text("nothing to do\n"),
        (true, false) => Ok(()),
        (false, _) => output::text(&format!("{}\n", did.join(", "))),
    }
}

/// Returns the panes of the tmux at a socket: none if that tmux is gone, `None` if it cannot be asked.
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
