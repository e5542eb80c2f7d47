//! One connection in use: statements, their values, and several of them in one round trip.
//!
//! # Invariants
//!
//! - Statements sent together are carried out in their order: each is prepared before the first is sent, and
//!   they are polled, which is what sends them, one after the other.
//! - Whoever is dropped while something is under way leaves the connection dirty. It says so
//!   from then on ([`Sql::is_clean`]), and is never lent again.
//! - No statement is waited for without end: what does not answer in time is a passing error, and the connection
//!   is dirty.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tenure_core::Result;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Notification, Row, Statement};

use crate::Address;
use crate::connect::Connection;
use crate::fault::unreachable;

/// How long an answer may take. The row of a resource is locked for two round trips, or, by one that was
/// stopped half-way, for as long as the server lets a transaction idle.
const ANSWER: Duration = Duration::from_secs(10);

/// A value of a statement.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The values of a statement, boxed.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as $crate::store::sql::Value<'_>),*] };
}
pub(super) use values;

/// A statement and its values.
pub(super) struct Asked<'a> {
    text: &'static str,
    values: Vec<Value<'a>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(text: &'static str, values: Vec<Value<'a>>) -> Self {
        Self { text, values }
    }
}

/// What frames statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// Nothing: outside a transaction each is one of its own.
    None,
    /// A transaction begins before the first.
    Begin,
    /// It ends after the last.
    Commit(Flush),
}

/// When a commit is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// Before it is told.
    Now,
    /// A moment later, or with the next commit that is on disk before it is told.
    Later,
}

/// A connection in use, and its prepared statements.
pub(super) struct Sql {
    connection: Connection,
    address: Arc<Address>,
    /// By the place of their texts, which never move.
    statements: Mutex<HashMap<(usize, usize), Statement>>,
    under_way: AtomicUsize,
    /// Whether it hears notifications for this process.
    listens: AtomicBool,
}

type Answer<'f> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'f>>;

impl Sql {
    pub(super) fn new(connection: Connection, address: Arc<Address>) -> Self {
        Self {
            connection,
            address,
            statements: Mutex::default(),
            under_way: AtomicUsize::new(0),
            listens: AtomicBool::new(false),
        }
    }

    /// What a statement finds.
    pub(super) async fn rows(&self, asked: &Asked<'_>) -> Result<Vec<Row>> {
        let answers = self.in_order(std::slice::from_ref(asked)).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// The first row that a statement finds.
    pub(super) async fn row(&self, asked: &Asked<'_>) -> Result<Option<Row>> {
        Ok(self.rows(asked).await?.into_iter().next())
    }

    /// Several statements in one round trip, in this order.
    pub(super) async fn in_order(&self, asked: &[Asked<'_>]) -> Result<Vec<Vec<Row>>> {
        self.framed(Frame::None, asked).await
    }

    /// The same, with what begins or ends a transaction in the same round trip.
    pub(super) async fn framed(&self, frame: Frame, asked: &[Asked<'_>]) -> Result<Vec<Vec<Row>>> {
        // Not counted down where this is dropped or runs out of time: then nobody knows what is under way.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let answers = timeout(ANSWER, self.send(frame, asked)).await;
        let answers = answers.map_err(|_| unreachable(&self.address, "no answer in time"))?;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        answers.map_err(|error| self.connection.explain(&error))
    }

    async fn send(&self, frame: Frame, asked: &[Asked<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        let client = self.connection.client();
        let mut statements = Vec::with_capacity(asked.len());
        for one in asked {
            statements.push(self.prepared(one.text).await?);
        }
        let values: Vec<Vec<&(dyn ToSql + Sync)>> = asked
            .iter()
            .map(|one| one.values.iter().map(|value| &**value as _).collect())
            .collect();
        let word = |text: &'static str| -> Answer<'_> {
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
        let asked = statements
            .iter()
            .zip(&values)
            .map(|(statement, values)| Box::pin(client.query(statement, values)) as Answer<'_>);
        let sent = before.map(word).into_iter().chain(asked);
        let sent: Vec<Answer<'_>> = sent.chain(after.map(word)).collect();
        let first = usize::from(before.is_some());
        let answers = all(sent).await?;
        Ok(answers
            .into_iter()
            .skip(first)
            .take(statements.len())
            .collect())
    }

    async fn prepared(&self, text: &'static str) -> Result<Statement, Error> {
        let place = (text.as_ptr() as usize, text.len());
        let known = self.known().get(&place).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.connection.client().prepare(text).await?;
        self.known().insert(place, statement.clone());
        Ok(statement)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<(usize, usize), Statement>> {
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a transaction back.
    pub(super) async fn roll_back(&self) -> Result<()> {
        self.say("ROLLBACK").await
    }

    /// Has this connection hear what is said on a channel, and gives what it hears.
    pub(super) async fn listen(
        &mut self,
        channel: &str,
    ) -> Result<Option<UnboundedReceiver<Notification>>> {
        self.say(&format!("LISTEN \"{channel}\"")).await?;
        self.listens.store(true, Ordering::Relaxed);
        Ok(self.connection.take_notifications())
    }

    async fn say(&self, text: &str) -> Result<()> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let said = timeout(ANSWER, self.connection.client().batch_execute(text)).await;
        let said = said.map_err(|_| unreachable(&self.address, "no answer in time"))?;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        said.map_err(|error| self.connection.explain(&error))
    }

    /// Whether it hears what is said to this process.
    pub(super) fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    /// It is not to be lent again.
    pub(super) fn spoil(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends it. It counts until it is ended at the server.
    pub(super) fn end(mut self, permit: OwnedSemaphorePermit) {
        self.connection.permit = Some(permit);
    }

    /// Whether nothing is under way on it, and it is not over as far as is known.
    pub(super) fn is_clean(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && !self.connection.is_over()
    }
}

/// All answers, or the first error. Each future is polled before the next, so that what they
/// send goes out in their order.
async fn all(mut asked: Vec<Answer<'_>>) -> Result<Vec<Vec<Row>>, Error> {
    let mut answers: Vec<Option<Result<Vec<Row>, Error>>> = Vec::new();
    answers.resize_with(asked.len(), || None);
    poll_fn(|context| {
        let mut missing = false;
        for (one, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match one.as_mut().poll(context) {
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
