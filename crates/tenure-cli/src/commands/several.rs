//! A command on several leases: all are tried, and every problem is told.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tenure::{Lease, Owner};
use tenure_api::leases::Leases;

use crate::output;
use crate::report::{Body, Failure, Report};

/// The owner that the lease must have.
#[derive(Debug, Args)]
pub struct OwnerCheck {
    /// Refuse unless the lease is of this owner (default: TENURE_OWNER, else the id suffices)
    #[arg(long)]
    pub owner: Option<Owner>,
}

/// The outcome for each lease.
#[derive(Default)]
pub struct Several {
    done: Vec<Lease>,
    failed: Vec<(String, Failure)>,
}

/// The response in JSON, `{"leases":[…],"errors":[…]}`.
#[derive(Serialize)]
struct Document<'a> {
    leases: &'a [Lease],
    errors: Vec<LeaseError<'a>>,
}

/// An error, and the lease it is about.
#[derive(Serialize)]
struct LeaseError<'a> {
    lease: &'a str,
    #[serde(flatten)]
    error: Body,
}

impl Several {
    /// Notes the outcome for one lease.
    pub fn note(&mut self, lease: &str, outcome: Result<Leases, Failure>) {
        match outcome {
            Ok(done) => self.done.extend(done.leases),
            Err(failure) => self.failed.push((lease.to_owned(), failure)),
        }
    }

    /// Prints a line for each lease that succeeded, and the failures of the others. The highest
    /// exit code wins. The failure of a single lease is a failure like any other.
    pub fn report(
        mut self,
        json: bool,
        in_words: impl Fn(&Lease) -> String,
    ) -> Result<ExitCode, Failure> {
        if self.done.is_empty() && self.failed.len() == 1 {
            let (_, failure) = self.failed.remove(0);
            return Err(failure);
        }
        if json {
            let errors = self.failed.iter().map(|(lease, failure)| LeaseError {
                lease,
                error: failure.body(),
            });
            output::json(&Document {
                leases: &self.done,
                errors: errors.collect(),
            })?;
        } else {
            output::lines(self.done.iter().map(in_words))?;
            for (_, failure) in &self.failed {
                Report::new(false).say(failure);
            }
        }
        Ok(ExitCode::from(self.code()))
    }

    fn code(&self) -> u8 {
        let codes = self.failed.iter().map(|(_, failure)| failure.code());
        codes.max().unwrap_or(crate::exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;
    use tenure::{Error, LeaseId};

    #[test]
    fn the_highest_exit_code_wins() {
        let mut several = Several::default();
        let id = LeaseId::parse("l1").unwrap();
        several.note(id.as_str(), Ok(Leases::one(lease("x"))));
        assert_eq!(several.code(), 0);
        let over = Error::over(&id, "released");
        several.note(id.as_str(), Err(over.into()));
        several.note(
            id.as_str(),
            Err(Error::NotFound("there is none".into()).into()),
        );
        assert_eq!(several.code(), 77);
    }

    #[test]
    fn an_error_in_a_list_names_its_lease() {
        let failure = Failure::Error(Error::NotFound("there is none".into()));
        let error = LeaseError {
            lease: "l1",
            error: failure.body(),
        };
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(
            (&json["lease"], &json["kind"]),
            (&"l1".into(), &"not_found".into())
        );
    }
}
