//! `tenure board events`: shows the events of a board.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};
use tenure_api::board::{BoardEvent, ReadBoardEvents};

use super::BoardSurface;
use crate::cli::Global;
use crate::output;
use crate::people::visible;
use crate::report::Failure;

/// The interval of checks that a reader still takes the output.
const UNREAD_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Events {
    /// Only what comes after this line of the log
    #[arg(
        long,
        value_name = "LINE",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub after: u64,
    /// Go on with each event as it comes
    #[arg(long)]
    pub follow: bool,
    /// The board (default: that of the git repository, else of the user)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure board events --after 40
  tenure board events --follow --json          one object a line

Takes no lock. With --json prints {\"events\":[{\"line\",\"event\"}],\"next\":null}.

Exit codes: 0 shown; 66 there is no board.";

/// Shows the events so far, or goes on with each event as it comes.
pub fn events(global: &Global, options: Events) -> Result<ExitCode, Failure> {
    let on = BoardSurface::open_unowned(global, options.dir)?;
    let request = ReadBoardEvents {
        board: on.dir.clone(),
        after: options.after,
    };
    if options.follow {
        return follow(&on, request);
    }
    let read = on.surface.call(request, &on.caller);
    let page = read.map_err(|failure| on.failure(failure))?;
    on.surface.answer(&page, || {
        let mut events = page.events.iter();
        events.try_for_each(|event| print(event, false))
    })
}

fn follow(on: &BoardSurface, request: ReadBoardEvents) -> Result<ExitCode, Failure> {
    let failed = |error| on.failure(Failure::Error(error));
    let following = on.surface.service.follow_board_events(request);
    let mut following = following.map_err(failed)?;
    loop {
        let events = following.next(UNREAD_EVERY).map_err(failed)?;
        for event in &events {
            print(event, on.surface.is_json())?;
        }
        if events.is_empty() && output::is_unread() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Prints an event as JSON, or as `7  2026-…  agent:1  issue_claimed fix-login`.
fn print(event: &BoardEvent, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(event);
    }
    let field = |name: &str| event.field(name).unwrap_or_default();
    let about = event.field("issue_id").or_else(|| event.field("gate"));
    output::text(&format!(
        "{}  {}  {}  {} {}\n",
        event.line,
        visible(&field("timestamp")),
        visible(&field("owner")),
        visible(&field("type")),
        visible(&about.unwrap_or_default())
    ))
}
