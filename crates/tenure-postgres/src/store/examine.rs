//! A check, for a person, that the server and the tables are sound, and a count of what is in them.
//!
//! Nothing is changed. Each check stands alone: a fault in one place does not hide the results of
//! the others.

use std::time::{Duration, Instant, SystemTime};

use tenure_core::store::Found;
use tenure_core::{Error, Examined, Result, duration};
use tokio_postgres::Row;

use super::inner::Inner;
use super::row::{column, text, time};
use super::sql::{Statement, values};
use crate::connect::{ConnectFailure, ServerVersion};
use crate::{Address, prove, schema};

/// The oldest major version of a server that is used.
const VERSION_MIN: i32 = 13;
/// The major version of the server that every test runs on.
const VERSION_TESTED: i32 = 15;
/// The difference that a clock may have, beyond the error of the round trip.
const CLOCK_MAX: Duration = Duration::from_secs(2);
/// Fewer connections left than this are few: a process takes up to eight for locks, and up to 25
/// for advisory locks.
const CONNECTIONS_FEW: i64 = 10;
/// The longest time that the proof of sessions may take.
const PROOF: Duration = Duration::from_secs(5);
/// The number of faulty resources that are named.
const NAMED_MAX: usize = 3;

/// Refuses a server that is too old, before anything is made in it.
pub(super) fn refuse_old(server: &ServerVersion, address: &Address) -> Result<()> {
    if server.major >= VERSION_MIN {
        return Ok(());
    }
    Err(Error::configuration(
        format!("{address} is PostgreSQL {}, which is too old", server.text),
        format!("use PostgreSQL {VERSION_MIN} or newer; {VERSION_TESTED} is tested"),
    ))
}

impl Inner {
    /// Makes every check. A check that fails with an error is reported like the others.
    pub(super) async fn examine(&self) -> Vec<Examined> {
        let found = [
            ("server", self.version().await),
            ("clock", self.clock().await),
            ("pooler", self.sessions_are_kept_apart().await),
            ("schema", self.tables().await),
            ("permissions", self.permissions().await),
            ("connections", self.connections().await),
            ("consistency", self.consistency().await),
            ("leases", self.count_leases().await),
        ];
        let told = found.into_iter().map(|(name, found)| {
            let cannot_look = |error: Error| Found::bad(error.to_string(), error.remedy());
            let found = found.unwrap_or_else(cannot_look);
            found.of(name)
        });
        told.collect()
    }

    async fn one(&self, text: &'static str) -> Result<Row> {
        let row = self.row(text, values![]).await?;
        row.ok_or_else(|| Error::Internal("a statement found nothing".into()))
    }

    /// Reports the version of the server. A server that is too old is refused when the store is
    /// opened.
    async fn version(&self) -> Result<Found> {
        let server = self.lend().await?.server().clone();
        let told = format!("PostgreSQL {} at {}", server.text, self.url());
        refuse_old(&server, self.address())?;
        Ok(Found::good(match server.major {
            VERSION_TESTED => told,
            _ => format!("{told}; {VERSION_TESTED} is tested"),
        }))
    }

    /// Compares the database's clock with ours. Only the database's clock decides, but people
    /// compare it with ours.
    async fn clock(&self) -> Result<Found> {
        const SELECT: &str = "SELECT pg_catalog.clock_timestamp()";
        // A connection is lent first, so that opening one is not measured.
        let sql = self.lend().await?;
        sql.rows(&Statement::new(SELECT, values![])).await?;
        let (before, asked) = (SystemTime::now(), Instant::now());
        let row = sql.row(&Statement::new(SELECT, values![])).await?;
        let round_trip = asked.elapsed();
        let theirs: Option<SystemTime> = row.map(|row| column(&row, 0)).transpose()?;
        let theirs = theirs.ok_or_else(|| Error::Internal("the clock says nothing".into()))?;
        let (word, apart) = apart(theirs, before + round_trip / 2);
        let told = format!(
            "the database's clock is {} {word} this machine's, in a round trip of {}",
            precisely(apart),
            precisely(round_trip)
        );
        if apart > CLOCK_MAX + round_trip / 2 {
            let remedy = "let both machines keep time (chrony, ntpd): leases go by the database's clock \
                          alone, but the times that people read would mislead them";
            return Ok(Found::bad(told, remedy));
        }
        if round_trip > self.ttl / 6 {
            let ttl = duration::show(self.ttl);
            let remedy =
                format!("give leases more time than {ttl} with ?lease_ttl= in the address");
            return Ok(Found::bad(told, remedy));
        }
        Ok(Found::good(told))
    }

