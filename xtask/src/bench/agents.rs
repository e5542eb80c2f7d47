//! Hooks of coding agents: the whole command `tenure agent hook`, against `tenure run x -- true` on the same store.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::command::build;
use super::postgres::server::Server;
use super::{Measured, compare, median, micros};

/// How many hooks one measure of a rate takes.
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
    Ok(all)
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

    /// The time of a hook of one agent, against fifty agents on all cores: the rate of a core must be at least 0.8 of the other.
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
            // The time of a hook on one core.
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
    match is_good {
        true => Ok(()),
        false => bail!("the {what} failed"),
    }
}
