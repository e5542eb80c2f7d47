//! The list of holders and waiters, and the reason of each wait.
//!
//! Pages are cut by (resource, lease id), which an index finds. A page is read without a
//! transaction: between two statements the state may change, as it may after the listing.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::decide::{Life, explain};
use tenure_core::internal::Cursor;
use tenure_core::internal::loaded::LineExtent;
use tenure_core::internal::page::{WaitingPage, next_name};
use tenure_core::store::Waiting;
use tenure_core::{Error, Lease, LeaseId, Listing, Owner, Query, Resource, Result};
use tokio_postgres::Row;

use super::inner::Inner;
use super::load::{Loaded, read_line};
use super::moment::Moment;
use super::row::{LeaseRow, WaiterRow, column, leases, parsed, read_leases, waiter_columns};
use super::sql::{Sql, Statement, values};

/// The number of rows that one statement reads.
const CHUNK: usize = 1000;
/// The number of rows that one call steps over.
const ROWS_MAX: usize = 50_000;
/// The number of lines that one round trip reads.
const LINES: i64 = 50;
/// The number of resources on which one call removes leases that are over.
const MOVED_MAX: usize = 100;

/// A page of leases, and where the next page begins.
#[derive(Default)]
struct HeldPage {
    leases: Vec<Lease>,
    next: Option<String>,
    /// The resources with a lease on this page that is over.
    over: BTreeSet<Resource>,
}

impl Inner {
    pub(super) async fn list(&self, query: &Query) -> Result<Listing> {
        self.background_done().await;
        let held = self.retrying(|| self.held(query)).await?;
        // A lease that has run out is over, and its end is recorded as soon as a listing finds it.
        // If the store cannot be written, or is busy now, the listing shows the state that would
        // result.
        for resource in held.over.iter().take(MOVED_MAX) {
            if self
                .grant_next(resource, LineExtent::Front, None)
                .await
                .is_err()
            {
                break;
            }
        }
        let (waiting, waiting_next) = if query.held_only {
            Default::default()
        } else {
            self.retrying(|| self.waiting(query)).await?
        };
        Ok(Listing::new(held.leases, held.next).with_waiting(waiting, waiting_next))
    }

    async fn held(&self, query: &Query) -> Result<HeldPage> {
        let limit = query.limit();
        let mut held = HeldPage::default();
        let mut cursor = Cursor::of(query.after.as_deref());
        let mut stepped_over = 0;
        let sql = self.lend().await?;
        loop {
            let chunk = CHUNK.min(limit - held.leases.len() + 1);
            let (rows, moment) = chunk_of(&sql, query, &cursor, chunk).await?;
            let last_chunk = rows.len() < chunk;
            for row in rows {
                if held.leases.len() == limit {
                    held.next = Some(cursor.spelled());
                    return Ok(held);
                }
                cursor = Cursor::at(&row.lease.resource, &row.lease.lease);
                stepped_over += 1;
                if !query.wants(&row.lease.owner) {
                    continue;
                }
                if row.has_run_out(moment.now()) {
                    held.over.insert(row.lease.resource);
                } else {
                    held.leases.push(row.lease);
                }
            }
            if last_chunk {
                return Ok(held);
            }
            if stepped_over >= ROWS_MAX {
                held.next = Some(cursor.spelled());
                return Ok(held);
            }
        }
    }

    /// Returns the place in line of the request for a lease, from 1. An upgrade goes before all
    /// others.
    pub(super) async fn position(
        &self,
        resource: &Resource,
        lease: &LeaseId,
    ) -> Result<Option<usize>> {
        const POSITION: &str = "SELECT CASE WHEN w.want = 'upgrade' THEN 1 ELSE \
            (SELECT count(*) FROM tenure.waiters AS a WHERE a.resource = w.resource AND a.place <= w.place) \
            END::bigint FROM tenure.waiters AS w WHERE w.lock_id = $1 AND w.resource = $2";
        let values = values![lease.as_str(), resource.as_str()];
        let row = self.row(POSITION, values).await?;
        let position: Option<i64> = row.map(|row| column(&row, 0)).transpose()?;
        Ok(position.and_then(|position| usize::try_from(position).ok()))
    }

