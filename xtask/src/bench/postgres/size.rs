//! A million leases held, against none.

use std::time::Instant;

use anyhow::Result;
use tenure::Resource;

use super::server::Server;
use crate::bench::program::{Program, free_names};
use crate::bench::{Measured, compare, micros};

const TIMES: u32 = 100;
const ROUNDS: u32 = 30;

/// The SQL that writes the leases into the tables that the store has made: each far from its end,
/// with its token and its entry in the audit.
pub const FILL: &str = "
    INSERT INTO tenure.dal_locks (lock_id, owner, lease_expires, heartbeat_ts, resource, mode, session,
        process, token, acquired_at, state, ttl_ms, pid, host, command, purpose)
    SELECT substr(md5(n::text), 1, 16), 'ana@desk', now() + interval '1 day', now(),
        'item:' || lpad((n % 1000)::text, 3, '0') || '-' || n, 'write', '0123456789abcdef',
        '0123456789abcdef', n, now(), 'held', 86400000, 1, 'desk', 'tenure lock item', 'one of many'
    FROM generate_series(1, 1000000) AS n;
    INSERT INTO tenure.resources SELECT resource, token, lock_id FROM tenure.dal_locks;
    INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor)
    SELECT acquired_at, 'acquire', resource, lock_id, token, owner, owner FROM tenure.dal_locks;
    VACUUM ANALYZE tenure.dal_locks;
    VACUUM ANALYZE tenure.resources;
    VACUUM ANALYZE tenure.audit;
    CHECKPOINT;";

pub fn measure(server: &Server) -> Result<Measured> {
    let (full, empty) = (server.database(), server.database());
    let (full_program, empty_program) = (Program::open(&full.url())?, Program::open(&empty.url())?);
    let started = Instant::now();
    for statement in FILL.split_inclusive(';') {
        full.psql(statement);
    }
    println!(
        "  1,000,000 leases written in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let names = free_names(TIMES)?;
    compare(
        "lease acquire + release with 1,000,000 leases against none",
        Some(1.5),
        ROUNDS,
        || each(&full_program, &names),
        || each(&empty_program, &names),
    )
}

fn each(program: &Program, names: &[Resource]) -> Result<f64> {
    let started = Instant::now();
    program.acquire_and_release_each(names)?;
    Ok(micros(started.elapsed()) / f64::from(TIMES))
}
