//! Requests that wait for each other: the steps of [`circles`](tenure_core::circles) on this store.
//!
//! All lines are read in one transaction, which is the fresh snapshot. The entry of the audit is a
//! transaction of its own; the caller leaves the line by dropping its place.

use std::collections::BTreeSet;

use rusqlite::params;
use tenure_core::audit::NewEntry;
use tenure_core::circles::{Circle, Line, WAITERS_MAX, find, find_all};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::request::Awaited;
use tenure_core::{Binding, Error, Resource, Result};

use super::audit;
use super::inner::Inner;
use super::load::load;
use super::moment::Moment;
use super::row::parsed;
use crate::connection::{Durability, Rows, Sql};

impl Inner {
    /// Refuses a request that is in line if it closes a circle that is certain.
    pub(super) async fn refuse_circle(&self, awaited: &Awaited) -> Result<()> {
        if !awaited.standing().searches {
            return Ok(());
        }
        let lines = self.read(|sql| self.lines(sql)).await?;
        let circle = find(&lines, awaited.lease()).filter(|circle| circle.is_certain);
        let Some(circle) = circle else {
            return Ok(());
        };
        if !self.is_alive(&circle).await? {
            return Ok(());
        }
        self.write(Durability::Crash, |step| {
            let entry = NewEntry::of_circle(awaited, &circle);
            audit::append(step.sql, &entry, false, &step.moment)
        })
        .await?;
        Err(Error::Deadlock {
            context: self.context(awaited.resource(), awaited.mode()),
            circle: Box::new(circle),
        })
    }

    pub(super) async fn circles(&self) -> Result<Vec<Circle>> {
        let lines = self.read(|sql| self.lines(sql)).await?;
        let mut alive = Vec::new();
        for circle in find_all(&lines) {
            if self.is_alive(&circle).await? {
                alive.push(circle);
            }
        }
        Ok(alive)
    }

    async fn is_alive(&self, circle: &Circle) -> Result<bool> {
        let sessions = circle.sessions();
        let dead = self.read(|sql| self.sessions.dead(sql, &sessions)).await?;
        Ok(dead.is_empty())
    }

    /// Returns everything that is waited for, or nothing if more requests wait than a search reads.
    fn lines(&self, sql: &Sql<'_>) -> Result<Vec<Line>> {
        const SELECT: &str = "SELECT resource FROM waiters WHERE place > 0 ORDER BY place LIMIT ?1";
        let limit = WAITERS_MAX + 1;
        let column = i64::try_from(limit).unwrap_or(i64::MAX);
        let waited_for: Vec<Resource> =
            sql.query(SELECT, params![column], Rows::AtMost(limit), |row| {
                parsed(row, 0)
            })?;
        if waited_for.len() == limit {
            return Ok(Vec::new());
        }
        let moment = Moment::now()?;
        let mut lines = Vec::new();
        for resource in waited_for.into_iter().collect::<BTreeSet<Resource>>() {
            let loaded = load(sql, &self.sessions, &resource, LineExtent::All, 0, &moment)?;
            lines.push(Line::new(resource, &loaded, moment.boot, |row| {
                row.lease.binding == Binding::Lease
            }));
        }
        Ok(lines)
    }
}
