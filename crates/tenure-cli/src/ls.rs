//! `tenure ls`: what is held, by whom and why.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use tenure::{Error, Keeper, Lease, LeaseId, Listing, Query, Resource, Result, Waiting, duration};

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT};
use crate::people::{OUTLIVED, age, columns, cut, outlived, this_host, visible};
use crate::report::{Failure, word};

const HEADINGS: [&str; 7] = [
    "RESOURCE", "MODE", "OWNER", "PID", "AGE", "PURPOSE", "COMMAND",
];
/// What may be cut to fit a terminal, and to no less than this.
const CUT_MIN: usize = 8;
const PURPOSE: usize = 5;
const COMMAND: usize = 6;

/// Shows one page of what is held and who waits.
pub fn ls(global: &Global, options: &cli::Ls) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(crate::run::unavailable)?;
    let (listing, outlived) = runtime.block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let listing = list(&keeper, options).await?;
        let outlived = match global.json {
            true => Vec::new(),
            false => outlived(&keeper, &listing.held).await,
        };
        Ok::<_, Error>((listing, outlived))
    })?;
    let nothing = match options.prefix.is_some() || options.owner.is_some() {
        true => "nothing that matches is held",
        false if options.after.is_some() => "nothing more is held",
        false => "nothing is held",
    };
    match global.json {
        true => print_json(&listing)?,
        false => print_table(&listing, &outlived, nothing)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(listing: &Listing) -> Result<(), Failure> {
    let document = serde_json::to_string(listing);
    let document = document.expect("a listing is always serialisable");
    writeln!(io::stdout(), "{document}").map_err(Failure::output)
}

/// The beginnings a prefix stands for, in order. Without a `:` it is that of a name, and a whole kind.
fn beginnings(prefix: &str) -> Vec<String> {
    if prefix.contains(':') {
        return vec![prefix.to_owned()];
    }
    let kind = Resource::new(prefix, "x")
        .is_ok()
        .then(|| format!("{prefix}:"));
    match kind {
        Some(kind) if kind == "name:" => vec![kind],
        kind => kind.into_iter().chain([format!("name:{prefix}")]).collect(),
    }
}

/// Lists every beginning after the other. A cursor says at which of them it goes on.
async fn list(keeper: &Keeper, options: &cli::Ls) -> Result<Listing> {
    let beginnings: Vec<Option<String>> = match &options.prefix {
        Some(prefix) => beginnings(prefix).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let several = beginnings.len() > 1;
    let (from, mut after) = match (&options.after, several) {
        (Some(cursor), true) => split_cursor(cursor, beginnings.len())?,
        (after, _) => (0, after.clone()),
    };
    let mut all = Listing {
        held: Vec::new(),
        next: None,
        waiting: None,
        waiting_next: None,
    };
    for (index, prefix) in beginnings.into_iter().enumerate().skip(from) {
        let query = Query {
            resource: None,
            prefix,
            owner: options.owner.clone(),
            limit: options.limit.map(|limit| limit - all.held.len()),
            after: after.take(),
        };
        let page = keeper.list(&query).await?;
        all.held.extend(page.held);
        if let Some(waiting) = page.waiting {
            all.waiting.get_or_insert_default().extend(waiting);
        }
        all.waiting_next = all.waiting_next.or(page.waiting_next);
        all.next = page.next.map(|next| {
            if several {
                format!("{index}.{next}")
            } else {
                next
            }
        });
        let full = options.limit.is_some_and(|limit| all.held.len() >= limit);
        if several && full && all.next.is_none() && index == 0 {
            all.next = Some("1.".into());
        }
        if full || all.next.is_some() {
            break;
        }
    }
    Ok(all)
}

fn split_cursor(cursor: &str, beginnings: usize) -> Result<(usize, Option<String>)> {
    let parts = cursor.split_once('.');
    let parts = parts.and_then(|(index, rest)| Some((index.parse().ok()?, rest)));
    match parts {
        Some((index, rest)) if index < beginnings => {
            Ok((index, Some(rest.to_owned()).filter(|rest| !rest.is_empty())))
        }
        _ => Err(Error::BadInput(format!(
            "bad cursor {cursor:?}: take it from `next` of the page before"
        ))),
    }
}

fn print_table(listing: &Listing, outlived: &[LeaseId], nothing: &str) -> Result<(), Failure> {
    let waiting = listing.waiting.as_deref().unwrap_or_default();
    if listing.held.is_empty() && waiting.is_empty() {
        word(nothing);
        return Ok(());
    }
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let width = size
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0);
    let mut text = table(&listing.held, outlived, width);
    for waiter in waiting {
        text.push_str(&waiting_line(waiter, width));
    }
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::output)?;
    if let Some(next) = &listing.next {
        word(&format!("there is more: --after '{next}'"));
    }
    Ok(())
}

