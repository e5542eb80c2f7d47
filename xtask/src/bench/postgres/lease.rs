//! Leases against a bare durable insert + delete.

use std::time::Instant;

use anyhow::{Result, anyhow};
use tenure::{Keeper, Mode, Options, Owner, Session, SessionOptions, Settings};

use super::bare::{Bare, DELETE, INSERT, TABLE};
use super::crowd::Crowd;
use super::server::{Server, pgbench};
use crate::bench::program::{Program, free_names};
use crate::bench::{Measured, compare, micros};

const TIMES: u32 = 100;
const ROUNDS: u32 = 30;
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
    let crowd = crowd(&database.url())?;
    let crowd = compare(
        "16 clients: the bare pair in pgbench against ours (0.4)",
        Some(2.5),
        TURNS,
        || {
            crowd.run(|client, done| async move {
                let name = format!("item:{}-{done}", client.0);
                let resource = name.parse().map_err(|error| anyhow!("{error}"))?;
                let options = Options::default();
                let guard = client.1.acquire(&resource, Mode::Write, &options).await?;
                Ok(guard.release().await?)
            })
        },
        || Ok(1e6 / pgbench(&database, PAIR)?),
    )?;
    Ok(vec![alone, crowd])
}

/// Opens sixteen programs, each with a store of its own.
fn crowd(url: &str) -> Result<Crowd<(usize, Session)>> {
    Crowd::open(async |clients| {
        let mut opened = Vec::new();
        for client in clients {
            let keeper = Keeper::open_with(url, Settings::default()).await?;
            let owner = Owner::parse("bench@desk").map_err(|error| anyhow!("{error}"))?;
            let session = keeper.session(SessionOptions::new(owner));
            opened.push((client, session));
        }
        Ok(opened)
    })
}
