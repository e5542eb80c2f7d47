//! Publish: against a bare copy with the same syncs, and against `cp` and `sync` of one large file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;
use tenure::records::Fence;
use tenure::{Keeper, Mode, Options, Owner, Resource, SessionOptions};
use tenure_files::publish::PublishTarget;
use tenure_work::publish::{self, Progress, Request, new_id};
use tokio::runtime::{Builder, Runtime};

use super::{Measured, compare, micros};

const FILES: usize = 1000;
const FILE_BYTES: usize = 4096;
const LARGE_BYTES: usize = 1 << 30;

pub fn measure() -> Result<Vec<Measured>> {
    let site = Site::new()?;
    let many = site.path("many");
    fs::create_dir(&many)?;
    for number in 0..FILES {
        fs::write(
            many.join(format!("{number}.bin")),
            vec![number as u8; FILE_BYTES],
        )?;
    }
    let small = compare(
        "1,000 files of 4 KiB against a bare copy with the same syncs",
        Some(1.25),
        9,
        || site.timed(|target| site.publish(&many, target)),
        || site.timed(|target| bare_copy(&many, target)),
    )?;
    let large = site.path("large");
    fs::create_dir(&large)?;
    let mut file = File::create(large.join("file"))?;
    let chunk: Vec<u8> = (0..1 << 20)
        .map(|byte: usize| (byte * 7 % 251) as u8)
        .collect();
    for _ in 0..LARGE_BYTES / chunk.len() {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    let large = compare(
        "1 GB in one file against cp and sync of it",
        Some(1.3),
        3,
        || site.timed(|target| site.publish(&large, target)),
        || site.timed(|target| cp(&large, target)),
    )?;
    Ok(vec![small, large])
}

/// A directory on a real disk, with a store.
struct Site {
    directory: TempDir,
    keeper: Keeper,
    runtime: Runtime,
}

impl Site {
    fn new() -> Result<Self> {
        let built = std::env::current_exe()?;
        let beside = built.parent().context("a program is in a directory")?;
        let directory = tempfile::tempdir_in(beside)?;
        fs::create_dir(directory.path().join("srv"))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let url = format!("sqlite:{}/s/tenure.db", directory.path().display());
        let keeper = runtime.block_on(Keeper::open(&url))?;
        Ok(Self {
            directory,
            keeper,
            runtime,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the time it takes to make a target, which is removed afterwards.
    fn timed(&self, work: impl FnOnce(&Path) -> Result<()>) -> Result<f64> {
        let target = self.path("srv").join(new_id());
        let started = Instant::now();
        work(&target)?;
        let took = micros(started.elapsed());
        fs::remove_dir_all(&target)?;
        rustix::fs::sync();
        Ok(took)
    }

    /// Does all ten steps, with the lock and the manifest.
    fn publish(&self, source: &Path, target: &Path) -> Result<()> {
        self.runtime.block_on(async {
            let owner = Owner::parse("bench@desk").map_err(|error| anyhow!("{error}"))?;
            let session = SessionOptions::new(owner);
            let asker = session.asker();
            let session = self.keeper.session(session);
            let id = new_id();
            let publish_target = PublishTarget::new(target, &id)?;
            let name = publish_target.target().to_string_lossy().into_owned();
            let resource = Resource::new("file", name).map_err(|error| anyhow!("{error}"))?;
            let guard = session
                .acquire(&resource, Mode::Write, &Options::default())
                .await?;
            let request = Request {
                source: source.to_owned(),
                publish_target: &publish_target,
                id,
                op_type: "bench".into(),
                fence: Fence {
                    resource,
                    token: guard.token(),
                    lease: Some(guard.lease().lease),
                },
                asker,
                wait: Duration::from_secs(5),
            };
            publish::publish(&self.keeper, &request, &Progress::default()).await?;
            guard.release().await.map_err(|failed| failed.source)?;
            Ok(())
        })
    }
}

/// Copies the files with the syncs of a publish, and does nothing else.
fn bare_copy(source: &Path, target: &Path) -> Result<()> {
    let tmp = target.with_extension("tmp");
    fs::create_dir(&tmp)?;
    let mut bytes = Vec::new();
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        bytes.clear();
        File::open(entry.path())?.read_to_end(&mut bytes)?;
        let mut copy = File::create(tmp.join(entry.file_name()))?;
        copy.write_all(&bytes)?;
        copy.sync_all()?;
    }
    File::open(&tmp)?.sync_all()?;
    fs::rename(&tmp, target)?;
    let parent = target.parent().context("a target is in a directory")?;
    Ok(File::open(parent)?.sync_all()?)
}

fn cp(source: &Path, target: &Path) -> Result<()> {
    fs::create_dir(target)?;
    let copied = Command::new("cp")
        .arg(source.join("file"))
        .arg(target)
        .status()?;
    let synced = Command::new("sync").arg(target.join("file")).status()?;
    ensure!(copied.success() && synced.success(), "cp or sync failed");
    Ok(())
}
