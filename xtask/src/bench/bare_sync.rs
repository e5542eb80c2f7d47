//! The cost of a sync, beside figures that depend on it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::{Measured, median, micros};

const TIMES: u32 = 40;

/// Adds to a figure how many times as much we do as the other side, the aim if there is one, and
/// the cost of a write and its sync in this directory.
pub fn beside_bare_sync(
    mut measured: Measured,
    what: &str,
    aim: Option<u32>,
    directory: &Path,
) -> Result<Measured> {
    let times = 1.0 / measured.ratio;
    let aim = aim.map(|aim| format!(", the aim is {aim} ×"));
    let sync = bare_sync(directory)?;
    measured.sides = format!(
        "{}: {times:.1} × the {what}{}, where a bare sync takes {sync:.0} µs",
        measured.sides,
        aim.unwrap_or_default()
    );
    Ok(measured)
}

fn bare_sync(directory: &Path) -> Result<f64> {
    let file = File::create(directory.join("bare-sync"))?;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let started = Instant::now();
        file.write_all_at(&[0; 4096], 0)?;
        file.sync_all()?;
        times.push(micros(started.elapsed()));
    }
    Ok(median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_told_with_its_aim_and_the_cost_of_a_sync() {
        let directory = tempfile::tempdir().unwrap();
        let told = |aim| {
            let measured = Measured {
                what: "x".into(),
                sides: "1 against 2".into(),
                ratio: 0.5,
                limit: None,
            };
            let told = beside_bare_sync(measured, "events", aim, directory.path());
            told.unwrap().sides
        };
        let start = "1 against 2: 2.0 × the events, the aim is 4 ×, where a bare sync takes ";
        assert!(told(Some(4)).starts_with(start), "{}", told(Some(4)));
        assert!(told(None).contains("events, where a bare sync takes "));
    }
}
