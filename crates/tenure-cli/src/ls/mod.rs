//! `tenure ls`: the leases that are held, with owner and purpose, and the waiters.

mod table;

use std::path::Path;
use std::process::ExitCode;

use tenure::{Error, Keeper, Listing, Query, Resource, Result};

use crate::cli::{self, Global, Slot};
use crate::context::Context;
use crate::output::word;
use crate::report::Failure;
use crate::{output, runtime};
pub use table::View;

/// Shows one page of what is held and who waits.
pub fn ls(global: &Global, options: &cli::Ls) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let of_slots = options.prefix.as_deref().is_some_and(is_of_slots);
    let url = match of_slots {
        true => context.slots_url()?,
        false => context.located.url.clone(),
    };
    if let Some(path) = missing(&url) {
        return nothing_yet(global, path);
    }
    runtime::block_on(async {
        let keeper = context.keeper_or_slots(of_slots).await?;
        let listing = list(&keeper, options).await?;
        let by_id = keeper.store().leases().is_some();
        output::answer(global.json, &listing, || print(&listing, by_id, options))
    })
}

/// The database, if it is not there yet. Looking need not make it.
pub fn missing(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite:");
    let path = path.filter(|path| !path.is_empty()).map(Path::new)?;
    matches!(path.try_exists(), Ok(false)).then_some(path)
}

fn nothing_yet(global: &Global, path: &Path) -> Result<ExitCode, Failure> {
    let nothing = Listing::new(Vec::new(), None).with_waiting(Vec::new(), None);
    let path = path.display();
    output::answer(global.json, &nothing, || {
        word(&format!("nothing is held: there is no store at {path} yet"));
        Ok(())
    })
}

fn print(listing: &Listing, by_id: bool, options: &cli::Ls) -> Result<(), Failure> {
    let waiting = listing.waiting.as_deref().unwrap_or_default();
    if listing.held.is_empty() && waiting.is_empty() {
        word(match options.prefix.is_some() || options.owner.is_some() {
            true => "nothing that matches is held",
            false if options.after.is_some() => "nothing more is held",
            false => "nothing is held",
        });
        return Ok(());
    }
    output::text(&View { listing, by_id }.text(crate::table::width()))?;
    if let Some(next) = listing.next.as_ref().or(listing.waiting_next.as_ref()) {
        word(&format!("there is more: --after '{next}'"));
    }
    Ok(())
}

/// Returns true if what is asked for is in the store of the slots, which is the same whatever store is used
/// for locks.
fn is_of_slots(prefix: &str) -> bool {
    let kind = prefix.split_once(':').map_or(prefix, |(kind, _)| kind);
    kind == Slot::KIND
}

/// Returns the beginnings a prefix stands for, in order. Without a `:` it is that of a name, and a whole kind.
fn beginnings(prefix: &str) -> Vec<String> {
    if prefix == Slot::KIND {
        return vec![format!("{prefix}:")];
    }
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
    let mut all = Listing::new(Vec::new(), None);
    for (index, prefix) in beginnings.into_iter().enumerate().skip(from) {
        let mut query = Query::default();
        query.prefix = prefix;
        query.owner = options.owner.clone();
        query.limit = options.limit.map(|limit| limit - all.held.len());
        query.after = after.take();
        let page = keeper.list(&query).await?;
        all.held.extend(page.held);
        if let Some(waiting) = page.waiting {
            all.waiting.get_or_insert_default().extend(waiting);
        }
        let cursor = |next: String| match several {
            true => format!("{index}.{next}"),
            false => next,
        };
        all.waiting_next = all.waiting_next.or(page.waiting_next.map(cursor));
        all.next = page.next.map(cursor);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_prefix_means_names_and_a_kind() {
        assert_eq!(beginnings("map:a"), ["map:a"]);
        assert_eq!(beginnings("map"), ["map:", "name:map"]);
        assert_eq!(beginnings("name"), ["name:"]);
        assert_eq!(beginnings("Build"), ["name:Build"]);
        assert_eq!(beginnings("slot"), ["slot:"]);
    }

    #[test]
    fn slots_are_asked_for_by_their_kind_alone() {
        assert!(is_of_slots("slot") && is_of_slots("slot:") && is_of_slots("slot:build"));
        assert!(!is_of_slots("slots") && !is_of_slots("name:slot") && !is_of_slots(""));
    }

    #[test]
    fn cursors_name_a_beginning_that_exists() {
        assert_eq!(split_cursor("1.a.b", 2).unwrap(), (1, Some("a.b".into())));
        assert_eq!(split_cursor("1.", 2).unwrap(), (1, None));
        assert!(split_cursor("2.x", 2).is_err());
        assert!(split_cursor("x", 2).is_err());
    }
}
