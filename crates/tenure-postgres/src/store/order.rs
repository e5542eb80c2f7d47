//! The order of locks that is written down in the store.
//!
//! # Exclusion
//!
//! A request holds the table of leases in ROW EXCLUSIVE, the lock of every statement that writes to
//! it, before it reads the order: the empty case (`acquire`) is one statement, which takes its
//! locks before its snapshot, and a step asks for the lock ([`lock_and_read`]). A process that
//! adopts an order takes the table in SHARE ROW EXCLUSIVE, which waits for all requests and lets
//! none begin, and only then looks whether anything is held. A request under the old order
//! therefore either is seen as a lease or a waiter, or sees the new order. Requests do not hinder
//! each other by this.
//!
//! A process that adopts an order locks nothing else before that, so no circle of locks comes
//! about. A waiter is put in line only while its resource has a lease, so the table of leases
//! stands for waiters, too.

use tenure_core::internal::written_order::{OrderStep, StoreOrder};
use tenure_core::{Error, Result};
use tokio_postgres::Row;

use super::inner::Inner;
use super::row::column;
use super::sql::{Flush, Statement, values};

/// The order that is written down, as the empty case reads it.
macro_rules! written_order {
    () => {
        "(SELECT s.value FROM tenure.settings s WHERE s.name = 'order')"
    };
}
pub(super) use written_order;

/// Returns the statements with which a step reads the order, so that it stays until the step ends.
pub(super) fn lock_and_read() -> Vec<Statement<'static>> {
    const LOCK: &str = "LOCK TABLE tenure.dal_locks IN ROW EXCLUSIVE MODE";
    const READ: &str = concat!("SELECT ", written_order!());
    vec![
        Statement::new(LOCK, values![]),
        Statement::new(READ, values![]),
    ]
}

/// Returns the written order, as [`lock_and_read`] found it.
pub(super) fn read(answers: &[Vec<Row>]) -> Result<Option<String>> {
    let row = answers.last().and_then(|rows| rows.first());
    row.map_or(Ok(None), |row| column(row, 0))
}

impl Inner {
    /// Makes the order of this process the written one, if nothing is held and nothing waits.
    pub(super) async fn adopt_order(&self, order: &StoreOrder) -> Result<()> {
        self.retrying(|| self.adopt_order_once(order)).await
    }

    async fn adopt_order_once(&self, order: &StoreOrder) -> Result<()> {
        const LOCK: &str = "LOCK TABLE tenure.dal_locks IN SHARE ROW EXCLUSIVE MODE";
        const LOOK: &str = concat!(
            "SELECT ",
            written_order!(),
            ", NOT EXISTS (SELECT FROM tenure.dal_locks) AND NOT EXISTS (SELECT FROM tenure.waiters)"
        );
        const WRITE: &str = "INSERT INTO tenure.settings (name, value) VALUES ('order', $1) \
            ON CONFLICT (name) DO UPDATE SET value = $1";
        let first = [
            Statement::new(LOCK, values![]),
            Statement::new(LOOK, values![]),
        ];
        let (transaction, answers) = self.lend().await?.begin(&first).await?;
        let found = answers.last().and_then(|rows| rows.first());
        let found = found.ok_or_else(|| Error::Internal("an answer is missing".into()));
        let step = found.and_then(|row| {
            let (written, is_idle): (Option<String>, bool) = (column(row, 0)?, column(row, 1)?);
            order.decide(written.as_deref(), is_idle, self.url())
        });
        match step {
            Ok(OrderStep::Adopt) => {
                let write = Statement::new(WRITE, values![order.text()]);
                transaction.commit(&[write], Flush::Now).await
            }
            kept => {
                transaction.roll_back().await?;
                kept.map(drop)
            }
        }
    }
}
