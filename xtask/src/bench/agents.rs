//! Hooks of coding agents: the whole command `tenure agent hook`, against `tenure run x -- true` on
//! the same store.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tenure_testkit::postgres::Database;

use super::command::build;
use super::postgres::server::Server;
use super::postgres::size::FILL;
use super::program::{Program, free_names};
use super::sqlite::fill::fill;
use super::{Measured, compare, median, micros};

/// The number of leases that other owners hold.
const LEASES: u32 = 100_000;
/// The number of agents in the measures of leases, and in the measures of agents.
const AGENTS_FEW: usize = 20;
const AGENTS_MANY: usize = 1000;
/// The number of locks in one measure of an index's cost.
const LOCKS: u32 = 250;
/// The number of hooks in one measure of a rate.
const HOOKS: usize = 200;

pub fn measure() -> Result<Vec<Measured>> {
    let tenure = build()?;
    let directory = tempfile::tempdir()?;
    let database = directory.path().join("store/tenure.db");
    std::fs::create_dir(directory.path().join("store"))?;
    let server = Server::start();
    let on_server = server.database();
    let mut all = Vec::new();
    for (name, store) in [
        ("SQLite", format!("sqlite:{}", database.display())),
        ("PostgreSQL", on_server.url()),
    ] {
        let place = Place {
            tenure: tenure.clone(),
            directory: directory.path().to_owned(),
            store,
        };
        place.settings("")?;
        all.push(place.against_run(&format!("agent hook on {name}"), "Notification", 2.0)?);
        place.settings("[guard]\nedits = true\n")?;
        let what = format!("agent hook with the guard of edits on {name}");
        all.push(place.against_run(&what, "PreToolUse", 2.5)?);
        place.settings("")?;
        if name == "SQLite" {
            all.push(place.crowd()?);
        }
    }
    all.extend(with_leases(&tenure, &server)?);
    Ok(all)
}

/// Measures hooks and listings in stores where others hold many leases, against stores without such
/// leases; and the list of many agents.
fn with_leases(tenure: &Path, server: &Server) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for name in ["SQLite", "PostgreSQL"] {
        let (full, empty) = (
            Store::new(tenure, name, server)?,
            Store::new(tenure, name, server)?,
        );
        full.fill(name)?;
        for store in [&full, &empty] {
            for agent in 0..AGENTS_FEW {
                store.place.hook(&format!("agent{agent}"), "SessionStart")?;
            }
        }
        let hook = |store: &Store| timed(|| store.place.hook("agent0", "Notification"));
        all.push(compare(
            &format!("agent hook on {name}, {LEASES} leases against none"),
            Some(1.5),
            60,
            || hook(&full),
            || hook(&empty),
        )?);
        for store in [&full, &empty] {
            store.place.settings("[guard]\nedits = true\n")?;
        }
        let edit = |store: &Store| timed(|| store.place.hook("agent0", "PreToolUse"));
        all.push(compare(
            &format!("guarded edit on {name}, {LEASES} leases against none"),
            Some(1.5),
            60,
            || edit(&full),
            || edit(&empty),
        )?);
        for store in [&full, &empty] {
            store.place.settings("")?;
        }
        let list = |store: &Store| timed(|| store.place.ls());
        all.push(compare(
            &format!("agent ls of {AGENTS_FEW} on {name}, {LEASES} leases against none"),
            Some(1.5),
            30,
            || list(&full),
            || list(&empty),
        )?);
        for agent in AGENTS_FEW..AGENTS_MANY {
            full.place.hook(&format!("agent{agent}"), "SessionStart")?;
        }
        let times = (0..15).map(|_| list(&full)).collect::<Result<Vec<_>>>()?;
        let time = median(times);
        all.push(Measured {
            what: format!("agent ls of {AGENTS_MANY} on {name}, against half a second"),
            sides: format!("{time:.1} µs"),
            ratio: time / 500_000.0,
            limit: Some(1.0),
        });
        all.push(cost_of_index(tenure, name, server)?);
    }
    Ok(all)
}

/// Measures how much every lock costs more because of the index that finds the leases of an owner.
fn cost_of_index(tenure: &Path, name: &str, server: &Server) -> Result<Measured> {
    let (with, without) = (
        Store::new(tenure, name, server)?,
        Store::new(tenure, name, server)?,
    );
    let open = |store: &Store| Program::open(&store.place.store);
    let (program, bare) = (open(&with)?, open(&without)?);
    without.drop_index()?;
    let names = free_names(LOCKS)?;
    let each = |program: &Program| {
        let time = timed(|| program.acquire_and_release_each(&names))?;
        Ok(time / f64::from(LOCKS))
    };
    let what = format!("acquire + release on {name}, with the index of owners");
    compare(&what, None, 60, || each(&program), || each(&bare))
}

/// A store that one measure has to itself.
struct Store {
    place: Place,
    _directory: tempfile::TempDir,
    database: Option<Database>,
}

