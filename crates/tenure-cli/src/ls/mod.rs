//! `tenure ls`: the holders and the waiters.

mod table;

use std::process::ExitCode;

use tenure::{Keeper, Listing, Query};

use crate::cli::{self, Global, Slot};
use crate::context::{Context, WAIT_DEFAULT};
use crate::identity::is_there;
use crate::output::word;
use crate::report::Failure;
use crate::{output, runtime};
use table::View;

/// Shows one page of holders and waiters.
pub fn ls(global: &Global, options: &cli::Ls) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let of_slots = options.prefix.as_deref().is_some_and(is_of_slots);
    let url = match of_slots {
        true => context.slots_url()?,
        false => context.located.url.clone(),
    };
    // A look need not make a database.
    if let Some(path) = url.strip_prefix("sqlite:").filter(|_| !is_there(&url)) {
        return nothing_yet(global, path);
    }
    runtime::block_on(async {
        let keeper = match of_slots {
            true => context.slots(WAIT_DEFAULT).await?,
            false => context.keeper(WAIT_DEFAULT).await?,
        };
        let query = Query {
            prefix: options.prefix.as_deref().map(beginning),
            owner: options.owner.clone(),
            limit: options.limit,
            after: options.after.clone(),
            ..Query::default()
        };
        let listing = keeper.list(&query).await?;
        match global.json {
            true => output::json(&listing)?,
            false => print(&keeper, &listing, options)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn nothing_yet(global: &Global, path: &str) -> Result<ExitCode, Failure> {
    match global.json {
        true => output::json(&Listing {
            held: Vec::new(),
            next: None,
            waiting: Some(Vec::new()),
            waiting_next: None,
        })?,
        false => word(&format!("nothing is held: there is no store at {path} yet")),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(keeper: &Keeper, listing: &Listing, options: &cli::Ls) -> Result<(), Failure> {
    let waiting = listing.waiting.as_deref().unwrap_or_default();
    if listing.held.is_empty() && waiting.is_empty() {
        word(match options.prefix.is_some() || options.owner.is_some() {
            true => "nothing that matches is held",
            false if options.after.is_some() => "nothing more is held",
            false => "nothing is held",
        });
        return Ok(());
    }
    let view = View {
        listing,
        by_id: keeper.store().leases().is_some(),
    };
    output::text(&view.text(crate::table::width()))?;
    if let Some(next) = listing.next.as_ref().or(listing.waiting_next.as_ref()) {
        word(&format!("there is more: --after '{next}'"));
    }
    Ok(())
}

/// Returns true if a prefix is about the store of the slots, which is the same whatever store is used for
/// locks.
fn is_of_slots(prefix: &str) -> bool {
    let kind = prefix.split_once(':').map_or(prefix, |(kind, _)| kind);
    kind == Slot::KIND
}

/// Returns the beginning of resources that a prefix stands for. Without a `:` it is that of a name.
fn beginning(prefix: &str) -> String {
    match prefix {
        Slot::KIND => format!("{prefix}:"),
        _ if prefix.contains(':') => prefix.to_owned(),
        _ => format!("name:{prefix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_prefix_is_that_of_a_name() {
        assert_eq!(beginning("map:a"), "map:a");
        assert_eq!(beginning("Build"), "name:Build");
        assert_eq!(beginning("slot"), "slot:");
    }

    #[test]
    fn slots_are_asked_for_by_their_kind_alone() {
        assert!(is_of_slots("slot") && is_of_slots("slot:") && is_of_slots("slot:build"));
        assert!(!is_of_slots("slots") && !is_of_slots("name:slot") && !is_of_slots(""));
    }
}
