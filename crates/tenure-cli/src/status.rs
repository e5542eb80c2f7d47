//! `tenure status`: agents, locks, slots and the board on one page.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tenure::{Class, Listing, Query, Result};
use tenure_board::Board;
use tenure_board::issue::IssueState;
use tenure_run::Signals;
use tenure_work::agents::claim_notes::ClaimNotes;

use crate::agent::{FREE, Listed, agents, table};
use crate::cli::{Global, Status};
use crate::context::{Context, WAIT_DEFAULT};
use crate::listing::View;
use crate::output;
use crate::report::Failure;
use crate::runtime;

/// The interval at which the page is drawn anew.
const EVERY: Duration = Duration::from_secs(1);

/// Everything on the page.
#[derive(Serialize)]
struct Page {
    agents: Vec<Listed>,
    #[serde(flatten)]
    listing: Listing,
    slots: Vec<SlotUse>,
    board: Option<Counts>,
}

/// The use of a slot.
#[derive(Default, Serialize)]
struct SlotUse {
    slot: String,
    held: usize,
    waiting: usize,
}

/// The issues of the board.
#[derive(Default, Serialize)]
struct Counts {
    open: usize,
    ready: usize,
    claimed: usize,
    blocked: usize,
    done: usize,
}

/// Shows the page, once or again and again.
pub fn status(global: &Global, options: &Status) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        loop {
            let page = page(&context).await?;
            if global.json {
                output::json(&page)?;
            } else {
                if options.watch {
                    output::exact("\u{1b}[H\u{1b}[2J")?;
                }
                show(&page, &context.shown())?;
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

async fn page(context: &Context) -> Result<Page> {
    let mut page = Page {
        agents: Vec::new(),
        listing: Listing::new(Vec::new(), None).with_waiting(Vec::new(), None),
        slots: slots(context).await?,
        board: board(context)?,
    };
    // Looking makes no store.
    if tenure_service::service::missing(&context.located.url).is_some() {
        return Ok(page);
    }
    let keeper = context.keeper(WAIT_DEFAULT).await?;
    let notes = ClaimNotes::new(&context.state_directory()?);
    page.listing = keeper.list(&Query::default()).await?;
    // A store without records knows no agents.
    let slots = context.slots_if_made().await?;
    page.agents = match agents(&keeper, slots.as_ref(), &notes, false).await {
        Err(error) if error.class() == Class::Configuration => Vec::new(),
        agents => agents?,
    };
    Ok(page)
}

async fn slots(context: &Context) -> Result<Vec<SlotUse>> {
    let mut slots: BTreeMap<String, SlotUse> = BTreeMap::new();
    let Some(keeper) = context.slots_if_made().await? else {
        return Ok(Vec::new());
    };
    let listing = keeper.list(&Query::default()).await?;
    let held = listing.held.iter().map(|lease| (lease.resource.id(), true));
    let waiting = listing.waiting.iter().flatten();
    let waiting = waiting.map(|waiter| (waiter.resource.id(), false));
    for (slot, is_held) in held.chain(waiting) {
        let used = slots.entry(slot.to_owned()).or_default();
        slot.clone_into(&mut used.slot);
        match is_held {
            true => used.held += 1,
            false => used.waiting += 1,
        }
    }
    Ok(slots.into_values().collect())
}

/// Counts the issues, if there is a board.
fn board(context: &Context) -> Result<Option<Counts>> {
    let directory = context.board_directory()?;
    if !directory.join("index.json").exists() {
        return Ok(None);
    }
    let board = Board::open(&directory, WAIT_DEFAULT)?;
    let list = board.list()?;
    let blocked = board.blocked(&list);
    let mut counts = Counts::default();
    for issue in &list.issues {
        if issue.state == IssueState::Done {
            counts.done += 1;
            continue;
        }
        counts.open += 1;
        let is_claimed = issue.claim.is_some() && !board.is_claim_over(issue);
        match (is_claimed, blocked.contains_key(&issue.id)) {
            (true, _) => counts.claimed += 1,
            (false, true) => counts.blocked += 1,
            (false, false) => counts.ready += 1,
        }
    }
    Ok(Some(counts))
}

fn show(page: &Page, store: &str) -> Result<(), Failure> {
    output::text(&format!("store: {store}\n"))?;
    match page.agents.is_empty() {
        true => output::text("\nno agent is at work\n")?,
        false => {
            output::text("\n")?;
            table(&page.agents).print(&FREE)?;
        }
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
        let Counts {
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
