//! The places of PostgreSQL's programs, their user, and a place and a port for a server.
//!
//! `initdb` is looked for on the PATH, then under `/usr/lib/postgresql`, newest first; the others
//! lie beside it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::process::geteuid;

/// The directory where Debian keeps the programs of each version, outside the PATH.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The user that servers run as where the tests run as root, and the superuser of a cluster.
pub(super) const USER: &str = "postgres";

/// Returns the directory with `initdb`, `postgres` and `psql`.
pub(super) fn binaries() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    match find_binaries(&path, Path::new(VERSIONS)) {
        Ok(directory) => directory,
        Err(problem) => panic!("{problem}"),
    }
}

/// Returns the program `pgbouncer`; Debian keeps it in a directory that is not on users' PATH.
pub(super) fn pgbouncer() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.is_file())
        .expect("no pgbouncer found: install pgbouncer (apt-get install pgbouncer)")
}

/// Returns the words before a command that make it run as [`USER`], if the tests are root's.
/// PostgreSQL and pgbouncer refuse to run as root.
pub(super) fn not_as_root() -> Vec<String> {
    if !geteuid().is_root() {
        return Vec::new();
    }
    [
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
    ]
    .map(String::from)
    .to_vec()
}

/// Returns the place for files that may be lost with the machine: in memory, where every user may
/// write and there is room for many servers.
pub(super) fn passing() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    const EVERYONE: u32 = 0o1777;
    const ROOM_MIN: u64 = 2 << 30;
    let open = fs::metadata(MEMORY).is_ok_and(|found| found.mode() & EVERYONE == EVERYONE);
    let room = statvfs(MEMORY).map_or(0, |found| found.f_bavail * found.f_frsize);
    if open && room >= ROOM_MIN {
        MEMORY.into()
    } else {
        env::temp_dir()
    }
}

/// Returns a port that no program listens on, below those that the kernel gives to clients: a
/// server that is restarted finds it free. Another program may take it first; a start is tried
/// again.
pub(super) fn free_port() -> u16 {
    const FIRST: u16 = 15_000;
    const COUNT: u16 = 17_000;
    let mut random = [0; 2];
    loop {
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
        let port = FIRST + u16::from_ne_bytes(random) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn find_binaries(path: &OsStr, versions: &Path) -> Result<PathBuf, String> {
    let newest_first = || {
        let mut found: Vec<(u32, PathBuf)> = versions
            .read_dir()
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let version = entry.file_name().to_str()?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .collect();
        found.sort();
        found.into_iter().rev().map(|(_, directory)| directory)
    };
    env::split_paths(path)
        .chain(newest_first())
        // The PATH may hold a link to `initdb` alone.
        .filter_map(|directory| directory.join("initdb").canonicalize().ok())
        .filter_map(|initdb| initdb.parent().map(Path::to_owned))
        .find(|directory| {
            ["postgres", "psql"]
                .iter()
                .all(|program| directory.join(program).is_file())
        })
        .ok_or_else(|| {
            format!(
                "no initdb with postgres and psql beside it on the PATH or in {}/*/bin: \
                 install postgresql (apt-get install postgresql)",
                versions.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn install(directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        for program in ["initdb", "postgres", "psql"] {
            fs::write(directory.join(program), "").unwrap();
        }
    }

    #[test]
    fn missing_programs_are_told_with_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        let problem = find_binaries(empty.path().as_os_str(), empty.path()).unwrap_err();
        assert!(problem.contains("apt-get install postgresql"), "{problem}");
    }

    #[test]
    fn the_newest_version_is_taken_by_number() {
        let versions = tempfile::tempdir().unwrap();
        for version in ["9", "15", "16"] {
            install(&versions.path().join(version).join("bin"));
        }
        let found = find_binaries(OsStr::new(""), versions.path()).unwrap();
        assert!(found.ends_with("16/bin"), "{found:?}");
    }

    #[test]
    fn a_link_on_the_path_leads_to_the_programs_beside_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (real, on_path) = (place.path().join("real"), place.path().join("path"));
        install(&real);
        fs::create_dir(&on_path).unwrap();
        symlink(real.join("initdb"), on_path.join("initdb")).unwrap();
        let found = find_binaries(on_path.as_os_str(), place.path()).unwrap();
        assert_eq!(found, real.canonicalize().unwrap());
    }
}
