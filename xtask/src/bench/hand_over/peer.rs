//! The two processes of a hand-over.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The other process: at each order it waits for the lock and says when it got it.
pub struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Starts this program again, to take one side.
    pub fn start(path: &Path, side: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", "hand-over"]).arg(path).args(side);
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

    /// Takes the next answer, which must be `word`.
    pub fn expect(&mut self, word: &str) -> Result<()> {
        let answer = self.answers.next().context("the peer went away")??;
        if answer != word {
            bail!("expected {word}, got {answer}");
        }
        Ok(())
    }

    /// Makes the peer wait, releases, and returns the time in between, in microseconds.
    pub fn round(&mut self, work: Duration, release: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.round_once(work, || Ok(true), release)
    }

    /// Does a round that releases once the peer sleeps and `waits` agrees.
    pub fn round_once(
        &mut self,
        work: Duration,
        mut waits: impl FnMut() -> Result<bool>,
        release: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        writeln!(self.orders, "go")?;
        self.expect("waiting")?;
        self.wait_until_asleep()?;
        while !waits()? {}
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

    /// Ends the peer with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Keeps the peer on one core, where there are several. On a machine with one it stays where it
    /// is.
    pub fn stay_on_core(&self, core: usize) {
        let mut cores = CpuSet::new();
        cores.set(core);
        let _ = sched_setaffinity(Some(Pid::from_child(&self.child)), &cores);
    }

    /// Waits until the peer, which said that it is about to wait, sleeps.
    fn wait_until_asleep(&self) -> Result<()> {
        let path = format!("/proc/{}/stat", self.child.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut asleep = 0;
        // The peer must sleep at three looks in a row: it may sleep for a moment in the pipe
        // before.
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

/// Keeps this process on one core until dropped; later measures are free again.
pub struct OnCore {
    before: CpuSet,
}

impl OnCore {
    /// Stays on a core, if this process is allowed to run there.
    pub fn stay(core: usize) -> Result<Self> {
        let before = sched_getaffinity(None)?;
        if before.is_set(core) {
            let mut cores = CpuSet::new();
            cores.set(core);
            sched_setaffinity(None, &cores)?;
        }
        Ok(Self { before })
    }
}

impl Drop for OnCore {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Returns the time on the clock that both processes share, in nanoseconds.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs the child that holds: it says so, and waits to be killed.
pub fn hold_until_killed() {
    println!("held");
    // The end of the input is the end of the parent.
    std::io::stdin().lines().for_each(drop);
}

/// Runs the child that waits: at every order it says that it is about to wait, and then when it was
/// granted.
pub fn wait_for_each_order(mut wait: impl FnMut() -> Result<u64>) -> Result<()> {
    for _ in std::io::stdin().lines() {
        println!("waiting");
        println!("{}", wait()?);
    }
    Ok(())
}
