//! Hand-over between two processes: from the release in one to the grant in the other.
//!
//! A holder works for a millisecond, as holders do; the scheduler puts the two where it likes.
//! Then the same with each on a core of its own and the waiter's core still awake: the
//! shortest hand-over there is, in which every system call after the grant shows. That
//! figure is only told.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tenure_files::FileLocker;

use super::lock_unlock::open;
use super::{Measured, compare, median};

const ROUNDS: u32 = 400;

pub fn measure() -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir()?;
    let (ours, bare) = (directory.path().join("ours"), directory.path().join("bare"));
    let what = "hand-over between processes, with a timeout in force";
    let usual = hand_overs(what, Some(1.5), [&ours, &bare], Cores::Any)?;
    let what = "the same, cores pinned and awake";
    let shortest = hand_overs(what, None, [&ours, &bare], Cores::Own)?;
    Ok(vec![usual, shortest, killed_holder(&ours)?])
}

#[derive(Clone, Copy, PartialEq)]
enum Cores {
    Any,
    Own,
}

fn hand_overs(
    what: &str,
    limit: Option<f64>,
    [ours, bare]: [&Path; 2],
    cores: Cores,
) -> Result<Measured> {
    let locker = FileLocker::new(Duration::from_secs(60));
    let mut our_peer = Peer::start(ours, "ours")?;
    let mut bare_peer = Peer::start(bare, "bare")?;
    let mut work = Duration::from_millis(1);
    if cores == Cores::Own {
        stay_on_core(None, 0)?;
        stay_on_core(Some(&our_peer.child), 1)?;
        stay_on_core(Some(&bare_peer.child), 1)?;
        work = Duration::ZERO;
    }
    compare(
        what,
        limit,
        ROUNDS,
        || {
            let guard = locker.lock_exclusive(ours)?;
            our_peer.round(work, || Ok(guard.release()?))
        },
        || {
            let file = open(bare)?;
            file.lock()?;
            bare_peer.round(work, || Ok(file.unlock()?))
        },
    )
}

/// Keeps a child, or this process, on one core, where there are several.
fn stay_on_core(child: Option<&Child>, core: usize) -> Result<()> {
    let pid = child.map(rustix::process::Pid::from_child);
    let mut cores = rustix::thread::CpuSet::new();
    if rustix::thread::sched_getaffinity(None)?.is_set(core) || child.is_some() {
        cores.set(core);
        // A machine with one core has no second: then both stay where they are.
        let _ = rustix::thread::sched_setaffinity(pid, &cores);
    }
    Ok(())
}

/// How soon the next waiter has the lock of a holder that was killed; only told.
fn killed_holder(path: &Path) -> Result<Measured> {
    let mut waiter = Peer::start(path, "ours")?;
    let mut times = Vec::new();
    for _ in 0..30 {
        let mut holder = Peer::start(path, "hold")?;
        holder.expect("held")?;
        times.push(waiter.round(Duration::ZERO, || Ok(holder.child.kill()?))?);
    }
    let micros = median(times);
    Ok(Measured {
        what: "SIGKILL of the holder to the grant of the next, in ms".into(),
        sides: format!("{micros:.1} µs"),
        ratio: micros / 1000.0,
        limit: None,
    })
}

/// The other process: told to go, it waits for the lock and says when it got it.
struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(path: &Path, side: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", "hand-over"]).arg(path).arg(side);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let orders = child.stdin.take().context("it was piped")?;
        let answers = BufReader::new(child.stdout.take().context("it was piped")?).lines();
        Ok(Self {
            child,
            orders,
            answers,
        })
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        let answer = self.answers.next().context("the peer went away")??;
        if answer != word {
            bail!("expected {word}, got {answer}");
        }
        Ok(())
    }

    /// Makes the peer wait, releases, and tells the time in between, in microseconds.
    fn round(&mut self, work: Duration, release: impl FnOnce() -> Result<()>) -> Result<f64> {
        writeln!(self.orders, "go")?;
        self.expect("waiting")?;
        self.wait_until_asleep()?;
        let working = Instant::now();
        while working.elapsed() < work {
            std::hint::spin_loop();
        }
        let released = now();
        release()?;
        let granted: u64 = self
            .answers
            .next()
            .context("the peer went away")??
            .parse()?;
        Ok(granted.saturating_sub(released) as f64 / 1000.0)
    }

    /// The peer said that it is about to wait; it does once it sleeps.
    fn wait_until_asleep(&self) -> Result<()> {
        let path = format!("/proc/{}/stat", self.child.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut asleep = 0;
        // Twice in a row: it may sleep for a moment in the pipe before.
        while asleep < 3 {
            let stat = std::fs::read_to_string(&path)?;
            let state = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.trim().chars().next());
            asleep = if state == Some('S') { asleep + 1 } else { 0 };
            if Instant::now() > deadline {
                bail!("the peer does not go to sleep");
            }
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The clock both processes share, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub fn child(path: &Path, rest: &[&str]) -> Result<()> {
    let locker = FileLocker::new(Duration::from_secs(60));
    if rest == ["hold"] {
        let _guard = locker.lock_exclusive(path)?;
        println!("held");
        // Killed from outside; the end of the input is the end of the parent.
        std::io::stdin().lines().for_each(drop);
        return Ok(());
    }
    for _ in std::io::stdin().lines() {
        println!("waiting");
        let granted = if rest == ["ours"] {
            let guard = locker.lock_exclusive(path)?;
            let granted = now();
            guard.release()?;
            granted
        } else {
            let file = open(path)?;
            file.lock()?;
            now()
        };
        println!("{granted}");
    }
    Ok(())
}
