//! Requests that wait for each other: the steps of [`circles`](tenure_core::circles) on this store.
//!
//! All lines and their holders are read in one transaction with one snapshot, REPEATABLE READ,
//! which writes nothing and takes no row lock. The entry of the audit is a transaction of its own;
//! the caller leaves the line by dropping its place.

use std::collections::BTreeMap;

use tenure_core::circles::{Circle, Line, WAITERS_MAX, find, find_all};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{Error, Resource, Result};

use super::audit::{self, NewEntry};
use super::inner::Inner;
use super::load::{Loaded, read_line};
use super::moment::Moment;
use super::row::{has_guard, leases, parsed, read_leases, waiter_columns};
use super::sql::{Statement, values};

impl Inner {
    /// Refuses a request that is in line if it closes a circle that is certain.
    pub(super) async fn refuse_circle(&self, awaited: &Awaited) -> Result<()> {
        if !awaited.standing().searches {
            return Ok(());
        }
        let (lines, moment) = self.retrying(|| self.lines()).await?;
        let circle = find(&lines, awaited.lease()).filter(|circle| circle.is_certain);
        let Some(circle) = circle else {
            return Ok(());
        };
        let entry = NewEntry::of_circle(awaited, &circle);
        // This is not tried again: an entry must not be there twice, and the refusal stands without
        // it.
        let entry = audit::append(&entry, false, &moment);
        drop(self.lend().await?.rows(&entry).await);
        Err(Error::Deadlock {
            context: self.context(awaited.resource(), awaited.mode()),
            circle: Box::new(circle),
        })
    }

    pub(super) async fn circles(&self) -> Result<Vec<Circle>> {
        let (lines, _) = self.retrying(|| self.lines()).await?;
        Ok(find_all(&lines))
    }

    /// Returns every line, and the time of the look. Returns no line if more requests wait than a
    /// search reads.
    async fn lines(&self) -> Result<(Vec<Line>, Moment)> {
        const SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        const WAITERS: &str = concat!(
            "SELECT ",
            waiter_columns!(),
            " FROM tenure.waiters w ORDER BY w.place LIMIT $1"
        );
        const LEASES: &str = leases!(
            "l.resource IN (SELECT w.resource FROM tenure.waiters w ORDER BY w.place LIMIT $1)"
        );
        let limit = i64::try_from(WAITERS_MAX + 1).unwrap_or(i64::MAX);
        let first = [
            Statement::new(SNAPSHOT, values![]),
            Statement::new(WAITERS, values![limit]),
            Statement::new(LEASES, values![limit]),
        ];
        let (transaction, answers) = self.lend().await?.begin(&first).await?;
        transaction.roll_back().await?;
        let [_, waiters, held] = &answers[..] else {
            return Err(Error::Internal("an answer is missing".into()));
        };
        let clock = held.first();
        let clock = clock.ok_or_else(|| Error::Internal("the clock was not read".into()))?;
        let moment = Moment::read(clock, 0)?;
        if waiters.len() > WAITERS_MAX {
            return Ok((Vec::new(), moment));
        }
        let mut rows = BTreeMap::<Resource, Vec<_>>::new();
        for row in waiters {
            rows.entry(parsed(row, 2)?).or_default().push(row);
        }
        let leases = read_leases(held)?;
        let mut lines = Vec::new();
        for (resource, rows) in rows {
            let (waiters, front_ends) = read_line(rows, LineExtent::All)?;
            let here = leases.iter().filter(|row| row.lease.resource == resource);
            let loaded = Loaded {
                leases: here.cloned().collect(),
                waiters,
                front_ends,
            };
            lines.push(Line::new(resource, &loaded, moment.now(), |row| {
                !has_guard(row)
            }));
        }
        Ok((lines, moment))
    }
}
