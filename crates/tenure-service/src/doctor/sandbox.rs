//! The check whether coding agents whose sandbox makes `.git` read-only can use the store.
//!
//! It is tried, not guessed: a child takes a lock in a mount namespace of its own, in which the git
//! common directory is read-only.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use tenure::store::Examined;
use tenure::store_choice::{self, locate};
use tenure::{Error, Result};
use tenure_core::store::Found;

use crate::{Caller, Service};

const NAME: &str = "sandbox";
/// The exit code of the child if it could not make the directory read-only.
const NOT_TRIED: i32 = 99;
const SCRIPT: &str = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99
shift; exec "$@""#;

/// Tries the store as a sandboxed agent would. `None` outside of a git repository, and for a store
/// on a server.
pub fn reach(service: &Service, caller: &Caller, url: &str) -> Option<Examined> {
    let scheme = url.split(':').next();
    let environment = service.environment();
    let common = store_choice::common_directory(environment).ok()??;
    if !matches!(scheme, Some("sqlite" | "file")) {
        return None;
    }
    let found = store_choice::state_directory(environment)
        .and_then(|state| tried((service, caller), url, &common, &state));
    Some(found.map_or_else(|error| service.failed(NAME, &error), |found| found.of(NAME)))
}

fn tried(
    (service, caller): (&Service, &Caller),
    url: &str,
    common: &Path,
    state: &Path,
) -> Result<Found> {
    let (git, state) = (common.display(), state.display());
    let allow = format!("allow agents to write {state} in the settings of their sandbox");
    Ok(match usable(url, common)? {
        None => Found::good(format!(
            "not tried: this user cannot mount {git} read-only here; {allow}"
        )),
        Some(true) => Found::good(format!("usable where {git} is read-only; {allow}")),
        Some(false) if service.located().is_user => Found::bad(
            format!("the store cannot be used where {git} is read-only"),
            format!("move the state directory out of {git} (XDG_STATE_HOME)"),
        ),
        // The store is good for all agents without such a sandbox.
        Some(false) => Found::good(format!(
            "out of reach for agents whose sandbox makes {git} read-only; for those: {}",
            caller.in_words("{agent.apply}")
        )),
    })
}

/// Returns whether a child could take a lock with the directory read-only, or `None` if that cannot
/// be tried.
fn usable(url: &str, common: &Path) -> Result<Option<bool>> {
    let exe = env::current_exe().map_err(|error| Error::io("find", "/proc/self/exe", error))?;
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .args(["--mount", "sh", "-c", SCRIPT, "sh"])
        .args([common, &exe])
        .args(["run", "--wait", "10s", "doctor:sandbox", "--", "true"])
        .env("TENURE_STORE", url)
        // The leases of a run around this doctor do not concern the child.
        .env_remove("TENURE_LEASES")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let Ok(output) = command.output() else {
        return Ok(None);
    };
    Ok(match output.status.code() {
        Some(0) => Some(true),
        Some(NOT_TRIED) => None,
        // Only errors of `unshare` itself begin with its name.
        _ if output.stderr.starts_with(b"unshare:") => None,
        _ => Some(false),
    })
}

/// Reports a main worktree whose settings name another store than those here: locks taken there
/// keep no process out here.
pub fn worktrees(service: &Service) -> Option<Examined> {
    let environment = service.environment();
    let main = store_choice::main_worktree(environment).ok()??;
    let mut there = environment.clone();
    there.directory.clone_from(&main);
    let (here, there) = (&service.located().url, locate(None, &there).ok()?.url);
    let chosen_by_hand = matches!(
        service.located().why,
        store_choice::Why::Asked | store_choice::Why::Variable
    );
    if chosen_by_hand || *here == there {
        return None;
    }
    let detail = format!(
        "the main worktree {} uses another store: {}",
        main.display(),
        tenure::shown_address(&there)
    );
    let remedy = "give all worktrees the same tenure.toml, or none but the main one";
    Some(Found::bad(detail, remedy).of("worktrees"))
}
