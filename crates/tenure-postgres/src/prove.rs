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
//!
//! A crash leaves nothing: both connections end with the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::Address;
use crate::connect::{Connection, left};
use crate::fault::unreachable;

/// How long a notification may take.
const HEARING: Duration = Duration::from_secs(2);

/// Proves that the database at this address keeps sessions apart.
pub(crate) async fn sessions(address: &Arc<Address>, deadline: Instant) -> Result<()> {
    let mut listener = Connection::open(address, deadline).await?;
    let speaker = Connection::open(address, deadline).await?;
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
        let heard = timeout(HEARING.min(left(deadline)), listener.notification()).await;
        match heard {
            Ok(Some(notification)) if notification.channel() == channel => Ok(()),
            Ok(Some(_)) => Err(shared("a notification for somebody else arrived")),
            Ok(None) => Err(unreachable(address, "the connection was closed")),
            Err(_) => Err(shared("a notification did not arrive")),
        }
    };
    match timeout(left(deadline) + HEARING, proof).await {
        Ok(proved) => proved,
        Err(_) => Err(unreachable(address, "no answer in time")),
    }
}

/// The refusal of what shares sessions.
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

async fn listen(listener: &Connection, channel: &str) -> Result<i32> {
    let client = listener.client();
    let said = |error: tokio_postgres::Error| listener.explain(&error);
    let listening = client.batch_execute(&format!("LISTEN {channel}")).await;
    listening.map_err(said)?;
    session(client).await.map_err(said)
}

async fn begin(speaker: &Connection) -> Result<i32> {
    let client = speaker.client();
    if let Err(error) = client.batch_execute("BEGIN").await {
        // The server itself never refuses to begin.
        let sign = crate::fault::message(&error);
        return Err(shared(&format!("it refuses transactions: {sign}")));
    }
    let asked = session(client).await;
    asked.map_err(|error| speaker.explain(&error))
}

async fn notify(speaker: &Connection, channel: &str) -> Result<()> {
    let notify = format!("NOTIFY {channel}; COMMIT");
    let sent = speaker.client().batch_execute(&notify).await;
    sent.map_err(|error| speaker.explain(&error))
}

/// Asked without preparing: what a pooler does with prepared statements is no proof.
async fn session(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let row = client
        .query_typed("SELECT pg_catalog.pg_backend_pid()", &[])
        .await?;
    Ok(row.first().map_or(0, |row| row.get(0)))
}
