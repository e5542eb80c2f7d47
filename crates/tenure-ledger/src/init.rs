//! A new ledger, and the duration of its claims.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_core::{Error, Result, duration};
use tenure_os::disk::{Disk, RealDisk};
use tenure_os::replace::replace;

use super::Ledger;
use super::names::{Form, Names};

/// The shortest claim.
pub const CLAIM_TTL_MIN: Duration = Duration::from_secs(1);
/// The longest claim.
pub const CLAIM_TTL_MAX: Duration = Duration::from_secs(3600);
/// The default duration of a claim.
const CLAIM_TTL: &str = "5m";
const META_BYTES_MAX: u64 = 1 << 20;

impl Ledger {
    /// Makes a ledger in a directory, and makes the directory if it is not there. An existing
    /// ledger stays as it is.
    pub fn init(directory: &Path, claim_ttl: Option<Duration>) -> Result<()> {
        let directory = std::path::absolute(directory);
        let directory = directory.map_err(|source| Error::io("find", "", source))?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let names = Names::new(&directory, Form::Seed);
        if let Some(ttl) = claim_ttl {
            require_ttl(ttl).map_err(Error::BadInput)?;
        }
        for directory in [names.directory(), names.ledger()] {
            make(&*disk, directory)?;
        }
        let meta = names.meta();
        let known = disk.exists(&meta);
        if !known.map_err(|source| Error::io("look for", &meta, source))? {
            let ttl = claim_ttl.map_or(CLAIM_TTL.into(), spelled);
            let text = format!("{{\n  \"lock_timeout\": \"{ttl}\"\n}}\n");
            return replace(&*disk, &meta, text.as_bytes(), None);
        }
        let known = ttl_in(&*disk, &meta)?;
        match claim_ttl.filter(|asked| *asked != known) {
            None => Ok(()),
            Some(asked) => Err(Error::conflict(
                format!(
                    "{} says that claims last {}, not {}",
                    meta.display(),
                    spelled(known),
                    spelled(asked)
                ),
                format!("change lock_timeout in it to \"{}\"", spelled(asked)),
            )),
        }
    }

    /// Returns the duration of a claim: the one asked for, or else the one in `meta.json`.
    pub(super) fn ttl(&self, asked: Option<Duration>) -> Result<Duration> {
        let Some(asked) = asked else {
            return ttl_in(&*self.disk, &self.names.meta());
        };
        require_ttl(asked).map_err(Error::BadInput)
    }
}

fn make(disk: &dyn Disk, directory: &Path) -> Result<()> {
    match disk.make_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(|source| Error::io("make the directory", directory, source))?,
    }
    let above = directory.parent().unwrap_or(directory);
    let synced = disk.sync_directory(above);
    synced.map_err(|source| Error::io("sync", above, source))
}

fn ttl_in(disk: &dyn Disk, meta: &Path) -> Result<Duration> {
    let bytes = disk.content(meta, META_BYTES_MAX);
    let bytes = bytes.map_err(|source| Error::io("read", meta, source))?;
    let corrupt = |problem: String| Error::corrupt(meta, problem);
    let text = match bytes {
        None => CLAIM_TTL.to_owned(),
        Some(bytes) => {
            let meta: Value = serde_json::from_slice(&bytes)
                .map_err(|error| corrupt(format!("it is not JSON: {error}")))?;
            match meta.get("lock_timeout") {
                None => CLAIM_TTL.to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => {
                    let problem = format!("lock_timeout is {other}, not text such as \"5m\"");
                    return Err(corrupt(problem));
                }
            }
        }
    };
    let ttl = duration::parse(&text).map_err(|error| error.to_string());
    let ttl = ttl.and_then(require_ttl);
    ttl.map_err(|problem| corrupt(format!("lock_timeout: {problem}")))
}

fn require_ttl(ttl: Duration) -> Result<Duration, String> {
    match (CLAIM_TTL_MIN..=CLAIM_TTL_MAX).contains(&ttl) {
        true => Ok(ttl),
        false => Err(format!("a claim lasts from 1s to 1h, not {}", spelled(ttl))),
    }
}

/// Returns a duration as text, in the largest unit that is exact.
fn spelled(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis > 0 && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}
