//! One connection: opened, set up, driven by a task of its own, and ended so that nothing of it
//! goes on at the server.
//!
//! # Set up
//!
//! Settings of an administrator or a role against long waits do not apply to a connection that
//! holds locks: no statement, session or transaction timeout ends it.
//!
//! The server notices a client that has vanished. A closed socket is noticed within a second during
//! a statement, and at once otherwise. A client that is cut off is noticed after about 11 s: by
//! keepalives where nothing is under way, and by `tcp_user_timeout` where a reply is. The kernel
//! sends no keepalives while a reply waits to be acknowledged, and would repeat the reply for a
//! quarter of an hour. Both times are longer than the 3 s after which a holder that is cut off
//! knows it.
//!
//! # Ending
//!
//! Dropping a [`Connection`] ends it. A statement may then be under way at the server, for instance
//! one that waits for a lock, and a server does not notice a closed socket while it waits:
//!
//! 1. The client is dropped. A driver with nothing outstanding says goodbye and ends.
//! 2. Else the statement is cancelled, again and again until the driver ends: a cancellation that
//!    comes before its statement is lost.
//! 3. After two seconds the socket is closed. The server notices within a second.
//!
//! A crash at any step closes the socket, as step 3 does. The connection's place in a pool is given
//! back after the last step.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::duration::DURATION_MAX;
use tenure_core::{Error, Result, RetryPolicy};
use tenure_os::random;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{
    AsyncMessage, CancelToken, Client, NoTls, Notification, Row, SimpleQueryMessage, SimpleQueryRow,
};

use crate::fault::{explain, is_away, is_passing, message, unreachable};
use crate::{Address, tls};

/// The longest time for one attempt, however much time there is: a server without room says so, and
/// is asked again; a server that says nothing is not there.
const ATTEMPT: Duration = Duration::from_secs(15);
/// The time that a server far away needs to answer at all, also for a request that does not wait.
const ANSWER_MIN: Duration = Duration::from_secs(3);
/// The longest time for the set-up of a fresh connection.
const SET_UP_MAX: Duration = Duration::from_secs(5);
/// The time for a driver to end by itself, and between two cancellations.
const GOODBYE: Duration = Duration::from_millis(20);
/// The time for which a statement is cancelled before the socket is closed under it.
const CANCEL: Duration = Duration::from_secs(2);

