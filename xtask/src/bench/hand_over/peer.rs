//! The two processes of a hand-over.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The other process: told to go, it waits for the lock and says when it got it.
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

    /// Takes the next answer, which must be this.
    pub fn expect(&mut self, word: &str) -> Result<()> {
        let answer = self.answers.next().context("the peer went away")??;
        if answer != word {
            bail!("expected {word}, got {answer}");
        }
        Ok(())
    }

    /// Makes the peer wait, releases, and tells the time in between, in microseconds.
    pub fn round(&mut self, work: Duration, release: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.round_once(work, || Ok(true), release)
    }

    /// The same, with a release only when the peer is seen to wait.
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

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Keeps it on one core, where there are several. On a machine with one it stays where it is.
    pub fn stay_on_core(&self, core: usize) {
        let mut cores = CpuSet::new();
        cores.set(core);
        let _ = sched_setaffinity(Some(Pid::from_child(&self.child)), &cores);
    }

    /// The peer said that it is about to wait; it does once it sleeps.
    fn wait_until_asleep(&self) -> Result<()> {
        let path = format!("/proc/{}/stat", self.child.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut asleep = 0;
        // Three times in a row: it may sleep for a moment in the pipe before.
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

/// Keeps this process on one core until dropped; what is measured after it is not.
pub struct OnCore {
    before: CpuSet,
}

impl OnCore {
    /// Stays on a core, if it is one of those allowed.
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

/// The clock both processes share, in nanoseconds.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The child that holds: says so, and waits to be killed.
pub fn hold_until_killed() {
    println!("held");
    // The end of the input is the end of the parent.
    std::io::stdin().lines().for_each(drop);
}

/// The child that waits: with every order it says that it is about to, and then when it was
/// granted.
pub fn wait_for_each_order(mut wait: impl FnMut() -> Result<u64>) -> Result<()> {
    for _ in std::io::stdin().lines() {
        println!("waiting");
        println!("{}", wait()?);
    }
    Ok(())
}