fn waiting_line(waiter: &Waiting, width: Option<usize>) -> String {
    let line = format!(
        "waiting: {} ({}) by {}, place {}: {}",
        waiter.resource,
        waiter.mode,
        waiter.owner,
        waiter.position,
        visible(&waiter.reason)
    );
    cut(&line, width.unwrap_or(usize::MAX)) + "\n"
}

fn cells(lease: &Lease, outlived: &[LeaseId], host: &str) -> [String; 7] {
    let pid = match lease.host == host {
        true => lease.pid.to_string(),
        false => format!("{}@{}", lease.pid, visible(&lease.host)),
    };
    let command = match outlived.contains(&lease.lease) {
        true => format!("{} {OUTLIVED}", lease.command),
        false => lease.command.clone(),
    };
    [
        lease.resource.to_string(),
        lease.mode.to_string(),
        lease.owner.to_string(),
        pid,
        duration::show(age(lease)),
        lease.purpose.clone().unwrap_or_default(),
        command,
    ]
    .map(|cell| visible(&cell))
}

/// The table, as wide as its contents, and no wider than the terminal if there is one.
fn table(held: &[Lease], outlived: &[LeaseId], width: Option<usize>) -> String {
    if held.is_empty() {
        return String::new();
    }
    let host = this_host();
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(held.iter().map(|lease| cells(lease, outlived, &host)));
    let mut widths = [0; HEADINGS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns(cell).max(*width);
        }
    }
    if let Some(width) = width {
        fit(&mut widths, width);
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let cell = cut(cell, width);
            let blanks = width - columns(&cell) + 2;
            let _ = write!(line, "{cell}{:blanks$}", "");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Takes what is too much from the command first and from the purpose then.
fn fit(widths: &mut [usize; HEADINGS.len()], width_max: usize) {
    for column in [COMMAND, PURPOSE] {
        let all = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        let too_much = all.saturating_sub(width_max);
        let least = CUT_MIN.min(widths[column]);
        widths[column] = widths[column].saturating_sub(too_much).max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn a_bare_prefix_means_names_and_a_kind() {
        assert_eq!(beginnings("map:a"), ["map:a"]);
        assert_eq!(beginnings("map"), ["map:", "name:map"]);
        assert_eq!(beginnings("name"), ["name:"]);
        assert_eq!(beginnings("Build"), ["name:Build"]);
    }

    #[test]
    fn the_table_fits_the_terminal_and_is_whole_elsewhere() {
        let mut long = lease("x");
        long.command = "make ".repeat(50);
        long.purpose = Some("because ".repeat(10));
        let held = [long, lease("map:atlas/m3")];
        let narrow = table(&held, &[], Some(90));
        assert!(narrow.lines().all(|line| columns(line) <= 90), "{narrow}");
        assert!(narrow.contains('…'));
        let whole = table(&held, &[], None);
        assert!(!whole.contains('…') && whole.contains(&"make ".repeat(40)));
        assert!(whole.starts_with("RESOURCE"));
    }

    #[test]
    fn cursors_name_a_beginning_that_exists() {
        assert_eq!(split_cursor("1.a.b", 2).unwrap(), (1, Some("a.b".into())));
        assert_eq!(split_cursor("1.", 2).unwrap(), (1, None));
        assert!(split_cursor("2.x", 2).is_err());
        assert!(split_cursor("x", 2).is_err());
    }
}