/// Sets a session up, in one round trip. The first two statements come before all else: the rest
/// may take longer than an administrator allows a statement, and must not find operators or
/// functions that another role put into a schema of the search path. Only settings that this server
/// knows are set.
///
/// The set-up relies on no isolation, as it reads no rows of ours. It is sent without preparing, so
/// that a pooler that shares sessions gets as far as its proof.
const SET_UP: &str = "SET statement_timeout = 0; SET search_path = pg_catalog, pg_temp;
    SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num'),
        pg_catalog.current_setting('server_version'), pg_catalog.set_config(known.name, wanted.value, false)
    FROM (VALUES
        ('transaction_timeout', '0'),
        ('idle_session_timeout', '0'),
        ('idle_in_transaction_session_timeout', '0'),
        ('default_transaction_isolation', 'read committed'),
        ('default_transaction_read_only', 'off'),
        ('tcp_keepalives_idle', '5'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000'),
        ('client_connection_check_interval',
            CASE WHEN pg_catalog.version() ~ 'linux' THEN '1s' ELSE '0' END)
    ) AS wanted (name, value)
    JOIN pg_catalog.pg_settings AS known USING (name)";

/// An open connection, alone in its session.
pub(crate) struct Connection {
    /// `None` only while it is being dropped.
    client: Option<Arc<Client>>,
    pub(crate) pid: i32,
    server: ServerVersion,
    driver: Option<JoinHandle<()>>,
    over: watch::Receiver<Option<String>>,
    /// `None` once they were taken.
    notifications: Option<mpsc::UnboundedReceiver<Notification>>,
    cancel: Cancel,
    pub(crate) runtime: Handle,
    /// The place in a pool that the connection takes up.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// The version of the server, as a number and as text.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerVersion {
    /// The major version.
    pub(crate) major: i32,
    /// The version as the server spells it.
    pub(crate) text: String,
}

/// The means to cancel a statement.
#[derive(Clone)]
struct Cancel {
    token: CancelToken,
    address: Arc<Address>,
}

impl Connection {
    /// Asks once for a connection. `settings` are statements that set it up further.
    pub(crate) async fn try_open(
        address: &Arc<Address>,
        settings: &str,
        deadline: Instant,
    ) -> Result<Connection, ConnectFailure> {
        match timeout(left(deadline).min(ATTEMPT), reach(address, settings)).await {
            Ok(reached) => reached,
            Err(_) => Err(ConnectFailure::late(address)),
        }
    }

    /// Runs one statement that is not prepared, and returns its rows.
    pub(crate) async fn query(
        &self,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>> {
        let rows = self.client().query_typed(sql, values).await;
        rows.map_err(|error| self.explain(&error))
    }

    /// Runs statements without values.
    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        let ran = self.client().batch_execute(sql).await;
        ran.map_err(|error| self.explain(&error))
    }

    /// Sets up a fresh connection, and notes which session of which server it is.
    async fn set_up(&mut self, settings: &str) -> Result<(), ConnectFailure> {
        let address = Arc::clone(&self.cancel.address);
        let set_up = format!("{SET_UP};{settings}");
        let rows = timeout(SET_UP_MAX, self.client().simple_query(&set_up)).await;
        let rows =
            rows.map_err(|_| ConnectFailure::Final(unreachable(&address, "no answer in time")))?;
        let rows = rows.map_err(|error| connect_failure(&address, &error))?;
        let first = first_row(&rows);
        let text = |column| first.and_then(|row| row.get(column)).unwrap_or_default();
        let number = |column| text(column).parse::<i32>().unwrap_or(0);
        self.pid = number(0);
        self.server = ServerVersion {
            major: number(1) / 10_000,
            text: text(2).to_owned(),
        };
        Ok(())
    }

    /// Returns the client for statements.
    pub(crate) fn client(&self) -> &Arc<Client> {
        self.client.as_ref().expect("taken only when dropped")
    }

    /// Returns the version of the server.
    pub(crate) fn server(&self) -> &ServerVersion {
        &self.server
    }

    /// Returns a receiver that learns the reason when the connection ends.
    pub(crate) fn over(&self) -> watch::Receiver<Option<String>> {
        self.over.clone()
    }

    /// Returns true if the connection is over, as far as is known without asking.
    pub(crate) fn is_over(&self) -> bool {
        self.client().is_closed() || self.over.borrow().is_some()
    }

    /// Returns a handle that closes the socket at once, from elsewhere.
    pub(crate) fn cutter(&self) -> Option<tokio::task::AbortHandle> {
        self.driver.as_ref().map(JoinHandle::abort_handle)
    }

    /// Returns the next notification, or `None` when the connection is over.
    pub(crate) async fn notification(&mut self) -> Option<Notification> {
        self.notifications.as_mut()?.recv().await
    }

    /// Takes all notifications, for a task that listens while others ask. Returns `None` if they
    /// were taken before.
    pub(crate) fn take_notifications(&mut self) -> Option<mpsc::UnboundedReceiver<Notification>> {
        self.notifications.take()
    }

    /// Returns our error for a statement that failed on this connection.
    pub(crate) fn explain(&self, error: &tokio_postgres::Error) -> Error {
        explain(&self.cancel.address, error)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (Some(client), Some(driver)) = (self.client.take(), self.driver.take()) else {
            return;
        };
        let permit = self.permit.take();
        let cancel = self.cancel.clone();
        // In a runtime that is shut down the task is dropped at once, and the socket with the
        // driver.
        self.runtime.spawn(async move {
            end(client, driver, cancel).await;
            drop(permit);
        });
    }
}

async fn end(client: Arc<Client>, mut driver: JoinHandle<()>, cancel: Cancel) {
    drop(client);
    let until = Instant::now() + CANCEL;
    while Instant::now() < until {
        if timeout(GOODBYE, &mut driver).await.is_ok() {
            return;
        }
        // If no answer comes, the next round cancels again.
        let _ = timeout(left(until), cancel.send()).await;
    }
    driver.abort();
}

impl Cancel {
    async fn send(&self) -> Result<()> {
        let sent = if self.address.is_plain() {
            self.token.cancel_query(NoTls).await
        } else {
            let tls = tls::connector(&self.address.proof)?;
            self.token.cancel_query(tls).await
        };
        sent.map_err(|error| explain(&self.address, &error))
    }
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// The server has no room, or is starting up.
    Passing(Error),
    /// The connection was refused, reset, or ended by the server: it restarts, or an administrator
    /// ended the session. Opening a store waits for the server; a store that is open does not.
    Away(Error),
    /// The deadline came before the answer.
    Late(Error),
    /// Any other reason.
    Final(Error),
}

impl ConnectFailure {
    /// Returns the failure for a server that did not answer before the deadline.
    pub(crate) fn late(address: &Address) -> Self {
        ConnectFailure::Late(unreachable(address, "no answer in time"))
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            ConnectFailure::Passing(error)
            | ConnectFailure::Away(error)
            | ConnectFailure::Late(error)
            | ConnectFailure::Final(error) => error,
        }
    }
}

/// Returns the error for a connection that was open.
impl From<Error> for ConnectFailure {
    fn from(error: Error) -> Self {
        if error.is_passing() {
            ConnectFailure::Away(error)
        } else {
            ConnectFailure::Final(error)
        }
    }
}

