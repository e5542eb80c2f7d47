//! A hand-over of a lease between processes, against a bare one that is on disk as well: an update
//! and a notification in one commit, after which the other process wakes and reads the row. A
//! hand-over of a blocking `pg_advisory_lock`, which is never on disk, is told besides.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tenure::Resource;

use super::bare::{Bare, LOCK, Listening, UNLOCK};
use super::server::Server;
use crate::bench::hand_over::peer::{self, Peer};
use crate::bench::program::Program;
use crate::bench::{Measured, compare};

const ROUNDS: u32 = 200;
const WORK: Duration = Duration::from_millis(1);
const KEY: i64 = 1;

pub fn measure(server: &Server) -> Result<Vec<Measured>> {
    let name = "the same against pg_advisory_lock, which is never on disk";
    let advisory = against_advisory(server, name)?;
    let name = "the same, on a server that does not wait for its disk";
    let in_memory = against_advisory(&Server::without_sync(), name)?;
    Ok(vec![against_durable(server)?, advisory, in_memory])
}

/// The row that the bare hand-over changes.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS public.handed_over (id bigint PRIMARY KEY, holder bigint NOT NULL); \
    INSERT INTO public.handed_over VALUES (1, 0) ON CONFLICT DO NOTHING";
const HAND_OVER: &str = "WITH given AS (UPDATE public.handed_over SET holder = holder + 1 WHERE id = $1::bigint \
    RETURNING 1) SELECT pg_notify('handed_over', '') FROM given";
const READ: &str = "SELECT holder FROM public.handed_over WHERE id = $1::bigint";

fn against_durable(server: &Server) -> Result<Measured> {
    let database = server.database();
    database.psql(TABLE);
    let url = database.url();
    let program = Program::open(&url)?;
    let resource = resource()?;
    let bare = Bare::open(&url, HAND_OVER, READ)?;
    let look = Bare::open(&url, "SELECT $1::bigint", "SELECT $1::bigint")?;
    let mut our_peer = Peer::start(Path::new(&url), &["postgres", "ours"])?;
    let mut bare_peer = Peer::start(Path::new(&url), &["postgres", "listener"])?;
    compare(
        "hand-over of a lease between processes against a bare durable one",
        Some(2.0),
        ROUNDS,
        || {
            let guard = program.acquire(&resource)?;
            our_peer.round_once(
                WORK,
                || Ok(look.count("SELECT count(*) FROM tenure.waiters")? == 1),
                || program.release(guard),
            )
        },
        || bare_peer.round_once(WORK, || Ok(true), || bare.first(KEY)),
    )
}

fn against_advisory(server: &Server, name: &str) -> Result<Measured> {
    let database = server.database();
    let url = database.url();
    let program = Program::open(&url)?;
    let resource = resource()?;
    let bare = Bare::open(&url, LOCK, UNLOCK)?;
    let look = Bare::open(&url, "SELECT $1::bigint", "SELECT $1::bigint")?;
    let mut our_peer = Peer::start(Path::new(&url), &["postgres", "ours"])?;
    let mut bare_peer = Peer::start(Path::new(&url), &["postgres", "bare"])?;
    compare(
        name,
        None,
        ROUNDS,
        || {
            let guard = program.acquire(&resource)?;
            our_peer.round_once(
                WORK,
                || Ok(look.count("SELECT count(*) FROM tenure.waiters")? == 1),
                || program.release(guard),
            )
        },
        || {
            bare.first(KEY)?;
            bare_peer.round_once(
                WORK,
                || {
                    let waits =
                        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
                    Ok(look.count(waits)? == 1)
                },
                || bare.second(KEY),
            )
        },
    )
}

/// Runs the other process.
pub fn child(url: &Path, role: &[&str]) -> Result<()> {
    let url = url.to_str().context("the address is text")?;
    match role {
        ["ours"] => {
            let program = Program::open(url)?;
            let resource = resource()?;
            peer::wait_for_each_order(|| {
                let guard = program.acquire(&resource)?;
                let granted = peer::now();
                program.release(guard)?;
                Ok(granted)
            })
        }
        ["bare"] => {
            let bare = Bare::open(url, LOCK, UNLOCK)?;
            peer::wait_for_each_order(|| {
                bare.first(KEY)?;
                let granted = peer::now();
                bare.second(KEY)?;
                Ok(granted)
            })
        }
        ["listener"] => {
            let mut listening = Listening::open(url, "handed_over", READ)?;
            peer::wait_for_each_order(|| {
                listening.notified_and_read(KEY)?;
                Ok(peer::now())
            })
        }
        _ => bail!("no role is called {role:?}"),
    }
}

fn resource() -> Result<Resource> {
    "name:x".parse().map_err(|error| anyhow!("{error}"))
}
