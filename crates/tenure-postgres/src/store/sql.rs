//! One connection in use: statements, their values, and several of them in one round trip.
//!
//! # Invariants
//!
//! - Statements sent together are carried out in their order: each is prepared before the first is
//!   sent, and polling, which sends them, goes through them one after the other.
//! - A call that is dropped while a statement is under way leaves the connection dirty.
//!   [`Sql::is_clean`] is false from then on, and the connection is never lent again.
//! - Every statement has a time limit: if there is no answer in time the error is a passing one,
//!   and the connection is dirty.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tenure_core::Result;
use tenure_core::internal::lock;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Notification, Row, Statement as PreparedStatement};

use crate::Address;
use crate::connect::{Connection, ServerVersion};
use crate::fault::unreachable;

/// The longest time that an answer may take. The row of a resource is locked for two round trips,
/// or, if its process was stopped half-way, for as long as the server lets a transaction idle.
const ANSWER: Duration = Duration::from_secs(10);

/// A value of a statement.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The values of a statement, boxed.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as $crate::store::sql::Value<'_>),*] };
}
pub(super) use values;

/// A statement and its values.
pub(super) struct Statement<'a> {
    text: &'static str,
    values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(text: &'static str, values: Vec<Value<'a>>) -> Self {
        Self { text, values }
    }
}

/// The commands that are sent around statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// Nothing: outside a transaction each statement is a transaction of its own.
    None,
    /// `BEGIN` before the first statement.
    Begin,
    /// `COMMIT` after the last statement.
    Commit(Flush),
}

/// The moment at which a commit must be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// Before the caller is told.
    Now,
    /// A moment later, or with the next commit that is flushed.
    Later,
}

/// A connection in use, and its prepared statements.
pub(super) struct Sql {
    connection: Connection,
    address: Arc<Address>,
    /// The prepared statements, by address and length of their texts, which never move.
    prepared: Mutex<HashMap<(usize, usize), PreparedStatement>>,
    under_way: AtomicUsize,
    /// True if the connection listens to the channel of this process.
    listens: AtomicBool,
}

type Asked<'f, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'f>>;
type RowsFuture<'f> = Asked<'f, Vec<Row>>;

impl Sql {
    pub(super) fn new(connection: Connection, address: Arc<Address>) -> Self {
        Self {
            connection,
            address,
            prepared: Mutex::default(),
            under_way: AtomicUsize::new(0),
            listens: AtomicBool::new(false),
        }
    }

    /// Returns the rows of a statement.
    pub(super) async fn rows(&self, statement: &Statement<'_>) -> Result<Vec<Row>> {
        let answers = self.in_order(std::slice::from_ref(statement)).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// Returns the first row of a statement.
    pub(super) async fn row(&self, statement: &Statement<'_>) -> Result<Option<Row>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }

    /// Sends several statements in one round trip, in this order.
    pub(super) async fn in_order(&self, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        self.framed(Frame::None, statements).await
    }

    /// Sends several statements, with the beginning or end of a transaction, in one round trip.
    pub(super) async fn framed(
        &self,
        frame: Frame,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        // The count does not go down if this is dropped or runs out of time: a statement may then
        // still be under way.
        self.answered(self.send(frame, statements)).await
    }

    /// Waits for an answer. The statement counts as under way until then.
    async fn answered<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(ANSWER, asked).await;
        let answer = answer.map_err(|_| unreachable(&self.address, "no answer in time"))?;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        answer.map_err(|error| self.connection.explain(&error))
    }

    async fn send(
        &self,
        frame: Frame,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let client = self.connection.client();
        let prepared = self.prepared(statements).await?;
        let values: Vec<Vec<&(dyn ToSql + Sync)>> = statements
            .iter()
            .map(|statement| statement.values.iter().map(|value| &**value as _).collect())
            .collect();
        let word = |text: &'static str| -> RowsFuture<'_> {
            Box::pin(async move { client.batch_execute(text).await.map(|()| Vec::new()) })
        };
        let (before, after) = match frame {
            Frame::None => (None, None),
            Frame::Begin => (Some("BEGIN"), None),
            Frame::Commit(Flush::Now) => (None, Some("COMMIT")),
            Frame::Commit(Flush::Later) => {
                (Some("SET LOCAL synchronous_commit TO off"), Some("COMMIT"))
            }
        };
        let queries = prepared
            .iter()
            .zip(&values)
            .map(|(statement, values)| Box::pin(client.query(statement, values)) as RowsFuture<'_>);
        let sent = before.map(word).into_iter().chain(queries);
        let sent: Vec<RowsFuture<'_>> = sent.chain(after.map(word)).collect();
        let first = usize::from(before.is_some());
        let answers = all(sent).await?;
        Ok(answers
            .into_iter()
            .skip(first)
            .take(prepared.len())
            .collect())
    }

    /// Returns the statements as they are prepared. The ones that are not yet prepared take one
    /// round trip together.
    async fn prepared(
        &self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<PreparedStatement>, Error> {
        let place = |text: &'static str| (text.as_ptr() as usize, text.len());
        let missing: HashMap<_, _> = {
            let known = lock(&self.prepared);
            let texts = statements.iter().map(|statement| statement.text);
            let texts = texts.map(|text| (place(text), text));
            texts.filter(|(at, _)| !known.contains_key(at)).collect()
        };
        let client = self.connection.client();
        let preparing = missing.iter().map(|(at, text)| -> Asked<'_, _> {
            Box::pin(async { Ok((*at, client.prepare(text).await?)) })
        });
        let made = all(preparing.collect()).await?;
        let mut known = lock(&self.prepared);
        known.extend(made);
        Ok(statements
            .iter()
            .map(|statement| known[&place(statement.text)].clone())
            .collect())
    }

    /// Rolls a transaction back.
    pub(super) async fn roll_back(&self) -> Result<()> {
        self.execute("ROLLBACK").await
    }

    /// Makes this connection listen to a channel. Returns its notifications, or `None` if they were
    /// taken before.
    pub(super) async fn listen(
        &mut self,
        channel: &str,
    ) -> Result<Option<UnboundedReceiver<Notification>>> {
        self.execute(&format!("LISTEN \"{channel}\"")).await?;
        self.listens.store(true, Ordering::Relaxed);
        Ok(self.connection.take_notifications())
    }

    async fn execute(&self, text: &str) -> Result<()> {
        let client = self.connection.client();
        self.answered(client.batch_execute(text)).await
    }

    /// Returns the version of the server.
    pub(super) fn server(&self) -> &ServerVersion {
        self.connection.server()
    }

    /// Returns true if the connection listens to the channel of this process.
    pub(super) fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    /// Marks the connection as dirty, so that it is never lent again.
    pub(super) fn mark_dirty(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connection. It keeps its permit until it has ended at the server.
    pub(super) fn end(mut self, permit: OwnedSemaphorePermit) {
        self.connection.permit = Some(permit);
    }

    /// Returns true if no statement is under way, and the connection has not ended as far as is
    /// known.
    pub(super) fn is_clean(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && !self.connection.is_over()
    }
}

/// Returns all answers, or the first error. Each future is polled before the next, so that
/// their statements are sent in order.
async fn all<T>(mut queries: Vec<Asked<'_, T>>) -> Result<Vec<T>, Error> {
    let mut answers: Vec<Option<Result<T, Error>>> = Vec::new();
    answers.resize_with(queries.len(), || None);
    poll_fn(|context| {
        let mut missing = false;
        for (query, answer) in queries.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match query.as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => missing = true,
                }
            }
        }
        if missing {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
