//! `tenure agent ls`: the agents, each with its work, its locks and its waits.

use std::process::ExitCode;

use clap::Args;
use tenure_api::agents::{self, Listed};

use crate::cli::Global;
use crate::output::word;
use crate::people::ago;
use crate::report::Failure;
use crate::surface::{self, Surface};
use crate::table::Table;

#[derive(Debug, Args)]
pub struct Ls {
    /// Show those that are done or gone, too
    #[arg(long)]
    pub all: bool,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure agent ls
  tenure agent ls --all --json | jq '.agents[].owner'

States: idle, running, waiting (for a person), done (its session is over), gone
(not seen for long; its next event lifts this).
With --json prints {\"agents\":[{\"id\",\"session\",\"program\",\"owner\",\"state\",
\"reason\",\"doing\",\"cwd\",\"started_at\",\"last_seen\",\"context\",\"holds\",
\"waits_for\",\"claims\",…}],\"next\"}.

Exit codes: 0 shown; 69 store unreachable; 78 the store keeps no records.";

/// Shows the agents.
pub fn ls(global: &Global, options: &Ls) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let all = options.all;
    let found = surface.call(agents::Ls { all }, &surface::anyone())?;
    surface.answer(&found, || {
        if found.agents.is_empty() {
            word(if all {
                "no agent is known here: tenure agent install shows how they report"
            } else {
                "no agent is at work here: --all shows those that are done or gone, \
                 and tenure agent install how agents report"
            });
        }
        table(&found.agents).print(&FREE)
    })
}

/// The columns of the table whose cells have any length.
pub const FREE: [&str; 4] = ["DOING", "HOLDS", "WAITS FOR", "CLAIMED"];

/// Returns the table of agents.
pub fn table(agents: &[Listed]) -> Table {
    let headings = vec![
        "AGENT",
        "STATE",
        "SEEN",
        "DOING",
        "HOLDS",
        "WAITS FOR",
        "CLAIMED",
    ];
    let mut table = Table::new(headings).with_colours(1, colour);
    for listed in agents {
        let agent = &listed.agent;
        let doing = agent.doing.clone().or(agent.reason.clone());
        table.push([
            agent.owner.to_string(),
            agent.state.to_string(),
            ago(agent.last_seen),
            doing.unwrap_or_default(),
            listed.holds.join(" "),
            listed.waits_for.join(" "),
            listed.claims.join(", "),
        ]);
    }
    table.without_empty(&["HOLDS", "WAITS FOR", "CLAIMED"])
}

fn colour(state: &str) -> &'static str {
    match state {
        "running" => "\u{1b}[32m",
        "waiting" => "\u{1b}[33m",
        "gone" => "\u{1b}[31m",
        _ => "",
    }
}
