//! Lists what is held and who waits.

use std::path::{Path, PathBuf};

use tenure::{Error, Keeper, Listing, Query, Resource, Result};
use tenure_api::leases::Ls;

use crate::service::missing;
use crate::{Caller, Handle, SLOT_KIND, Service};

impl Handle<Ls> for Service {
    async fn handle(&self, request: Ls, caller: &Caller) -> Result<Listing> {
        let of_slots = request.prefix.as_deref().is_some_and(names_slots);
        if self.missing_store_of(&request)?.is_some() {
            return Ok(Listing::new(Vec::new(), None).with_waiting(Vec::new(), None));
        }
        let keeper = self.locks_or_slots(of_slots, caller).await?;
        list(&keeper, &request).await
    }
}

impl Service {
    /// Returns the database that would be listed, if it does not exist yet. A listing does not make
    /// it.
    pub fn missing_store_of(&self, request: &Ls) -> Result<Option<PathBuf>> {
        let of_slots = request.prefix.as_deref().is_some_and(names_slots);
        let url = if of_slots {
            self.slots_url()?
        } else {
            self.located().url.clone()
        };
        Ok(missing(&url).map(Path::to_owned))
    }
}

/// Returns true if a prefix asks for slots. They have a store of their own, whatever store is used
/// for locks.
fn names_slots(prefix: &str) -> bool {
    let kind = prefix.split_once(':').map_or(prefix, |(kind, _)| kind);
    kind == SLOT_KIND
}

/// Returns the beginnings of resources that a prefix stands for, in order. A prefix without a `:`
/// stands for a whole kind, and for names that begin with it.
fn beginnings(prefix: &str) -> Vec<String> {
    if prefix == SLOT_KIND {
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

/// Lists the resources of one beginning after the other. A cursor says with which the page begins.
async fn list(keeper: &Keeper, request: &Ls) -> Result<Listing> {
    let beginnings: Vec<Option<String>> = match &request.prefix {
        Some(prefix) => beginnings(prefix).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let several = beginnings.len() > 1;
    let (from, mut after) = match (&request.after, several) {
        (Some(cursor), true) => split_cursor(cursor, beginnings.len())?,
        (after, _) => (0, after.clone()),
    };
    let mut all = Listing::new(Vec::new(), None);
    for (index, prefix) in beginnings.into_iter().enumerate().skip(from) {
        let mut query = Query::default();
        query.prefix = prefix;
        query.owner = request.owner.clone();
        query.limit = request.limit.map(|limit| limit - all.held.len());
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
        let full = request.limit.is_some_and(|limit| all.held.len() >= limit);
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
        assert!(names_slots("slot") && names_slots("slot:") && names_slots("slot:build"));
        assert!(!names_slots("slots") && !names_slots("name:slot") && !names_slots(""));
    }

    #[test]
    fn cursors_name_a_beginning_that_exists() {
        assert_eq!(split_cursor("1.a.b", 2).unwrap(), (1, Some("a.b".into())));
        assert_eq!(split_cursor("1.", 2).unwrap(), (1, None));
        assert!(split_cursor("2.x", 2).is_err());
        assert!(split_cursor("x", 2).is_err());
    }
}
