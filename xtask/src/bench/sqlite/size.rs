//! A million leases held, against none.

use std::time::Instant;

use anyhow::{Result, ensure};
use tenure::{Query, Resource};

use super::fill::fill;
use crate::bench::program::{Program, free_names, sqlite};
use crate::bench::{Measured, compare, median, micros};

/// The number of leases on a page.
const PAGE: usize = 500;
const LEASES: u32 = 1_000_000;
const TIMES: u32 = 250;
const ROUNDS: u32 = 40;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let full = directory.path().join("full/tenure.db");
    let empty = directory.path().join("empty/tenure.db");
    let started = Instant::now();
    fill(&full, LEASES)?;
    println!(
        "  {LEASES} leases written in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    let (full, empty) = (
        Program::open(&sqlite(&full))?,
        Program::open(&sqlite(&empty))?,
    );
    let names = free_names(TIMES)?;
    let held = compare(
        "acquire + release with 1,000,000 leases held against none",
        Some(1.5),
        ROUNDS,
        || each(&full, &names),
        || each(&empty, &names),
    )?;
    let first = Query::default().with_limit(PAGE);
    let middle = after(&full, LEASES as usize / 2)?;
    let within = middle.clone().with_prefix("item:5");
    Ok(vec![
        held,
        page("a page of ls, the first", &full, &empty, &first)?,
        page("a page of ls, in the middle", &full, &empty, &middle)?,
        page(
            "a page of ls, in the middle of a prefix",
            &full,
            &empty,
            &within,
        )?,
    ])
}

/// Returns the query for the page after so many leases.
pub fn after(program: &Program, leases: usize) -> Result<Query> {
    let mut query = Query::default();
    let mut passed = 0;
    while passed < leases {
        query.limit = Some((leases - passed).min(50_000));
        let page = program.list(&query)?;
        passed += page.held.len();
        ensure!(page.next.is_some(), "there are only {passed} leases");
        query.after = page.next;
    }
    query.limit = Some(PAGE);
    Ok(query)
}

fn each(program: &Program, names: &[Resource]) -> Result<f64> {
    let started = Instant::now();
    program.acquire_and_release_each(names)?;
    Ok(micros(started.elapsed()) / f64::from(TIMES))
}

/// Measures how many milliseconds more a page takes.
fn page(what: &str, full: &Program, empty: &Program, query: &Query) -> Result<Measured> {
    let time = |program: &Program| -> Result<f64> {
        let started = Instant::now();
        program.list(query)?;
        Ok(micros(started.elapsed()) / 1000.0)
    };
    let rows = full.list(query)?.held.len();
    ensure!(rows == PAGE, "a page has only {rows} leases");
    let (mut ours, mut more) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (full, empty) = (time(full)?, time(empty)?);
        ours.push(full);
        more.push(full - empty);
    }
    Ok(Measured {
        what: format!("{what}, ms more than an empty store"),
        sides: format!("{rows} leases in {:.2} ms", median(ours)),
        ratio: median(more),
        limit: Some(10.0),
    })
}
