//! `tenure agent watch`: the background workers.

use std::process::{Command, ExitCode, Stdio};

use tenure::config::Commands;
use tenure::{Class, Owner, SessionOptions};
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::process::Processor;
use tenure_work::agents::spool::Spool;
use tenure_work::agents::workers::{Cycle, GONE_AFTER, Workers};

use super::locks::AgentLocks;
use super::summary::summarise;
use crate::cli::{AgentWatch, Global};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::output::{self, word};
use crate::people::this_host;
use crate::report::Failure;
use crate::runtime;
use crate::signals::Signals;
use crate::trust;

/// Tends the agents, until it is interrupted.
pub fn watch(global: &Global, options: &AgentWatch) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let state = context.state_directory()?;
        let session = SessionOptions::new(watcher()?).with_command("tenure agent watch");
        let session = keeper.session(session).await?;
        let locks = AgentLocks::open(&context, &session, WAIT_DEFAULT).await?;
        let config = &context.located.config.agents;
        let workers = Workers {
            processor: Processor {
                keeper: &keeper,
                locks: &locks,
                spool: Spool::new(&state, &crate::identity::identity(&context.located.url)),
                claim_notes: ClaimNotes::new(&state),
                host: this_host(),
                hides_commands: context.located.config.commands == Some(Commands::Name),
            },
            gone_after: config.gone_after.unwrap_or(GONE_AFTER),
            panes: &panes,
        };
        let summary = summary_command(&context)?;
        loop {
            let work = async {
                let mut cycle = workers.cycle().await?;
                if let Some(command) = &summary {
                    let (made, warnings) = summarise(&context, &keeper, &session, command).await?;
                    cycle.summaries = made;
                    cycle.warnings.extend(warnings);
                }
                Ok::<_, tenure::Error>(cycle)
            };
            let worked = tokio::select! {
                _ = signals.interruption() => return Ok(ExitCode::SUCCESS),
                worked = work => worked,
            };
            match worked {
                // A store that is away comes back.
                Err(error) if !options.once && error.class() == Class::Unreachable => {
                    let every = tenure::duration::show(options.every);
                    word(&format!("{error}; trying again in {every}"));
                }
                worked => tell(global, &worked?, options.once)?,
            }
            if options.once {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                _ = signals.interruption() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(options.every) => {}
            }
        }
    })
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

/// The watcher asks in the name of the caller.
fn watcher() -> tenure::Result<Owner> {
    owner(None)
}

fn tell(global: &Global, cycle: &Cycle, once: bool) -> Result<(), Failure> {
    for warning in &cycle.warnings {
        word(warning);
    }
    if global.json {
        return output::json(cycle);
    }
    let did = [
        (cycle.spooled, "agents with events from the spool"),
        (cycle.stopped, "stopped"),
        (cycle.gone, "called gone"),
        (cycle.turns, "turns from transcripts"),
        (cycle.contexts, "counts of tokens"),
        (cycle.summaries, "summaries"),
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