    async fn waiting(&self, query: &Query) -> Result<(Vec<Waiting>, Option<String>)> {
        let mut page = WaitingPage::of(query);
        let (mut from, (_, to)) = (page.begins_at(), query.bounds());
        let sql = self.lend().await?;
        while !page.is_full() {
            let lines = lines_from(&sql, &from, &to).await?;
            let Some(last) = lines.keys().next_back() else {
                break;
            };
            from = next_name(last);
            for (resource, loaded) in &lines {
                page.add(explained(resource, loaded));
            }
        }
        Ok(page.cut())
    }
}

/// Reads one page of all leases, by key, and the time of the read.
pub(super) async fn page(
    sql: &Sql,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<LeaseRow>, Moment, Option<String>)> {
    let cursor = Cursor::of(after);
    let (rows, moment) = chunk_of(sql, &Query::default(), &cursor, limit).await?;
    let last = rows.last().filter(|_| rows.len() == limit);
    let next = last.map(|row| Cursor::at(&row.lease.resource, &row.lease.lease).spelled());
    Ok((rows, moment, next))
}

/// Reads the leases whose keys the rest of the statement selects.
macro_rules! of_keys {
    ($($keys:expr),+) => {
        leases!(
            "l.lock_id = ANY (ARRAY (", $($keys),+,
            " ORDER BY k.resource, k.lock_id LIMIT $5)) ORDER BY l.resource, l.lock_id"
        )
    };
}
/// Selects the keys after a cursor, within a range of names.
macro_rules! keys {
    () => {
        "SELECT k.resource, k.lock_id FROM tenure.dal_locks AS k \
         WHERE (k.resource, k.lock_id) > ($1, $2) AND k.resource >= $3 AND k.resource < $4"
    };
}
/// The keys come from an index in its order, so that no more rows are read than wanted: from all
/// leases, from the leases of one owner, or from those of each of several owners, which are then
/// sorted.
const OF_ALL: &str = of_keys!("SELECT k.lock_id FROM (", keys!(), ") AS k");
const OF_ONE: &str = of_keys!(
    "SELECT k.lock_id FROM (",
    keys!(),
    " AND k.owner = $6) AS k"
);
const OF_SEVERAL: &str = of_keys!(
    "SELECT k.lock_id FROM unnest($6::text[]) AS o (owner) CROSS JOIN LATERAL (",
    keys!(),
    " AND k.owner = o.owner ORDER BY k.resource, k.lock_id LIMIT $5) AS k"
);

/// Reads rows after a cursor, within the names the query asks for.
async fn chunk_of(
    sql: &Sql,
    query: &Query,
    cursor: &Cursor,
    limit: usize,
) -> Result<(Vec<LeaseRow>, Moment)> {
    let (from, to) = query.bounds();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values = values![
        cursor.resource.as_str(),
        cursor.lease.as_str(),
        from,
        to,
        limit
    ];
    let text = match (&query.owner, &query.owners) {
        (Some(owner), _) => {
            values.extend(values![owner.as_str()]);
            OF_ONE
        }
        (None, Some(owners)) => {
            let owners: Vec<&str> = owners.iter().map(Owner::as_str).collect();
            values.extend(values![owners]);
            OF_SEVERAL
        }
        (None, None) => OF_ALL,
    };
    let rows = sql.rows(&Statement::new(text, values)).await?;
    let first = rows.first();
    let first = first.ok_or_else(|| Error::Internal("the clock was not read".into()))?;
    Ok((read_leases(&rows)?, Moment::read(first, 0)?))
}

