//! Advisory locks against the two bare calls.

use std::time::Instant;

use anyhow::Result;
use tenure_postgres::advisory::{AdvisoryLocks, DEFAULT_WAIT, Namespace, Settings};
use tokio::runtime::Builder;

use super::bare::{Bare, LOCK, UNLOCK};
use super::crowd::Crowd;
use super::server::{Server, pgbench};
use crate::bench::{Measured, compare, micros};

const TIMES: i32 = 500;
const ROUNDS: u32 = 40;
const TURNS: u32 = 7;

const PAIR: &str = "\\set k random(1, 1000000)\n\
    SELECT pg_advisory_lock(7, :k);\nSELECT pg_advisory_unlock(7, :k);\n";

pub fn measure(server: &Server) -> Result<Vec<Measured>> {
    let database = server.database();
    let url = database.url();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(AdvisoryLocks::open(&url, Settings::default()))?;
    let namespace = Namespace::new(8);
    let bare = Bare::open(&url, LOCK, UNLOCK)?;
    let session = locks.session();
    let alone = compare(
        "advisory lock + unlock against the two bare calls",
        Some(1.15),
        ROUNDS,
        || {
            let started = Instant::now();
            runtime.block_on(async {
                for id in 0..TIMES {
                    let guard = session.lock(namespace, id, DEFAULT_WAIT).await?;
                    guard.release().await?;
                }
                anyhow::Ok(())
            })?;
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
        || {
            let started = Instant::now();
            bare.each(0..i64::from(TIMES))?;
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
    )?;
    // Each thread is a program with a pool of its own.
    let crowd = Crowd::open(async |clients| {
        let locks = AdvisoryLocks::open(&url, Settings::default()).await?;
        let open = |client| anyhow::Ok((i32::try_from(client)? * 100_000, locks.session()));
        clients.map(open).collect()
    })?;
    let crowd = compare(
        "16 clients: the bare pair in pgbench against ours (0.8)",
        Some(1.25),
        TURNS,
        || {
            crowd.run(move |client, done| async move {
                let (first, session) = &*client;
                let id = first + i32::try_from(done)?;
                let guard = session.lock(namespace, id, DEFAULT_WAIT).await?;
                Ok(guard.release().await?)
            })
        },
        || Ok(1e6 / pgbench(&database, PAIR)?),
    )?;
    Ok(vec![alone, crowd])
}
