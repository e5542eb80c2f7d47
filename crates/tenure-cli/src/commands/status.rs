//! `tenure status`: agents, locks, slots and the board on one page.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure_api::status::{self, IssueCounts, SlotUse, StatusPage};
use tenure_run::Signals;
use tenure_service::Handle;

use super::agent::{FREE, table};
use crate::cli::Global;
use crate::listing::View;
use crate::output;
use crate::report::Failure;
use crate::surface::{self, Surface};

#[derive(Debug, Args)]
pub struct Status {
    /// Draw it anew every second until interrupted
    #[arg(long)]
    pub watch: bool,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure status
  tenure status --watch
  tenure status --json | jq '.slots'

With --json prints {\"agents\":[…],\"held\":[…],\"waiting\":[…],\"slots\":[{\"slot\",
\"held\",\"waiting\"}],\"board\":null|{\"open\",\"ready\",\"claimed\",\"blocked\",\"done\"}}.

Exit codes: 0 shown; 69 store unreachable; 78 bad configuration.";

/// The interval at which the page is drawn anew.
const EVERY: Duration = Duration::from_secs(1);

/// Shows the page once, or draws it anew until interrupted.
pub fn status(global: &Global, options: &Status) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface::anyone();
    surface.block_on(async {
        let mut signals = Signals::listen()?;
        loop {
            let page = surface.service.handle(status::Status {}, &caller).await?;
            if surface.is_json() {
                output::json(&page)?;
            } else {
                if options.watch {
                    output::exact("\u{1b}[H\u{1b}[2J")?;
                }
                show(&page, &surface.service.shown_store())?;
            }
            if !options.watch {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                _ = signals.interruption() => return Ok(ExitCode::SUCCESS),
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    })
}

fn show(page: &StatusPage, store: &str) -> Result<(), Failure> {
    output::text(&format!("store: {store}\n"))?;
    if page.agents.is_empty() {
        output::text("\nno agent is at work\n")?;
    } else {
        output::text("\n")?;
        table(&page.agents).print(&FREE)?;
    }
    let view = View {
        listing: &page.listing,
        by_id: true,
    };
    output::text(&format!("\n{}", view.text(crate::table::width())))?;
    for slot in &page.slots {
        let SlotUse {
            slot,
            held,
            waiting,
        } = slot;
        output::text(&format!(
            "\nslot {slot}: {held} in use, {waiting} waiting\n"
        ))?;
    }
    if let Some(counts) = &page.board {
        let IssueCounts {
            open,
            ready,
            claimed,
            blocked,
            done,
        } = counts;
        output::text(&format!(
            "\nboard: {open} open ({ready} ready, {claimed} claimed, {blocked} blocked), {done} done\n"
        ))?;
    }
    Ok(())
}
