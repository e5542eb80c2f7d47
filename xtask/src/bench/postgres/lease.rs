//! Leases against a bare durable insert + delete.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tenure::{Keeper, Mode, Options, Owner, Session, SessionOptions, Settings};
use tokio::runtime::{Builder, Runtime};

use super::CLIENTS;
use super::bare::{Bare, DELETE, INSERT, TABLE};
use super::server::{Server, pgbench};
use crate::bench::program::{Program, free_names};
use crate::bench::{Measured, compare, micros};

const TIMES: u32 = 100;
const ROUNDS: u32 = 30;
const SECONDS: u32 = 2;
const TURNS: u32 = 7;

const PAIR: &str = "\\set k random(1, 1000000000)\n\
    INSERT INTO public.bare VALUES ('item:' || :client_id || '-' || :k, 'bench@desk');\n\
    DELETE FROM public.bare WHERE id = 'item:' || :client_id || '-' || :k;\n";

pub fn measure(server: &Server) -> Result<Vec<Measured>> {
    let database = server.database();
    database.psql(TABLE);
    let program = Program::open(&database.url())?;
    let bare = Bare::open(&database.url(), INSERT, DELETE)?;
    let names = free_names(TIMES)?;
    let alone = compare(
        "lease acquire + release against a bare insert + delete",
        Some(2.0),
        ROUNDS,
        || {
            let started = Instant::now();
            program.acquire_and_release_each(&names)?;
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
        || {
            let started = Instant::now();
            bare.each(0..i64::from(TIMES))?;
            Ok(micros(started.elapsed()) / f64::from(TIMES))
        },
    )?;
    let crowd = Crowd::open(&database.url())?;
    let crowd = compare(
        "16 clients: the bare pair in pgbench against ours (0.4)",
        Some(2.5),
        TURNS,
        || crowd.run(),
        || Ok(1e6 / pgbench(&database, PAIR, SECONDS)?),
    )?;
    Ok(vec![alone, crowd])
}

/// Sixteen programs, each with a store of its own.
struct Crowd {
    sessions: Vec<Session>,
    runtime: Runtime,
}

impl Crowd {
    fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let sessions = runtime.block_on(async {
            let mut sessions = Vec::new();
            for _ in 0..CLIENTS {
                let keeper = Keeper::open_with(url, Settings::default()).await?;
                let owner = Owner::parse("bench@desk").map_err(|error| anyhow!("{error}"))?;
                sessions.push(keeper.session(SessionOptions::new(owner)).await?);
            }
            anyhow::Ok(sessions)
        })?;
        Ok(Self { sessions, runtime })
    }

    /// Microseconds for each pair, all clients together.
    fn run(&self) -> Result<f64> {
        self.runtime.block_on(async {
            let until = Instant::now() + Duration::from_secs(u64::from(SECONDS));
            let mut clients = tokio::task::JoinSet::new();
            for (client, session) in self.sessions.iter().cloned().enumerate() {
                clients.spawn(async move {
                    let mut done = 0u32;
                    let options = Options::default();
                    while Instant::now() < until {
                        let name = format!("item:{client}-{done}");
                        let resource = name.parse().map_err(|error| anyhow!("{error}"))?;
                        let guard = session.acquire(&resource, Mode::Write, &options).await?;
                        guard.release().await?;
                        done += 1;
                    }
                    anyhow::Ok(done)
                });
            }
            let mut done = 0;
            while let Some(client) = clients.join_next().await {
                done += client??;
            }
            Ok(f64::from(SECONDS) * 1e6 / f64::from(done))
        })
    }
}
