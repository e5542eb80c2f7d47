//! Proof that a connection is a session: no pooler hands it to others in between.
//!
//! Session locks, LISTEN and settings are worth nothing behind a pooler in transaction or statement mode, and
//! such a pooler looks like a server. So two connections are opened, and show:
//!
//! 1. The first listens, and notes its session.
//! 2. The second begins a transaction. A pooler in statement mode refuses that; one in transaction mode may
//!    give it the first one's session, which is idle: two connections, one session.
//! 3. While that transaction is open the first is asked again: it must be the same session.
//! 4. The second notifies and commits. The first must hear of it *while it asks nothing*: a pooler
//!    in transaction mode has nobody to pass that on to, as the session is nobody's between transactions.
//! 5. The second takes a session lock and leaves. The lock must be free then: a pooler in session mode that does not clean
//!    what it takes back (`server_reset_query`) keeps it, and whatever else was left there, for its next client.
//!
//! A crash leaves nothing: both connections end with the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::Address;
use crate::advisory::Key;
use crate::connect::{Connection, Refusal, left};
use crate::fault::{message, unreachable};

/// The longest time for a notification.
const HEARING: Duration = Duration::from_secs(2);
/// The longest time until a session that was left is clean.
const CLEANING: Duration = Duration::from_secs(2);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Proves that the database at this address keeps sessions apart. The first of the two connections is as good
/// as new, and can be used.
pub(crate) async fn sessions(
    address: &Arc<Address>,
    deadline: Instant,
) -> Result<Connection, Refusal> {
    let (mut listener, speaker) = Connection::open_two(address, deadline).await?;
    let proof = async {
        let channel = format!("tenure_proof_{}_{}", listener.pid(), speaker.pid());
        let first = listen(&listener, &channel).await?;
        let second = begin(&speaker).await?;
        if first == second {
            return Err(shared(&format!("two connections share session {first}")));
        }
        let again = session(listener.client()).await;
        let again = again.map_err(|error| listener.explain(&error))?;
        if again != first {
            return Err(shared(&format!("session {first} became {again}")));
        }
        notify(&speaker, &channel).await?;
        let heard = timeout(HEARING, listener.notification()).await;
        match heard {
            Ok(Some(notification)) if notification.channel() == channel => {}
            Ok(Some(_)) => return Err(shared("a notification for somebody else arrived")),
            Ok(None) => return Err(unreachable(address, "the connection was closed")),
            Err(_) => return Err(shared("a notification did not arrive")),
        }
        let key = Key::of_name(&channel).bits();
        ask(&speaker, "pg_advisory_lock", key).await?;
        drop(speaker);
        is_clean(&listener, key).await?;
        let done = listener.client().batch_execute("UNLISTEN *").await;
        done.map_err(|error| listener.explain(&error))?;
        Ok(listener)
    };
    match timeout(left(deadline), proof).await {
        Ok(proved) => Ok(proved?),
        Err(_) => Err(Refusal::Late(unreachable(address, "no answer in time"))),
    }
}

/// Returns the error for a pooler that shares sessions.
pub(crate) fn shared(sign: &str) -> Error {
    Error::Configuration {
        problem: format!(
            "there is a pooler before the database that shares sessions between clients ({sign}): \
             locks would not hold"
        ),
        remedy: "connect to the database itself, or set pool_mode = session for it in PgBouncer"
            .into(),
    }
}

/// Returns the error for a pooler that keeps sessions as their clients left them.
fn not_cleaned() -> Error {
    Error::Configuration {
        problem:
            "there is a pooler before the database that does not clean the sessions it takes back: \
                  a lock would stay when its holder is gone"
                .into(),
        remedy:
            "set server_reset_query = DISCARD ALL in PgBouncer, or connect to the database itself"
                .into(),
    }
}

/// Waits until a lock that was left behind is free.
async fn is_clean(connection: &Connection, key: i64) -> Result<()> {
    let cleaned = async {
        while !ask(connection, "pg_try_advisory_lock", key).await? {
            sleep(PAUSE).await;
        }
        ask(connection, "pg_advisory_unlock", key).await
    };
    match timeout(CLEANING, cleaned).await {
        Ok(cleaned) => cleaned.map(|_| ()),
        Err(_) => Err(not_cleaned()),
    }
}

/// Calls a function on an advisory lock, and returns its boolean result.
async fn ask(connection: &Connection, function: &str, key: i64) -> Result<bool> {
    let sql = format!("SELECT pg_catalog.{function}({key})::text IN ('', 'true')");
    let rows = connection.client().query_typed(&sql, &[]).await;
    let rows = rows.map_err(|error| connection.explain(&error))?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

async fn listen(listener: &Connection, channel: &str) -> Result<i32> {
    let client = listener.client();
    let said = |error: tokio_postgres::Error| listener.explain(&error);
    let listening = client.batch_execute(&format!("LISTEN {channel}")).await;
    listening.map_err(said)?;
    session(client).await.map_err(said)
}

async fn begin(speaker: &Connection) -> Result<i32> {
    let client = speaker.client();
    let said = |error: tokio_postgres::Error| speaker.explain(&error);
    match client.batch_execute("BEGIN").await {
        // The server itself never refuses to begin. Any other failure is the end of the session, not a sign of sharing.
        Err(error) if message(&error).contains("statement pooling") => {
            let sign = message(&error);
            return Err(shared(&format!("it refuses transactions: {sign}")));
        }
        begun => begun.map_err(said)?,
    }
    session(client).await.map_err(said)
}

async fn notify(speaker: &Connection, channel: &str) -> Result<()> {
    let notify = format!("NOTIFY {channel}; COMMIT");
    let sent = speaker.client().batch_execute(&notify).await;
    sent.map_err(|error| speaker.explain(&error))
}

/// Not prepared: what a pooler does with prepared statements is no proof.
async fn session(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let row = client
        .query_typed("SELECT pg_catalog.pg_backend_pid()", &[])
        .await?;
    Ok(row.first().map_or(0, |row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use tenure_core::Class;
    use tenure_testkit::postgres::Cluster;

    use super::*;

    #[tokio::test]
    async fn a_backend_that_was_terminated_before_its_transaction_began_is_no_pooler() {
        let database = Cluster::shared().database();
        let address = Arc::new(Address::parse(&database.url()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(15);
        let speaker = Connection::try_open(&address, deadline).await.unwrap();
        let end = format!("SELECT pg_terminate_backend({}, 10000)", speaker.pid());
        assert_eq!(database.psql(&end), "t");
        let error = begin(&speaker).await.unwrap_err();
        assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    }
}
