//! The bare statements, on one connection.

use std::future::poll_fn;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

/// A connection, and a pair of prepared statements that both take one number.
pub struct Bare {
    client: Client,
    first: Statement,
    second: Statement,
    runtime: Runtime,
}

/// The table whose row has in common with a lease that it has a key and is on disk.
pub const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS public.bare (id text PRIMARY KEY, owner text NOT NULL)";
pub const INSERT: &str = "INSERT INTO public.bare VALUES ('item:' || $1::bigint, 'bench@desk')";
pub const DELETE: &str = "DELETE FROM public.bare WHERE id = 'item:' || $1::bigint";
pub const LOCK: &str = "SELECT pg_advisory_lock(7, $1::bigint::integer)";
pub const UNLOCK: &str = "SELECT pg_advisory_unlock(7, $1::bigint::integer)";

impl Bare {
    pub fn open(url: &str, first: &str, second: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, first, second) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let first = client.prepare(first).await?;
            let second = client.prepare(second).await?;
            anyhow::Ok((client, first, second))
        })?;
        Ok(Self {
            client,
            first,
            second,
            runtime,
        })
    }

    /// Runs both statements, one after the other, for each number.
    pub fn each(&self, numbers: std::ops::Range<i64>) -> Result<()> {
        self.runtime.block_on(async {
            for number in numbers {
                self.client.query(&self.first, &[&number]).await?;
                self.client.query(&self.second, &[&number]).await?;
            }
            Ok(())
        })
    }

    pub fn first(&self, number: i64) -> Result<()> {
        self.one(&self.first, number)
    }

    pub fn second(&self, number: i64) -> Result<()> {
        self.one(&self.second, number)
    }

    fn one(&self, statement: &Statement, number: i64) -> Result<()> {
        self.runtime.block_on(async {
            self.client.query(statement, &[&number]).await?;
            Ok(())
        })
    }

    /// Returns the number that a statement counts.
    pub fn count(&self, statement: &str) -> Result<i64> {
        let asked = self.client.query_one(statement, &[]);
        Ok(self.runtime.block_on(asked)?.get(0))
    }
}

/// A connection that listens, and a statement that reads what it was notified of.
pub struct Listening {
    client: Client,
    read: Statement,
    notifications: mpsc::UnboundedReceiver<()>,
    runtime: Runtime,
}

impl Listening {
    pub fn open(url: &str, channel: &str, read: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (told, notifications) = mpsc::unbounded_channel();
        let (client, read) = runtime.block_on(async {
            let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|task| connection.poll_message(task)).await {
                    if matches!(message, AsyncMessage::Notification(_)) && told.send(()).is_err() {
                        break;
                    }
                }
            });
            client.batch_execute(&format!("LISTEN {channel}")).await?;
            let read = client.prepare(read).await?;
            anyhow::Ok((client, read))
        })?;
        Ok(Self {
            client,
            read,
            notifications,
            runtime,
        })
    }

    /// Waits for the next notification, and reads the row.
    pub fn notified_and_read(&mut self, number: i64) -> Result<()> {
        self.runtime.block_on(async {
            let notified = self.notifications.recv().await;
            notified.context("the connection is over")?;
            self.client.query(&self.read, &[&number]).await?;
            Ok(())
        })
    }
}
