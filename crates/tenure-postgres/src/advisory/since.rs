//! The time since when a lock is held, which the server shows without a row of ours.
//!
//! 1. Until the first probe the last statement of a holder is its grant: the lock is held since
//!    that was answered, which is `state_change` in `pg_stat_activity`.
//! 2. The first probe, 500 ms later, puts the time into the connection's application name, where
//!    every role can read it: `tenure advisory, since 2026-01-31T12:00:00.000Z`.
//! 3. A release that finds the name changed puts it back, in the same round trip.
//!
//! A lock that is held for less than half a second costs nothing more. A crash between 2 and 3 ends
//! the connection, and the name with it.

use std::sync::Arc;

use tenure_core::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

/// The text between the name and the time.
const SINCE: &str = ", since ";

/// The room for a name. The server keeps 63 bytes: the time and the text before it take 32.
const NAME_BYTES_MAX: usize = 31;

const SHOW: &str = "
    SELECT pg_catalog.pg_backend_pid(), pg_catalog.set_config('application_name', $1 || pg_catalog.to_char(
        (pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $2)) AT TIME ZONE 'UTC',
        'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), false)";

const HIDE: &str = "SELECT pg_catalog.set_config('application_name', $1, false)";

/// Returns the name of a connection that holds nothing.
#[derive(Clone)]
pub(super) struct Name(Arc<str>);

impl Name {
    pub(super) fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Shows that a lock has been held for `held_ms`. Returns the backend, so it is a probe as
    /// well.
    pub(super) async fn set_held_since(&self, client: &Client, held_ms: u64) -> Result<i32, Error> {
        let mut cut = self.0.len().min(NAME_BYTES_MAX);
        while !self.0.is_char_boundary(cut) {
            cut -= 1;
        }
        let begin = format!("{}{SINCE}", &self.0[..cut]);
        let seconds = held_ms as f64 / 1000.0;
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&begin, Type::TEXT), (&seconds, Type::FLOAT8)];
        let rows = client.query_typed(SHOW, &values).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// Shows the name without a time.
    pub(super) async fn clear_held_since(&self, client: &Client) -> Result<(), Error> {
        let name: &str = &self.0;
        client.query_typed(HIDE, &[(&name, Type::TEXT)]).await?;
        Ok(())
    }
}

/// Returns the time in the name of a connection of ours.
pub(super) fn in_name(name: &str) -> Option<Timestamp> {
    let (ours, time) = name.rsplit_once(SINCE)?;
    if ours.starts_with("tenure") {
        time.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_tell_a_time() {
        let time = "2026-01-31T12:00:00.000Z";
        let told = in_name(&format!("tenure advisory{SINCE}{time}"));
        assert_eq!(told, Some(time.parse().unwrap()));
        assert_eq!(in_name(&format!("psql{SINCE}{time}")), None);
        assert_eq!(in_name("tenure advisory, since Monday"), None);
        assert_eq!(in_name("tenure advisory"), None);
        assert_eq!(NAME_BYTES_MAX + SINCE.len() + time.len(), 63);
    }
}
