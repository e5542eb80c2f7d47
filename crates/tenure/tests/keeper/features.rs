//! The cargo features, seen from a program outside of the workspace (`tests/downstream`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Keeps the builds apart: both use the same lock file of cargo.
static CARGO: Mutex<()> = Mutex::new(());

/// Runs cargo on the program outside of the workspace, with the versions that the workspace uses.
fn cargo(features: &str, arguments: &[&str]) -> String {
    let _one = CARGO.lock().unwrap_or_else(PoisonError::into_inner);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = here.join("tests/downstream");
    std::fs::copy(here.join("../../Cargo.lock"), program.join("Cargo.lock")).unwrap();
    let (subcommand, rest) = arguments.split_first().unwrap();
    let output = Command::new(env!("CARGO"))
        .args([subcommand, "--quiet", "--offline", "--features", features])
        .arg("--manifest-path")
        .arg(program.join("Cargo.toml"))
        .args(rest)
        // Built beside the workspace, so that its crates are used again.
        .env("CARGO_TARGET_DIR", target())
        .output()
        .unwrap();
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problems}");
    String::from_utf8(output.stdout).unwrap()
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("..")
}

/// Returns the names of all crates that are compiled into the program.
fn crates(features: &str) -> Vec<String> {
    let tree = [
        "tree", "--edges", "normal", "--prefix", "none", "--format", "{lib}",
    ];
    let tree = cargo(features, &tree);
    tree.lines().map(str::to_owned).collect()
}

#[test]
fn a_program_that_turns_sqlite_on_gets_sqlite_and_nothing_of_postgres() {
    let crates = crates("sqlite");
    let has = |name: &str| crates.iter().any(|lib| lib == name);
    assert!(has("tenure_sqlite") && has("rusqlite"), "{crates:?}");
    for absent in ["tenure_postgres", "tokio_postgres", "rustls"] {
        assert!(!has(absent), "{absent} is compiled in: {crates:?}");
    }
    let directory = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/locks.db", directory.path().display());
    let printed = cargo(
        "sqlite",
        &["run", "--", &database, "postgres://ana:s3cret@db/x"],
    );
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[0], "locked");
    refused(lines[1], "postgres");
}

#[test]
fn a_program_that_turns_nothing_on_gets_memory_and_files_alone() {
    let crates = crates("");
    for absent in [
        "tenure_sqlite",
        "rusqlite",
        "tenure_postgres",
        "tokio_postgres",
    ] {
        assert!(
            !crates.iter().any(|lib| lib == absent),
            "{absent} is compiled in"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let files = format!("file:{}", directory.path().join("locks").display());
    let addresses = [
        "memory:",
        &files,
        "sqlite:/nowhere/locks.db",
        "postgresql://ana:s3cret@db/x",
    ];
    let printed = cargo("", &[&["run", "--"], &addresses[..]].concat());
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[..2], ["locked", "locked"]);
    refused(lines[2], "sqlite");
    refused(lines[3], "postgres");
}

/// Checks that the error of a store that is not compiled in names its feature, and no password.
fn refused(line: &str, feature: &str) {
    assert!(line.starts_with("configuration: "), "{line}");
    assert!(line.contains(&format!("--features {feature}")), "{line}");
    assert!(!line.contains("s3cret"), "{line}");
}
