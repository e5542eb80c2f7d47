//! The proof of exclusion: a child process holds a lock, and this one cannot have it until the
//! child is killed, or releases it where a lease outlives its process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tenure::store::Examined;
use tenure::{Error, Keeper, Mode, Options, Remedy, Resource, Result, SessionOptions};
use tenure_core::store::Found;
use tenure_os::blocking::blocking;

use crate::{Caller, Service};

/// The one lock of all doctors. With a lock for each, every run would leave a lock file: they are
/// never removed.
const RESOURCE: &str = "doctor:exclusion";
/// The word that the child prints when it holds the lock.
const HELD: &str = "held";
/// The longest wait for another doctor that may be at work.
const WAIT: Duration = Duration::from_secs(10);

/// Proves that the store excludes, and that a holder frees its lock: by its death, where leases end
/// with their session, else by its release.
pub async fn prove(service: &Service, caller: &Caller, keeper: &Keeper, url: &str) -> Examined {
    let name = "exclusion";
    match try_prove(caller, keeper, url).await {
        Ok(end) => Found::good(format!(
            "a lock held by another process kept this one out, and was free once that {end}"
        ))
        .of(name),
        Err(error) => service.failed(name, &error),
    }
}

/// Returns the way in which the child gave up the lock, in words.
async fn try_prove(caller: &Caller, keeper: &Keeper, url: &str) -> Result<&'static str> {
    let resource = Resource::parse(RESOURCE).map_err(|e| Error::Internal(e.to_string()))?;
    let session = keeper.session(SessionOptions::new(caller.owner().clone()));
    let mut holder = blocking(|| Holder::start(url, caller))?;
    let options = Options::default();
    let taken = session
        .try_acquire(&resource, Mode::Write, &options)
        .await?;
    if taken.is_some() {
        return Err(Error::configuration(
            "two processes held the same lock at the same time",
            "do not use this store; choose a local directory with {.store}",
        ));
    }
    let end = match keeper.capabilities().ttl {
        None => {
            holder.kill()?;
            "was killed"
        }
        Some(_) => {
            // The command of the child ends with its input.
            holder.child.stdin = None;
            "released it"
        }
    };
    let options = options.with_wait(WAIT);
    let guard = session.acquire(&resource, Mode::Write, &options).await?;
    guard.release().await.map_err(|failed| failed.source)?;
    Ok(end)
}

/// A child, `tenure run`, that holds the lock until its standard input ends. Its command is killed
/// with it.
struct Holder {
    child: Child,
}

impl Holder {
    /// Starts the child, and waits until it holds the lock.
    fn start(url: &str, caller: &Caller) -> Result<Self> {
        let failed = |error| Error::io("start", "/proc/self/exe", error);
        let mut command = Command::new("/proc/self/exe");
        // The address may have a password in it, and every user of the machine can see arguments.
        command
            .args(["run", "--json", "--close", "--wait", "10s"])
            .args(["--purpose", "tenure doctor proves exclusion", RESOURCE])
            .args(["--", "sh", "-c", "echo held; exec cat >/dev/null"])
            .env("TENURE_STORE", url)
            // The leases of a run around this doctor do not concern the child.
            .env_remove("TENURE_LEASES");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut holder = Self {
            child: command.spawn().map_err(failed)?,
        };
        let mut said = String::new();
        if let Some(output) = holder.child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut said)
                .map_err(failed)?;
        }
        if said.trim_end() == HELD {
            return Ok(holder);
        }
        Err(not_taken(&said, caller))
    }

    fn kill(&mut self) -> Result<()> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed
            .map(drop)
            .map_err(|error| Error::io("kill", "the child", error))
    }
}

/// Returns the error of a child that could not take the lock, from its own JSON.
fn not_taken(said: &str, caller: &Caller) -> Error {
    let document: Value = serde_json::from_str(said).unwrap_or_default();
    let field = |name: &str| document["error"][name].as_str().map(str::to_owned);
    match (field("message"), field("remedy")) {
        (Some(problem), Some(remedy)) => {
            let problem = format!("another process could not take the lock: {problem}");
            // A remedy that sends to this very examination is of no use, in whatever words.
            let remedy = if remedy.ends_with(&caller.in_words("{doctor}")) {
                Remedy::from("{doctor}")
            } else {
                remedy.into()
            };
            Error::configuration(problem, remedy)
        }
        _ => Error::Internal("another process that was to take the lock said nothing".into()),
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A child that is dead already is no error.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_is_quoted_with_its_remedy() {
        let said = r#"{"error":{"message":"the disk is full","remedy":"free some disk space"}}"#;
        let caller = Caller::new(tenure::Owner::parse("ana@desk").unwrap(), "test");
        let error = not_taken(said, &caller);
        assert!(error.to_string().ends_with("lock: the disk is full"));
        assert_eq!(error.remedy(), "free some disk space".into());
        assert_eq!(not_taken("", &caller).class(), tenure::Class::Internal);
    }
}
