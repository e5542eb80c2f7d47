//! The operation `doctor`: the store that is used, the reason, and proof that it locks.
//!
//! | module | what it holds |
//! |---|---|
//! | `checks` | the checks, in order |
//! | `storage`, `exclusion`, `leftovers` | those of the store |
//! | `sandbox`, `hooks` | those of coding agents |
//! | `trust` | whether a person trusts the commands in `tenure.toml` |
//!
//! # Limitations
//!
//! The child that takes a lock is started from the program of this process, which must be the
//! `tenure` command.

mod checks;
mod exclusion;
mod hooks;
mod leftovers;
mod sandbox;
mod storage;
mod trust;

pub use hooks::VARIABLES;

use tenure::store::Examined;
use tenure::store_choice::Environment;
use tenure::{Error, Remedy, Result};
use tenure_api::doctor::{Diagnosis, Doctor};
use tenure_core::store::Found;

use crate::{Caller, Handle, Service, agents};

impl Handle<Doctor> for Service {
    async fn handle(&self, _: Doctor, caller: &Caller) -> Result<Diagnosis> {
        let mut why = self.located().why.to_string();
        if self.located().is_user {
            why.push_str(", as user:");
        }
        let checks = checks::all(self, caller).await;
        Ok(diagnosis(Some((self.shown_store(), why)), checks))
    }
}

/// Returns the diagnosis if an error leaves no service to examine.
pub fn of_failure(error: &Error, environment: Option<&Environment>) -> Diagnosis {
    diagnosis(None, vec![failed("configuration", error, environment)])
}

fn diagnosis(store: Option<(String, String)>, checks: Vec<Examined>) -> Diagnosis {
    let (store, why) = store.unzip();
    let problems = checks.iter().filter(|check| !check.good).count();
    Diagnosis {
        store,
        why,
        checks,
        problems,
    }
}

/// Returns a number with its noun, such as `1 lease` or `2 leases`.
pub fn counted(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

impl Service {
    /// Reports a check that an error ended before it had a result.
    fn failed(&self, name: &'static str, error: &Error) -> Examined {
        failed(name, error, Some(self.environment()))
    }
}

fn failed(name: &'static str, error: &Error, environment: Option<&Environment>) -> Examined {
    Found::bad(error.to_string(), remedy(error, environment)).of(name)
}

/// Returns the remedy for an error that a check met. The usual remedy may name this very operation,
/// or an option that it does not have.
fn remedy(error: &Error, environment: Option<&Environment>) -> Remedy {
    match error {
        Error::TooManyRetries { last, .. } => remedy(last, environment),
        Error::Corrupt { path, .. } => {
            format!("when nothing is held, move {} away", path.display()).into()
        }
        Error::Busy { .. } | Error::Timeout { .. } => "try again a little later".into(),
        Error::Unreachable { .. } => {
            "see that the server runs, has room for one more connection, and can be reached from here".into()
        }
        Error::Io { .. } | Error::Configuration { .. } => match usual(error, environment) {
            usual if usual.names("doctor") => {
                "look at the disk, and at the log of the system (dmesg)".into()
            }
            usual => usual,
        },
        _ => error.remedy(),
    }
}

fn usual(error: &Error, environment: Option<&Environment>) -> Remedy {
    let in_sandbox = environment.and_then(|it| agents::sandbox::remedy(error, it));
    in_sandbox.unwrap_or_else(|| error.remedy())
}