/// Opens something at a server. While the server has no room or is away, the attempt is repeated
/// for as long as `wait`, or made once if that is zero. The deadline of an attempt leaves a server
/// far away the time to answer.
pub(crate) async fn open_with_retry<T, F>(
    address: &Address,
    wait: Duration,
    mut attempt: impl FnMut(Instant) -> F,
) -> Result<T>
where
    F: Future<Output = Result<T, ConnectFailure>>,
{
    let wait = wait.min(DURATION_MAX);
    let until = Instant::now() + wait;
    let deadline = Instant::now() + wait.max(ANSWER_MIN);
    let mut pauses = ConnectPauses::default();
    loop {
        let tried = timeout(left(deadline), attempt(deadline)).await;
        match tried.unwrap_or_else(|_| Err(ConnectFailure::late(address))) {
            Ok(opened) => return Ok(opened),
            Err(ConnectFailure::Away(error)) => {
                pauses.pause(ConnectFailure::Passing(error), until).await?
            }
            Err(failure) => pauses.pause(failure, until).await?,
        }
    }
}

/// The pauses between two attempts to get a connection.
#[derive(Default)]
pub(crate) struct ConnectPauses {
    failed: u32,
    /// The error of the attempt before: it says more than "the last attempt came too late".
    last: Option<Error>,
}

impl ConnectPauses {
    /// Waits before the next attempt. Fails if there is to be none, or no time is left for it.
    pub(crate) async fn pause(&mut self, failure: ConnectFailure, deadline: Instant) -> Result<()> {
        let error = match failure {
            ConnectFailure::Passing(error) => error,
            ConnectFailure::Late(error) => return Err(self.last.take().unwrap_or(error)),
            ConnectFailure::Away(error) | ConnectFailure::Final(error) => return Err(error),
        };
        let policy = RetryPolicy {
            attempts: u32::MAX,
            first: Duration::from_millis(20),
            longest: Duration::from_millis(500),
            ..RetryPolicy::default()
        };
        self.failed += 1;
        let pause = policy.pause(self.failed, random::fraction());
        let pause = pause.unwrap_or(policy.longest);
        if pause >= left(deadline) {
            return Err(error);
        }
        self.last = Some(error);
        sleep(pause).await;
        Ok(())
    }
}

/// Returns why the server turned a connection away.
fn connect_failure(address: &Address, error: &tokio_postgres::Error) -> ConnectFailure {
    let explained = explain(address, error);
    match (is_passing(error), is_away(error)) {
        (true, _) => ConnectFailure::Passing(explained),
        (false, true) => ConnectFailure::Away(explained),
        (false, false) => ConnectFailure::Final(explained),
    }
}

async fn reach(address: &Arc<Address>, settings: &str) -> Result<Connection, ConnectFailure> {
    let refused = |error| connect_failure(address, &error);
    let (over, ended) = watch::channel(None);
    let (sender, notifications) = mpsc::unbounded_channel();
    let (client, driver) = if address.is_plain() {
        let (client, connection) = address.config.connect(NoTls).await.map_err(refused)?;
        (client, tokio::spawn(drive(connection, over, sender)))
    } else {
        let tls = tls::connector(&address.proof).map_err(ConnectFailure::Final)?;
        let (client, connection) = address.config.connect(tls).await.map_err(refused)?;
        (client, tokio::spawn(drive(connection, over, sender)))
    };
    let token = client.cancel_token();
    let mut connection = Connection {
        client: Some(Arc::new(client)),
        pid: 0,
        server: ServerVersion::default(),
        driver: Some(driver),
        over: ended,
        notifications: Some(notifications),
        cancel: Cancel {
            token,
            address: Arc::clone(address),
        },
        runtime: Handle::current(),
        permit: None,
    };
    connection.set_up(settings).await?;
    Ok(connection)
}

/// Returns the first row among the answers to simple statements.
pub(crate) fn first_row(answers: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    over: watch::Sender<Option<String>>,
    sender: mpsc::UnboundedSender<Notification>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let reason = loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                // A failure means that no task receives notifications.
                let _ = sender.send(notification);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break message(&error),
            None => break "the connection was closed".to_owned(),
        }
    };
    over.send_replace(Some(reason));
}

/// Waits for a permit for one of `limit` connections.
pub(crate) async fn permit(
    permits: &Arc<Semaphore>,
    (address, limit): (&Address, usize),
    deadline: Instant,
) -> Result<OwnedSemaphorePermit> {
    let asked = Instant::now();
    let permit = timeout(left(deadline), Arc::clone(permits).acquire_owned()).await;
    let permit = permit.map_err(|_| Error::Exhausted {
        store: address.to_string(),
        limit,
        waited: asked.elapsed(),
    })?;
    permit.map_err(|_| Error::Internal("the pool was closed".into()))
}

/// Returns how long it is until a deadline.
pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use tenure_testkit::postgres::Cluster;

    use super::*;

    #[tokio::test]
    async fn a_session_is_set_up_to_end_when_it_is_cut_off() {
        let database = Cluster::shared().database();
        let address = Arc::new(Address::parse(&database.tcp_url()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(15);
        let connection = Connection::try_open(&address, "", deadline).await.unwrap();
        let wanted = [
            ("tcp_keepalives_idle", "5"),
            ("tcp_keepalives_interval", "2"),
            ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "10000"),
        ];
        for (name, value) in wanted {
            let sql = "SELECT setting FROM pg_settings WHERE name = $1";
            let row = connection.client().query_one(sql, &[&name]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), value, "{name}");
        }
    }
}
