//! Sixteen clients at once, in as many threads as pgbench is given.

use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// The number of clients.
pub const CLIENTS: usize = 16;
/// The number of threads, each with a runtime of its own.
pub const THREADS: usize = 2;
/// The time for which they work.
pub const SECONDS: u32 = 2;

pub struct Crowd<C> {
    threads: Vec<(Runtime, Vec<Arc<C>>)>,
}

impl<C: Send + Sync + 'static> Crowd<C> {
    /// Opens the connections of all clients, for each thread with the numbers of its clients.
    pub fn open(open: impl AsyncFn(std::ops::Range<usize>) -> Result<Vec<C>>) -> Result<Self> {
        const EACH: usize = CLIENTS / THREADS;
        let thread = |thread: usize| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let clients = runtime.block_on(open(thread * EACH..(thread + 1) * EACH))?;
            anyhow::Ok((runtime, clients.into_iter().map(Arc::new).collect()))
        };
        let threads = (0..THREADS).map(thread).collect::<Result<_>>()?;
        Ok(Self { threads })
    }

    /// Returns the microseconds for each piece of work, all clients together. `work` is given how
    /// often the client did it before.
    pub fn run<W>(&self, work: impl Fn(Arc<C>, u32) -> W + Clone + Send + 'static) -> Result<f64>
    where
        W: Future<Output = Result<()>> + Send,
    {
        let until = Instant::now() + Duration::from_secs(u64::from(SECONDS));
        let done: u32 = thread::scope(|scope| {
            let threads = self.threads.iter().map(|(runtime, clients)| {
                let work = work.clone();
                scope.spawn(move || runtime.block_on(work_until(until, clients, work)))
            });
            let threads: Vec<_> = threads.collect();
            let done = threads.into_iter().map(|thread| {
                let done = thread.join();
                done.map_err(|_| anyhow!("a thread of clients panicked"))?
            });
            done.sum::<Result<u32>>()
        })?;
        Ok(f64::from(SECONDS) * 1e6 / f64::from(done))
    }
}

/// Returns how often all clients of a thread did their work.
async fn work_until<C, W>(
    until: Instant,
    clients: &[Arc<C>],
    work: impl Fn(Arc<C>, u32) -> W + Clone + Send + 'static,
) -> Result<u32>
where
    C: Send + Sync + 'static,
    W: Future<Output = Result<()>> + Send,
{
    let mut working = JoinSet::new();
    for client in clients {
        let (client, work) = (Arc::clone(client), work.clone());
        working.spawn(async move {
            let mut done = 0;
            while Instant::now() < until {
                work(Arc::clone(&client), done).await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(client) = working.join_next().await {
        done += client??;
    }
    Ok(done)
}