impl Store {
    fn new(tenure: &Path, name: &str, server: &Server) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("store"))?;
        let database = (name == "PostgreSQL").then(|| server.database());
        let store = match &database {
            Some(database) => database.url(),
            None => format!("sqlite:{}/store/tenure.db", directory.path().display()),
        };
        let place = Place {
            tenure: tenure.to_owned(),
            directory: directory.path().to_owned(),
            store,
        };
        place.settings("")?;
        Ok(Self {
            place,
            _directory: directory,
            database,
        })
    }

    fn drop_index(&self) -> Result<()> {
        match &self.database {
            Some(database) => drop(database.psql("DROP INDEX tenure.dal_locks_by_owner")),
            None => {
                let path = self.place.directory.join("store/tenure.db");
                rusqlite::Connection::open(path)?.execute_batch("DROP INDEX dal_locks_by_agent")?;
            }
        }
        Ok(())
    }

    /// Writes leases of another owner into the tables that the store has made.
    fn fill(&self, name: &str) -> Result<()> {
        match &self.database {
            Some(database) => {
                self.place.hook("agent0", "SessionStart")?;
                let fill = FILL.replace("1000000", &LEASES.to_string());
                for statement in fill.split_inclusive(';') {
                    database.psql(statement);
                }
            }
            None => fill(&self.place.directory.join("store/tenure.db"), LEASES)?,
        }
        println!("  {LEASES} leases written on {name}");
        Ok(())
    }
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    act()?;
    Ok(micros(began.elapsed()))
}

struct Place {
    tenure: PathBuf,
    directory: PathBuf,
    store: String,
}

impl Place {
    fn settings(&self, text: &str) -> Result<()> {
        Ok(std::fs::write(self.directory.join("tenure.toml"), text)?)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.tenure);
        command
            .current_dir(&self.directory)
            .env("TENURE_STORE", &self.store)
            .env("HOME", &self.directory);
        command
    }

    fn against_run(&self, what: &str, event: &str, limit: f64) -> Result<Measured> {
        compare(
            what,
            Some(limit),
            150,
            || {
                let began = Instant::now();
                self.hook("one", event)?;
                Ok(micros(began.elapsed()))
            },
            || {
                let mut command = self.command();
                let began = Instant::now();
                let ran = command
                    .args(["run", "x", "--", "true"])
                    .stdin(Stdio::null());
                finished(ran.status()?.success(), "run")?;
                Ok(micros(began.elapsed()))
            },
        )
    }

    fn hook(&self, session: &str, event: &str) -> Result<()> {
        let body = json!({
            "hook_event_name": event,
            "session_id": session,
            "cwd": self.directory,
            "tool_name": "Edit",
            "tool_input": { "file_path": Path::new("a.rs") },
        });
        let mut child = self
            .command()
            .args(["agent", "hook"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take();
        stdin
            .context("standard input")?
            .write_all(body.to_string().as_bytes())?;
        finished(child.wait()?.success(), "hook")
    }

    fn ls(&self) -> Result<()> {
        let mut command = self.command();
        command
            .args(["agent", "ls", "--json"])
            .stdout(Stdio::null());
        finished(command.status()?.success(), "list")
    }

    /// Measures the time of a hook of one agent, against fifty agents on all cores: the rate of a
    /// core must be at least 0.8 of the other.
    fn crowd(&self) -> Result<Measured> {
        let cores = std::thread::available_parallelism()?.get();
        let (mut ones, mut crowds) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let began = Instant::now();
            for _ in 0..HOOKS / cores {
                self.hook("one", "Notification")?;
            }
            ones.push(micros(began.elapsed()) / (HOOKS / cores) as f64);
            let began = Instant::now();
            std::thread::scope(|scope| {
                let worker = |core: usize| {
                    for number in 0..HOOKS / cores {
                        let agent = format!("agent{}", (core * HOOKS / cores + number) % 50);
                        self.hook(&agent, "Notification")?;
                    }
                    anyhow::Ok(())
                };
                let workers = (0..cores).map(|core| scope.spawn(move || worker(core)));
                let workers: Vec<_> = workers.collect();
                for worker in workers {
                    worker
                        .join()
                        .map_err(|_| anyhow::anyhow!("a worker died"))??;
                }
                anyhow::Ok(())
            })?;
            // This is the time of a hook on one core.
            crowds.push(micros(began.elapsed()) / (HOOKS / cores) as f64);
        }
        let (one, crowd) = (median(ones), median(crowds));
        Ok(Measured {
            what: "time of a hook on a core, fifty agents against one".into(),
            sides: format!("{crowd:.1} µs against {one:.1} µs"),
            ratio: crowd / one,
            limit: Some(1.25),
        })
    }
}

fn finished(is_good: bool, what: &str) -> Result<()> {
    ensure!(is_good, "the {what} failed");
    Ok(())
}
