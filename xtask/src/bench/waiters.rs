//! Many waiters inside one process: other waiters must not make a hand-over cost more.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tenure_lockfile::FileLocker;

use super::{Measured, compare, micros};

pub fn measure() -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for waiters in [4, 8, 16, 32] {
        all.push(compare(
            &format!("{waiters} in-process waiters against 2, cost of a hand-over"),
            Some(2.0),
            60,
            || hand_overs(waiters),
            || hand_overs(2),
        )?);
    }
    Ok(all)
}

/// Returns the microseconds for each hand-over. The lock is held until all threads wait for it;
/// then it goes from one to the next.
fn hand_overs(threads: u32) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.lock");
    let locker = FileLocker::new(Duration::from_secs(60));
    let start = Barrier::new(threads as usize + 1);
    let held = locker.lock_exclusive(&path)?;
    thread::scope(|scope| -> Result<f64> {
        let wait = || -> Result<Instant> {
            start.wait();
            let guard = locker.lock_exclusive(&path)?;
            guard.release()?;
            Ok(Instant::now())
        };
        let waiters: Vec<_> = (0..threads).map(|_| scope.spawn(wait)).collect();
        start.wait();
        wait_until_asleep(threads)?;
        let released = Instant::now();
        held.release()?;
        let mut last = released;
        for waiter in waiters {
            last = last.max(waiter.join().expect("a waiter does not panic")?);
        }
        Ok(micros(last - released) / f64::from(threads))
    })
}

/// Waits until all threads but this one sleep, in the kernel or in line.
fn wait_until_asleep(threads: u32) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let own = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    while Instant::now() < deadline {
        let mut asleep = 0;
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?;
            // A thread of the round before may end while it is looked at.
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let (_, state) = stat.rsplit_once(") ").unwrap_or_default();
            let sleeps = state.starts_with('S') && task.file_name().to_str() != Some(&own);
            asleep += u32::from(sleeps);
        }
        if asleep >= threads {
            return Ok(());
        }
    }
    bail!("the waiters do not go to sleep")
}
