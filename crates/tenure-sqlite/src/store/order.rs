//! The order of locks that is written down in the store.
//!
//! A request compares it with its own in the transaction that grants or queues it (`acquire`). No
//! other transaction writes meanwhile, so a changed order is adopted in that same transaction.

use rusqlite::params;
use tenure_core::Result;
use tenure_core::internal::written_order::{OrderStep, StoreOrder};

use super::row::number;
use super::step::Step;

/// Makes the order of a request the written one, if nothing is held or awaited.
pub(super) fn adopt(step: &Step<'_>, order: &StoreOrder, written: Option<&str>) -> Result<()> {
    // Every id of a lease has at least one byte: the condition lets the index be searched.
    const IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM dal_locks WHERE lock_id > '') \
        OR EXISTS (SELECT 1 FROM waiters WHERE resource > '')";
    const WRITE: &str = "INSERT INTO settings (name, value) VALUES ('order', ?1) \
        ON CONFLICT (name) DO UPDATE SET value = ?1";
    let in_use = step.sql.one(IN_USE, [], |row| number::<bool>(row, 0))?;
    let is_idle = in_use == Some(false);
    match order.decide(written, is_idle, step.store.url())? {
        OrderStep::Keep => Ok(()),
        OrderStep::Adopt => step.sql.execute(WRITE, params![order.text()]).map(drop),
    }
}
