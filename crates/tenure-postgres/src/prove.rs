//! Proof that a connection is a session: no pooler hands it to others in between.
//!
//! Session locks, LISTEN and settings are worth nothing behind a pooler in transaction or statement
//! mode, and such a pooler looks like a server. Two connections are therefore opened, and prove
//! themselves in these steps:
//!
//! 1. The first listens, and notes its session.
//! 2. The second begins a transaction. A pooler in statement mode refuses that. A pooler in
//!    transaction mode may give it the session of the first, which is idle: two connections, one
//!    session.
//! 3. While that transaction is open the first is asked again: its session must be the same.
//! 4. The second notifies and commits. The first must hear of it *while it asks nothing*: a pooler
//!    in transaction mode has no client to pass that on to, as a session belongs to no client
//!    between transactions.
//! 5. The second takes a session lock and leaves. The lock must be free then: a pooler in session
//!    mode that does not clean the sessions it takes back (`server_reset_query`) keeps the lock,
//!    and all else that was left there, for its next client.
//!
//! A crash leaves nothing: both connections end with the process.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::Address;
use crate::advisory::Key;
use crate::connect::{ConnectFailure, Connection, first_row, left};
use crate::fault::{message, unreachable};

/// The longest time for a notification.
const HEARING: Duration = Duration::from_secs(2);
/// The longest time until a session that was left is clean.
const CLEANING: Duration = Duration::from_secs(2);

/// Proves that the database at this address keeps sessions apart. The first of the two connections
/// is as good as new, and can be used. `settings` are statements that set both up.
pub(crate) async fn sessions(
    address: &Arc<Address>,
    settings: &str,
    deadline: Instant,
) -> Result<Connection, ConnectFailure> {
    let proof = async {
        let both = [(address, settings), (address, settings)];
        let [listener, speaker] = open_two(both, deadline).await?;
        let key = Key::of_name(&channel(&listener, &speaker)).bits();
        let lock = format!("SELECT pg_catalog.pg_advisory_lock({key})");
        speaker.run(&lock).await?;
        drop(speaker);
        check_clean(&listener, key).await?;
        Ok(listener)
    };
    in_time(address, deadline, proof).await
}

/// Proves that the database keeps sessions apart, and keeps both connections, each set up by
/// statements of its own. As neither of them leaves, 5 is not proved: a pooler that does not clean
/// sessions is found only by [`sessions`].
pub(crate) async fn two_sessions(
    both: [(&Arc<Address>, &str); 2],
    deadline: Instant,
) -> Result<[Connection; 2], ConnectFailure> {
    let proof = async {
        let [listener, speaker] = open_two(both, deadline).await?;
        listener.run("UNLISTEN *").await?;
        Ok([listener, speaker])
    };
    in_time(both[0].0, deadline, proof).await
}

async fn in_time<T>(
    address: &Address,
    deadline: Instant,
    proof: impl Future<Output = Result<T, ConnectFailure>>,
) -> Result<T, ConnectFailure> {
    match timeout(left(deadline), proof).await {
        Ok(proved) => proved,
        Err(_) => Err(ConnectFailure::late(address)),
    }
}

/// Opens two connections, and shows that they are two sessions: 1 to 4.
async fn open_two(
    [first, second]: [(&Arc<Address>, &str); 2],
    deadline: Instant,
) -> Result<[Connection; 2], ConnectFailure> {
    // The first is not kept while there is no room for the second: processes that hold one each and
    // wait for another would wait for each other.
    let mut listener = Connection::try_open(first.0, first.1, deadline).await?;
    let speaker = Connection::try_open(second.0, second.1, deadline).await?;
    show_apart(&mut listener, &speaker, first.0).await?;
    Ok([listener, speaker])
}

fn channel(listener: &Connection, speaker: &Connection) -> String {
    format!("tenure_proof_{}_{}", listener.pid, speaker.pid)
}

async fn show_apart(
    listener: &mut Connection,
    speaker: &Connection,
    address: &Address,
) -> Result<()> {
    let channel = channel(listener, speaker);
    // One after the other: with a single session behind a pooler, a transaction that began first
    // would keep the first connection waiting until the deadline.
    let first = listen(listener, &channel).await?;
    let second = begin(speaker).await?;
    if first == second {
        return Err(shared(&format!("two connections share session {first}")));
    }
    let again = session_after(listener, "").await?;
    if again != first {
        return Err(shared(&format!("session {first} became {again}")));
    }
    speaker.run(&format!("NOTIFY {channel}; COMMIT")).await?;
    match timeout(HEARING, listener.notification()).await {
        Ok(Some(notification)) if notification.channel() == channel => Ok(()),
        Ok(Some(_)) => Err(shared("a notification for somebody else arrived")),
        Ok(None) => Err(unreachable(address, "the connection was closed")),
        Err(_) => Err(shared("a notification did not arrive")),
    }
}

/// Returns the error for a pooler that shares sessions.
pub(crate) fn shared(sign: &str) -> Error {
    Error::configuration(
        format!(
            "there is a pooler before the database that shares sessions between clients ({sign}): \
             locks would not hold"
        ),
        "connect to the database itself, or set pool_mode = session for it in PgBouncer",
    )
}

/// Returns the error for a pooler that keeps sessions as their clients left them.
fn not_cleaned() -> Error {
    Error::configuration(
        "there is a pooler before the database that does not clean the sessions it takes back: \
                  a lock would stay when its holder is gone",
        "set server_reset_query = DISCARD ALL in PgBouncer, or connect to the database itself",
    )
}

/// Waits until a lock that was left behind is free, and ends listening.
async fn check_clean(listener: &Connection, key: i64) -> Result<()> {
    let limit = CLEANING.as_millis();
    let sql = format!(
        "SET LOCAL lock_timeout = {limit}; SELECT pg_catalog.pg_advisory_lock({key}); \
         SELECT pg_catalog.pg_advisory_unlock({key}); UNLISTEN *"
    );
    match listener.client().batch_execute(&sql).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(not_cleaned()),
        cleaned => cleaned.map_err(|error| listener.explain(&error)),
    }
}

async fn listen(listener: &Connection, channel: &str) -> Result<String> {
    session_after(listener, &format!("LISTEN {channel};")).await
}

async fn begin(speaker: &Connection) -> Result<String> {
    let begun = session(speaker.client(), "BEGIN;").await;
    begun.map_err(|error| match message(&error) {
        // PostgreSQL itself never refuses to begin. Any other failure is the end of the session,
        // not a sign of sharing.
        sign if sign.contains("statement pooling") => {
            shared(&format!("it refuses transactions: {sign}"))
        }
        _ => speaker.explain(&error),
    })
}

async fn session_after(connection: &Connection, statements: &str) -> Result<String> {
    let session = session(connection.client(), statements).await;
    session.map_err(|error| connection.explain(&error))
}

/// Runs statements, and returns the session they ran in. They are not prepared: the way a pooler
/// handles prepared statements proves nothing.
async fn session(client: &Client, statements: &str) -> Result<String, tokio_postgres::Error> {
    let sql = format!("{statements} SELECT pg_catalog.pg_backend_pid()");
    let answers = client.simple_query(&sql).await?;
    let pid = first_row(&answers).and_then(|row| row.get(0));
    Ok(pid.unwrap_or_default().to_owned())
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
        let speaker = Connection::try_open(&address, "", deadline).await.unwrap();
        let end = format!("SELECT pg_terminate_backend({}, 10000)", speaker.pid);
        assert_eq!(database.psql(&end), "t");
        let error = begin(&speaker).await.unwrap_err();
        assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    }
}