/// Reads the next few lines from a name on, with the holders of their resources. Waiters that are
/// dead are not shown, as they are passed over.
async fn lines_from(sql: &Sql, from: &str, to: &str) -> Result<BTreeMap<Resource, Loaded>> {
    macro_rules! awaited {
        () => {
            "(SELECT DISTINCT a.resource FROM tenure.waiters AS a \
             WHERE a.resource >= $1 AND a.resource < $2 ORDER BY a.resource LIMIT $3)"
        };
    }
    const WAITERS: &str = concat!(
        "SELECT ",
        waiter_columns!(),
        " FROM tenure.waiters AS w WHERE w.resource IN ",
        awaited!()
    );
    const HOLDERS: &str = leases!("l.resource IN ", awaited!());
    let statements = [WAITERS, HOLDERS].map(|text| Statement::new(text, values![from, to, LINES]));
    let answers = sql.in_order(&statements).await?;
    let [waiters, holders] = &answers[..] else {
        return Err(Error::Internal("an answer is missing".into()));
    };
    let mut rows: BTreeMap<Resource, Vec<&Row>> = BTreeMap::new();
    for row in waiters {
        rows.entry(parsed(row, 2)?).or_default().push(row);
    }
    let mut lines: BTreeMap<Resource, Loaded> = BTreeMap::new();
    for (resource, rows) in rows {
        let (waiters, _) = read_line(rows, LineExtent::All)?;
        let line = Loaded {
            waiters,
            ..Loaded::default()
        };
        lines.insert(resource, line);
    }
    for row in read_leases(holders)? {
        if let Some(line) = lines.get_mut(&row.lease.resource) {
            line.leases.push(row);
        }
    }
    let alive = |row: &WaiterRow| row.waiter.life == Life::Alive;
    for line in lines.values_mut() {
        line.waiters.retain(alive);
    }
    Ok(lines)
}

fn explained(resource: &Resource, loaded: &Loaded) -> Vec<Waiting> {
    let state = loaded.state();
    let owner_of = |lease: &LeaseId| loaded.lease(lease).map(|row| &row.lease.owner);
    let line = explain(&state, owner_of).into_iter();
    let listed = line.filter_map(|waits| {
        let row = loaded.waiter(&waits.waiter.lease)?;
        Some(waits.listed(resource, &row.owner, row.since, row.deadline))
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tenure_testkit::postgres::Cluster;
    use tokio_postgres::SimpleQueryMessage;

    use super::*;
    use crate::connect::Connection;
    use crate::store::{OpenOptions, PostgresStore};

    /// The leases of an owner are found by the owner: the rows that a listing reads do not grow
    /// with the leases of others.
    #[tokio::test]
    async fn the_leases_of_owners_are_found_by_an_index() {
        let database = Cluster::shared().database();
        let address = crate::Address::parse(&database.url()).unwrap();
        let options = OpenOptions::default();
        let _made = PostgresStore::open(address, options).await.unwrap();
        let address = Arc::new(crate::Address::parse(&database.url()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(15);
        let settings = "SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off";
        let opened = Connection::try_open(&address, settings, deadline).await;
        let connection = opened.unwrap();
        for (text, types, owners) in [
            (OF_ONE, "text", "'ana'"),
            (OF_SEVERAL, "text[]", "ARRAY['ana', 'bo']"),
        ] {
            let explain = format!(
                "DEALLOCATE ALL; PREPARE of_owners (text, text, text, text, bigint, {types}) AS {text}; \
                 EXPLAIN EXECUTE of_owners ('', '', '', 'x', 100, {owners})"
            );
            let answers = connection.client().simple_query(&explain).await.unwrap();
            let lines = answers.iter().filter_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            let plan = lines.collect::<Vec<_>>().join("\n");
            assert!(
                plan.contains("dal_locks_by_owner") && plan.contains("owner = "),
                "{plan}"
            );
            assert!(!plan.contains("dal_locks_by_resource"), "{plan}");
        }
    }
}
