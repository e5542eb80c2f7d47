//! A server of our own that syncs to the disk, and pgbench on it.

use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tenure_testkit::postgres::{Cluster, Database, Settings};

use super::crowd::{CLIENTS, SECONDS, THREADS};

pub struct Server {
    cluster: Cluster,
}

impl Server {
    pub fn start() -> Self {
        Self {
            cluster: Cluster::with(&Settings::default().durable()),
        }
    }

    pub fn without_sync() -> Self {
        Self {
            cluster: Cluster::with(&Settings::default()),
        }
    }

    pub fn database(&self) -> Database {
        self.cluster.database()
    }
}

/// Returns how often sixteen clients of pgbench run a script in a second.
pub fn pgbench(database: &Database, script: &str) -> Result<f64> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(script.as_bytes())?;
    let (clients, threads) = (CLIENTS.to_string(), THREADS.to_string());
    let output = Command::new(program()?)
        .args(["-n", "-M", "prepared", "-j", &threads, "-c", &clients])
        .args(["-T", &SECONDS.to_string(), "-f"])
        .arg(file.path())
        .arg(database.url())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "pgbench: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = line.and_then(|line| line.split(' ').next());
    rate.context("pgbench told no rate")?
        .parse()
        .context("pgbench told no rate")
}

/// Finds pgbench: Debian keeps the programs of the server out of the path.
fn program() -> Result<std::path::PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let beside = versions.into_iter().flatten().flatten();
    let beside = beside.map(|version| version.path().join("bin/pgbench"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("pgbench"));
    match in_path.chain(beside).find(|program| program.is_file()) {
        Some(program) => Ok(program),
        None => bail!("pgbench is missing: install postgresql"),
    }
}
