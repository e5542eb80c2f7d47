//! The one clock: wall time for people and for tokens, time since boot for decisions that must not
//! depend on the wall, and the id of this boot.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use tenure_core::duration::DURATION_MAX;
use tenure_core::{Error, Result, Timestamp};

/// Returns the time on the wall.
pub fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Returns the milliseconds since boot, sleep included. Expiry on one machine is decided by it. It
/// means something only together with the [`boot_id`].
pub fn boot_now() -> u64 {
    millis(rustix::time::ClockId::Boottime)
}

/// Returns the milliseconds since boot without sleep.
pub fn awake_now() -> u64 {
    millis(rustix::time::ClockId::Monotonic)
}

/// Returns the time on a clock that starts at zero with the boot and only counts up.
fn millis(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanoseconds / 1_000_000
}

/// Returns a later moment on the clock that only counts up, at most a year later.
pub fn after(moment: Instant, wait: Duration) -> Instant {
    moment + wait.min(DURATION_MAX)
}

/// Returns the kernel's id of this boot.
pub fn boot_id() -> Result<&'static str> {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(boot_id) = BOOT_ID.get() {
        return Ok(boot_id);
    }
    let path = "/proc/sys/kernel/random/boot_id";
    let text = read_proc(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::configuration(
            format!("/proc is not mounted: there is no {path}"),
            "mount it with: mount -t proc proc /proc; sandboxes and containers have an \
                     option for it",
        ),
        _ => Error::io("read", path, source),
    })?;
    let boot_id = text.trim();
    let plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if boot_id.is_empty() || !boot_id.bytes().all(plain) {
        let problem = "it does not hold a boot id".to_owned();
        return Err(Error::corrupt(path, problem));
    }
    Ok(BOOT_ID.get_or_init(|| boot_id.to_owned()))
}

/// Returns when this process was started, in clock ticks since boot; 0 if the kernel does not say.
/// With the process id and the boot id it names a process for people.
pub fn process_start() -> u64 {
    let stat = read_proc("/proc/self/stat").unwrap_or_default();
    start_in(&stat).unwrap_or(0)
}

/// Reads a short file of the kernel with one call: such a file tells no length beforehand.
fn read_proc(path: &str) -> io::Result<String> {
    let mut buffer = [0; 1024];
    let length = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn start_in(stat: &str) -> Option<u64> {
    // The name of the command is in parentheses and may hold anything, parentheses too.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_has_a_name_and_the_process_a_start() {
        assert!(boot_id().unwrap().len() >= 32);
        assert!(process_start() > 0);
    }

    #[test]
    fn time_since_boot_only_counts_up() {
        let before = boot_now();
        assert!(before > 0 && boot_now() >= before);
    }

    #[test]
    fn a_command_name_with_parentheses_does_not_hide_the_start() {
        let fields: Vec<String> = (3..=30).map(|n| n.to_string()).collect();
        let stat = format!("42 (a ) b (c) {}", fields.join(" "));
        assert_eq!(start_in(&stat), Some(22));
    }
}
