//! The order of locks that a store has written down: one for all that use the store.
//!
//! Two processes that take locks in different orders can wait for each other for ever. Every
//! request for a lock therefore compares its own order with the written one, in the transaction
//! that grants or queues it. A store in which nothing was written has the default order.
//!
//! # The protocol
//!
//! 1. A request finds the order that is written down. If it is its own, that is all.
//! 2. Otherwise [`StoreOrder::decide`] says what to do. If the two differ only in default kinds
//!    that the written one lacks, or nothing is held or awaited, the own order is written down.
//!    Otherwise the request is refused, naming both.
//! 3. The store writes the order, and goes on as in 1.
//!
//! Between 2 and 3 no request may be granted or queued under the written order, so a store makes
//! both one transaction that excludes all requests. A crash before its commit leaves the written
//! order.
//!
//! # Invariant
//!
//! Everything that is held or awaited in a store at one time was asked for in the written order.
//!
//! # Limitations
//!
//! A lease that is over and still there keeps the order, until it is recovered. Stores that keep no
//! rows, which are the memory and kernel locks, write down nothing.

use crate::{Error, Ranking, Result};

/// The order that a store is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOrder {
    ranking: Ranking,
    text: String,
}

/// The next step of a request whose order is not the written one, letter by letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderStep {
    /// Go on: the written order is the same.
    Keep,
    /// Write the own order down, then go on.
    Adopt,
}

impl StoreOrder {
    /// Makes the order of a store that is opened.
    pub fn new(ranking: Ranking) -> Self {
        let text = spell(&ranking);
        Self { ranking, text }
    }

    /// Returns the text to write down.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text that counts for a store in which none is written.
    pub fn default_text() -> String {
        spell(&Ranking::default())
    }

    /// Returns true if this order is written down, letter by letter.
    pub fn is_written(&self, written: Option<&str>) -> bool {
        match written {
            Some(written) => written == self.text,
            None => self.ranking == Ranking::default(),
        }
    }

    /// Decides about the order that is written down. `is_idle` says that nothing is held or awaited
    /// in the store; `store` is for the message.
    ///
    /// # Errors
    ///
    /// `Configuration`, naming both orders, if another one is in use.
    pub fn decide(&self, written: Option<&str>, is_idle: bool, store: &str) -> Result<OrderStep> {
        if self.is_written(written) {
            return Ok(OrderStep::Keep);
        }
        let theirs = written.map_or_else(Ranking::default, read);
        if theirs == self.ranking || is_idle {
            return Ok(OrderStep::Adopt);
        }
        Err(Error::configuration(
            format!(
                "in {store} locks are held in another order of kinds: {}; here it is: {}",
                spell(&theirs),
                self.text
            ),
            "set order in tenure.toml as the others do; a new order counts once nothing is held \
             and nobody waits in the store",
        ))
    }
}

fn spell(ranking: &Ranking) -> String {
    ranking.kinds().join(" ")
}

fn read(text: &str) -> Ranking {
    Ranking::new(text.split_whitespace().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn order(kinds: &str) -> StoreOrder {
        StoreOrder::new(read(kinds))
    }

    #[test]
    fn the_same_order_is_kept_whether_the_store_is_idle_or_not() {
        let (ours, default) = (order("name project"), StoreOrder::new(Ranking::default()));
        for is_idle in [false, true] {
            let kept = ours.decide(Some(ours.text()), is_idle, "s").unwrap();
            assert_eq!(kept, OrderStep::Keep);
            let kept = default.decide(None, is_idle, "s").unwrap();
            assert_eq!(kept, OrderStep::Keep);
        }
    }

    #[test]
    fn another_order_is_adopted_by_an_idle_store_and_else_refused_naming_both() {
        let (ours, default) = (order("name project"), StoreOrder::new(Ranking::default()));
        for (asks, written) in [(&ours, None), (&default, Some(ours.text()))] {
            assert_eq!(asks.decide(written, true, "s").unwrap(), OrderStep::Adopt);
            let refused = asks.decide(written, false, "s").unwrap_err();
            assert_eq!(refused.class(), Class::Configuration);
            for named in [ours.text(), default.text()] {
                assert!(refused.to_string().contains(named), "{refused}");
            }
        }
    }

    #[test]
    fn an_order_that_only_lacks_kinds_of_this_version_is_completed_while_it_is_in_use() {
        let default = StoreOrder::new(Ranking::default());
        let tail = "index gates issue agent file node job name events";
        for head in ["slot project map", "slot project map sketch"] {
            let older = format!("{head} {tail}");
            let step = default.decide(Some(&older), false, "s").unwrap();
            assert_eq!(step, OrderStep::Adopt);
        }
    }
}