    /// Proves again that no pooler shares sessions: its settings can change while we run.
    async fn sessions_are_kept_apart(&self) -> Result<Found> {
        let proved = prove::sessions(self.address(), "", Instant::now() + PROOF).await;
        proved.map_err(ConnectFailure::into_error)?;
        Ok(Found::good("none that shares sessions between clients"))
    }

    /// Reports the tables, and the name of the store.
    async fn tables(&self) -> Result<Found> {
        const SELECT: &str = "SELECT (SELECT max(version) FROM tenure.migrations), s.id, s.made_at \
            FROM tenure.store AS s";
        let row = self.one(SELECT).await?;
        let version = column::<Option<i64>>(&row, 0)?.unwrap_or_default();
        let told = format!(
            "version {version}, store {}, made at {}",
            text(&row, 1)?,
            time(&row, 2)?
        );
        Ok(match version.cmp(&schema::VERSION) {
            std::cmp::Ordering::Equal => Found::good(told),
            std::cmp::Ordering::Less => Found::bad(
                format!("{told}; this tenure knows {}", schema::VERSION),
                "use it once as a role that may create tables",
            ),
            std::cmp::Ordering::Greater => Found::bad(
                format!("{told}; this tenure only knows {}", schema::VERSION),
                "upgrade tenure",
            ),
        })
    }

    /// Reports rights that the role needs and does not have.
    async fn permissions(&self) -> Result<Found> {
        const SELECT: &str = "SELECT current_user::text, \
            pg_catalog.has_schema_privilege('tenure', 'USAGE'), \
            ARRAY (SELECT lower(wanted.privilege) || ' on tenure.' || tables.relname \
            FROM pg_catalog.pg_class AS tables, \
            (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS wanted (privilege) \
            WHERE tables.relnamespace = 'tenure'::regnamespace AND tables.relkind = 'r' \
            AND NOT (tables.relname = 'audit' AND wanted.privilege IN ('UPDATE', 'DELETE')) \
            AND NOT (tables.relname IN ('migrations', 'store') AND wanted.privilege <> 'SELECT') \
            AND NOT pg_catalog.has_table_privilege(tables.oid, wanted.privilege) ORDER BY 1)";
        let row = self.one(SELECT).await?;
        let (role, may_use): (String, bool) = (text(&row, 0)?, column(&row, 1)?);
        let missing: Vec<String> = column(&row, 2)?;
        let grant = format!(
            "let the owner of the schema run: GRANT USAGE ON SCHEMA tenure TO {role}; GRANT SELECT, \
             INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure TO {role}"
        );
        Ok(match (may_use, missing.is_empty()) {
            (true, true) => Found::good(format!("{role} may use all tables")),
            (false, _) => Found::bad(format!("{role} may not use the schema tenure"), grant),
            (true, false) => Found::bad(format!("{role} may not {}", some_of(&missing)), grant),
        })
    }

    /// Examines the number of further connections that the server admits.
    async fn connections(&self) -> Result<Found> {
        // The setting reserved_connections exists since PostgreSQL 16.
        const SELECT: &str = "SELECT pg_catalog.current_setting('max_connections')::bigint, \
            pg_catalog.current_setting('superuser_reserved_connections')::bigint + \
            coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::bigint, \
            (SELECT count(*) FROM pg_catalog.pg_stat_activity \
            WHERE backend_type = 'client backend'), \
            (SELECT count(*) FROM pg_catalog.pg_stat_activity \
            WHERE backend_type = 'client backend' AND application_name LIKE 'tenure%')";
        let row = self.one(SELECT).await?;
        let (most, reserved): (i64, i64) = (column(&row, 0)?, column(&row, 1)?);
        let (used, ours): (i64, i64) = (column(&row, 2)?, column(&row, 3)?);
        let left = (most - reserved - used).max(0);
        let told = format!(
            "{left} left of {most}: {used} in use, {ours} of them by tenure, {reserved} reserved"
        );
        Ok(if left < CONNECTIONS_FEW {
            Found::bad(
                told,
                "raise max_connections, put pgbouncer with pool_mode = session before the server, or find \
                 who keeps them: SELECT * FROM pg_stat_activity",
            )
        } else {
            Found::good(told)
        })
    }

