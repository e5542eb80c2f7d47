//! A crowd of commands that wait for one lock: its own cost while none of them moves, the cost for
//! other commands, and the cost of a hand-over in it. Two thousand wait on the embedded store,
//! three hundred on PostgreSQL.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tenure_testkit::postgres::{Cluster, Settings};

use super::{Measured, command, median, micros, program};

const FEW: usize = 10;
/// The part of a core that a crowd may use while none of it moves.
const IDLE_CORES_MAX: f64 = 0.1;
/// The time for which the idle crowd is watched, and the time it is left alone before.
const WATCHED: Duration = Duration::from_secs(30);
const SETTLES: Duration = Duration::from_secs(12);
const QUEUED_WITHIN: Duration = Duration::from_secs(180);

pub fn measure() -> Result<Vec<Measured>> {
    let tenure = command::build()?;
    let directory = tempfile::tempdir()?;
    let sqlite = Side {
        tenure: tenure.clone(),
        name: "SQLite",
        store: program::sqlite(&directory.path().join("tenure.db")),
        crowd: 2000,
        server: None,
    };
    let mut all = sqlite.measure()?;
    let settings = Settings::default()
        .durable()
        .parameter("max_connections", 1000);
    let cluster = Cluster::with(&settings);
    let database = cluster.database();
    let postgres = Side {
        tenure,
        name: "PostgreSQL",
        store: database.url().to_owned(),
        crowd: 300,
        server: Some(cluster.pid()),
    };
    all.extend(postgres.measure()?);
    Ok(all)
}

/// A store, and the number of commands that wait in it.
struct Side {
    tenure: PathBuf,
    name: &'static str,
    store: String,
    crowd: usize,
    /// The first process of its server, where there is one.
    server: Option<u32>,
}

impl Side {
    fn measure(&self) -> Result<Vec<Measured>> {
        let (name, crowd) = (self.name, self.crowd);
        let run = || self.cost(&["run", "other", "--", "true"]);
        let list = || self.cost(&["ls"]);
        let (run_alone, list_alone) = (run()?, list()?);
        let few: Result<Vec<f64>> = (0..5)
            .map(|_| Crowd::gather(self, FEW)?.hand_over())
            .collect();
        let few = median(few?);
        let waiting = Crowd::gather(self, crowd)?;
        let idle = waiting.idle_cores()?;
        let (run_beside, list_beside) = (run()?, list()?);
        let many = waiting.hand_over()?;
        let against = |what: String, ours: f64, other: f64| Measured {
            what,
            sides: format!("{ours:.0} µs against {other:.0} µs"),
            ratio: ours / other,
            limit: Some(2.0),
        };
        Ok(vec![
            Measured {
                what: format!("{name}: {crowd} wait and nobody moves, in tenths of a core"),
                sides: format!("{idle:.3} cores in all"),
                ratio: idle / IDLE_CORES_MAX,
                limit: Some(1.0),
            },
            against(
                format!("{name}: an unrelated run beside {crowd} who wait, against alone"),
                run_beside,
                run_alone,
            ),
            against(
                format!("{name}: ls beside {crowd} who wait, against alone"),
                list_beside,
                list_alone,
            ),
            against(
                format!("{name}: a hand-over with {crowd} waiting against {FEW}"),
                many,
                few,
            ),
        ])
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tenure);
        command.args(arguments).env("TENURE_STORE", &self.store);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        command
    }

    /// Returns the median time of a command, in microseconds.
    fn cost(&self, arguments: &[&str]) -> Result<f64> {
        let once = |_| {
            let begun = Instant::now();
            let status = self.command(arguments).status()?;
            ensure!(status.success(), "tenure {arguments:?} failed: {status}");
            Ok(micros(begun.elapsed()))
        };
        Ok(median((0..25).map(once).collect::<Result<_>>()?))
    }

    /// Returns the number of entries that are `held` or `waiting`.
    fn count(&self, which: &str) -> Result<usize> {
        let mut list = self.command(&["ls", "--json", "--limit", "10000", "crowd"]);
        let output = list.stdout(Stdio::piped()).output()?;
        let listing: Value = serde_json::from_slice(&output.stdout).context("ls told no JSON")?;
        Ok(listing[which].as_array().map_or(0, Vec::len))
    }
}

/// Commands that wait for a lock, and the one that holds it. Dropping this ends all of them.
struct Crowd<'a> {
    side: &'a Side,
    holder: Child,
    release: Option<ChildStdin>,
    waiters: Vec<Child>,
}

impl<'a> Crowd<'a> {
    fn gather(side: &'a Side, size: usize) -> Result<Self> {
        // The lock is held until the command's standard input ends.
        let mut holder = side.command(&["run", "crowd", "--", "cat"]);
        let mut holder = holder
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let release = holder.stdin.take();
        let mut crowd = Crowd {
            side,
            holder,
            release,
            waiters: Vec::new(),
        };
        let until = Instant::now() + QUEUED_WITHIN;
        while side.count("held")? == 0 {
            ensure!(Instant::now() < until, "nobody holds the lock");
        }
        for _ in 0..size {
            let wait = ["run", "--wait", "600s", "crowd", "--", "true"];
            crowd.waiters.push(side.command(&wait).spawn()?);
        }
        while side.count("waiting")? < size {
            ensure!(
                Instant::now() < until,
                "{size} do not get into line in time"
            );
            thread::sleep(Duration::from_millis(200));
        }
        Ok(crowd)
    }

    /// Returns the part of a core that the crowd and its server use while none of it moves.
    fn idle_cores(&self) -> Result<f64> {
        thread::sleep(SETTLES);
        let before = self.processor_time()?;
        thread::sleep(WATCHED);
        let used = self.processor_time()?.saturating_sub(before);
        Ok(used.as_secs_f64() / WATCHED.as_secs_f64())
    }

    fn processor_time(&self) -> Result<Duration> {
        let mut processes: Vec<u32> = self.waiters.iter().map(Child::id).collect();
        if let Some(server) = self.side.server {
            processes.extend(children_of(server)?);
        }
        let mut nanos = 0;
        for process in processes {
            for task in fs::read_dir(format!("/proc/{process}/task"))? {
                let text = fs::read_to_string(task?.path().join("schedstat"))?;
                let run: Option<u64> = text.split(' ').next().and_then(|word| word.parse().ok());
                nanos += run.context("schedstat tells no time")?;
            }
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Lets the lock go through the whole crowd. Returns the microseconds for each hand-over.
    fn hand_over(mut self) -> Result<f64> {
        let begun = Instant::now();
        drop(self.release.take());
        for waiter in &mut self.waiters {
            let status = waiter.wait()?;
            if !status.success() {
                bail!("a waiter failed: {status}");
            }
        }
        Ok(micros(begun.elapsed()) / self.waiters.len() as f64)
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        self.release.take();
        for child in self.waiters.iter_mut().chain([&mut self.holder]) {
            // A child that has ended already cannot be killed, and is only waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn children_of(process: u32) -> Result<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    let children = text.split_whitespace().map(str::parse);
    Ok(children.collect::<Result<_, _>>()?)
}
