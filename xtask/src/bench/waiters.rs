//! Many waiters inside one process: a hand-over must not cost more because others wait, too.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tenure_files::FileLocker;

use super::{Measured, compare, micros};

const HAND_OVERS: u32 = 1600;

pub fn measure() -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for waiters in [4, 8, 16, 32] {
        all.push(compare(
            &format!("{waiters} in-process waiters against 2, cost of a hand-over"),
            Some(2.0),
            15,
            || hand_overs(waiters),
            || hand_overs(2),
        )?);
    }
    Ok(all)
}

/// Threads that take and release the same lock in turns; microseconds for each time.
fn hand_overs(threads: u32) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.lock");
    let locker = FileLocker::new(Duration::from_secs(60));
    let start = Barrier::new(threads as usize + 1);
    let mut took = Duration::ZERO;
    thread::scope(|scope| -> Result<()> {
        let work = || -> Result<()> {
            start.wait();
            for _ in 0..HAND_OVERS / threads {
                locker.lock_exclusive(&path)?.release()?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        start.wait();
        let started = Instant::now();
        for worker in workers {
            worker.join().expect("a worker does not panic")?;
        }
        took = started.elapsed();
        Ok(())
    })?;
    Ok(micros(took) / f64::from(HAND_OVERS))
}