    /// Examines whether the shortcut of the empty cases (`alone`) is true on every resource. One
    /// statement has one snapshot, and every transaction of ours leaves it true.
    async fn consistency(&self) -> Result<Found> {
        const SELECT: &str = "SELECT r.resource FROM tenure.resources AS r \
            LEFT JOIN (SELECT resource, count(*) AS leases, min(lock_id) AS lock_id, \
            bool_and(state = 'held') AS held FROM tenure.dal_locks GROUP BY resource) AS l \
            USING (resource) \
            LEFT JOIN (SELECT resource, bool_or(want = 'upgrade') AS upgrade FROM tenure.waiters \
            GROUP BY resource) AS w USING (resource) \
            WHERE r.alone IS NOT NULL AND NOT CASE \
            WHEN r.alone = '' THEN l.resource IS NULL AND w.resource IS NULL \
            ELSE coalesce(l.leases = 1 AND l.held, false) AND CASE r.alone \
            WHEN l.lock_id THEN w.resource IS NULL WHEN l.lock_id || '+' THEN NOT w.upgrade \
            ELSE false END END \
            UNION ALL SELECT l.resource FROM tenure.dal_locks AS l WHERE NOT EXISTS \
            (SELECT 1 FROM tenure.resources AS r WHERE r.resource = l.resource) LIMIT 100";
        let sql = self.lend().await?;
        let rows = sql.rows(&Statement::new(SELECT, values![])).await?;
        let wrong: Vec<String> = rows.iter().map(|row| text(row, 0)).collect::<Result<_>>()?;
        Ok(if wrong.is_empty() {
            Found::good("every resource is what its leases and waiters say")
        } else {
            Found::bad(
                format!(
                    "somebody else changed the tables: {} is not what its leases and waiters say",
                    some_of(&wrong)
                ),
                "let the owner of the schema run: INSERT INTO tenure.resources SELECT DISTINCT resource, 0, '' FROM \
                 tenure.dal_locks ON CONFLICT DO NOTHING; UPDATE tenure.resources SET alone = NULL",
            )
        })
    }

    /// Counts the leases.
    async fn count_leases(&self) -> Result<Found> {
        const SELECT: &str = "SELECT count(*), count(*) FILTER (WHERE state = 'offered'), \
            count(*) FILTER (WHERE state = 'revoking'), \
            count(*) FILTER (WHERE lease_expires <= pg_catalog.clock_timestamp()), \
            (SELECT count(*) FROM tenure.waiters) FROM tenure.dal_locks";
        let row = self.one(SELECT).await?;
        let count = |index| column::<i64>(&row, index);
        let (all, expired) = (count(0)?, count(3)?);
        let mut told = format!("{} held, {} waiting", all - expired, count(4)?);
        let kinds = [
            (count(1)?, "on offer"),
            (count(2)?, "being broken"),
            (expired, "expired"),
        ];
        for (number, kind) in kinds.into_iter().filter(|(number, _)| *number > 0) {
            told.push_str(&format!(", {number} {kind}"));
        }
        if expired > 0 {
            told.push_str(" (which of them may be recovered, a dry run of recovery says)");
        }
        Ok(Found::good(told))
    }
}

/// Returns the distance of one time from another, and its side, in words.
fn apart(theirs: SystemTime, ours: SystemTime) -> (&'static str, Duration) {
    match theirs.duration_since(ours) {
        Ok(ahead) => ("ahead of", ahead),
        Err(behind) => ("behind", behind.duration()),
    }
}

/// Returns a time such as `0.3ms`: most are shorter than the units of other durations.
fn precisely(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{:.1}ms", time.as_secs_f64() * 1000.0)
    } else {
        duration::show(Duration::from_millis(
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        ))
    }
}

/// Returns the names of the first few of these things.
fn some_of(things: &[String]) -> String {
    let named = things.iter().take(NAMED_MAX).cloned();
    let mut told = named.collect::<Vec<_>>().join(", ");
    if things.len() > NAMED_MAX {
        told.push_str(&format!(" and {} more", things.len() - NAMED_MAX));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_told_apart_on_either_side() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let second = Duration::from_secs(1);
        assert_eq!(apart(now + second, now), ("ahead of", second));
        assert_eq!(apart(now - second, now), ("behind", second));
        assert_eq!(precisely(Duration::from_micros(340)), "0.3ms");
    }

    #[test]
    fn a_server_before_13_is_refused_with_what_to_use() {
        let address = Address::parse("postgres://ana@db/x").unwrap();
        let server = |text: &str, major| ServerVersion {
            text: text.to_owned(),
            major,
        };
        for (version, major) in [("13.0", 13), ("15.18", 15), ("18.1", 18)] {
            assert!(refuse_old(&server(version, major), &address).is_ok());
        }
        let error = refuse_old(&server("12.22", 12), &address).unwrap_err();
        assert!(error.to_string().contains("12.22"), "{error}");
        assert!(
            error.remedy().to_string().contains("PostgreSQL 13"),
            "{error:?}"
        );
    }

    #[test]
    fn of_many_things_a_few_are_named() {
        let things = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(some_of(&things[..2]), "a, b");
        assert_eq!(some_of(&things), "a, b, c and 2 more");
    }
}
