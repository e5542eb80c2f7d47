//! `tenure agent watch`: tends the agents in the background.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_run::Signals;
use tenure_work::agents::workers::Cycle;

use crate::cli::Global;
use crate::cli::values::parse_wait;
use crate::output::{self, word};
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Watch {
    /// One go through all agents, then end
    #[arg(long)]
    pub once: bool,
    /// How long to wait between two goes
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "5s")]
    pub every: Duration,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure agent watch
  tenure agent watch --once --json

Processes events that hooks could not, carries out stops that are due, calls
agents gone that were not seen for long ([agents] gone_after in tenure.toml, 1h)
or whose tmux pane is gone, adds turns and token counts from transcripts, and
summarises turns with [agents] summary, once a person ran `tenure doctor --trust`.
An agent that a hook is at is skipped, and comes in the next go. It ends no
lease but the files of a turn that has ended (edits_until), and reaps the ledgers that
agents have claimed in.
With --json prints one object for each go: {\"spooled\",\"stopped\",\"gone\",\"turns\",
\"contexts\",\"summaries\",\"skipped\",\"warnings\"}.

Exit codes: 0 after --once; 69 store unreachable; 78 bad configuration.";

/// Tends the agents, until it is interrupted.
pub fn watch(global: &Global, options: &Watch) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    let pause = (!options.once).then_some(options.every);
    surface.block_on(async {
        let mut signals = Signals::listen()?;
        let tell = |cycle| tell(surface.is_json(), &cycle, options.once);
        tokio::select! {
            _ = signals.interruption() => {}
            ended = surface.service.tend_agents(pause, &caller, tell) => ended?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn tell(json: bool, cycle: &Cycle, once: bool) -> Result<(), Failure> {
    for warning in &cycle.warnings {
        word(warning);
    }
    if json {
        return output::json(cycle);
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
