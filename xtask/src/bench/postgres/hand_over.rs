//! A hand-over of a lease between processes, against that of a blocking `pg_advisory_lock`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tenure::Resource;

use super::bare::{Bare, LOCK, UNLOCK};
use super::server::Server;
use crate::bench::hand_over::peer::{self, Peer};
use crate::bench::program::Program;
use crate::bench::{Measured, compare};

const ROUNDS: u32 = 200;
const WORK: Duration = Duration::from_millis(1);
const KEY: i64 = 1;

pub fn measure(server: &Server) -> Result<Vec<Measured>> {
    let name = "hand-over of a lease between processes against pg_advisory_lock";
    let on_disk = hand_over(server, name, Some(3.0))?;
    // A grant is on disk before it is told, and the bare one never is: the rest is what we add.
    let name = "the same, on a server that does not wait for its disk";
    let in_memory = hand_over(&Server::without_sync(), name, None)?;
    Ok(vec![on_disk, in_memory])
}

fn hand_over(server: &Server, name: &str, limit: Option<f64>) -> Result<Measured> {
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
        limit,
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

/// The other process.
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
        _ => bail!("no role is called {role:?}"),
    }
}

fn resource() -> Result<Resource> {
    "name:x".parse().map_err(|error| anyhow!("{error}"))
}
