//! The failures of commands on ledgers: errors with remedies for the command line.

use std::path::Path;
use std::process::ExitCode;

use tenure::Error;
use tenure_ledger::LedgerError;

use crate::report::Failure;

/// Returns the failure with its remedy on the command line.
pub fn about(failure: Failure) -> Failure {
    let Failure::Error(error) = failure else {
        return failure;
    };
    let remedy = match &error {
        Error::Corrupt { path, .. } if path.ends_with("meta.json") => "correct it",
        Error::Corrupt { .. } => "look at all of it with: tenure ledger verify DIR",
        Error::NotFound(_) => "correct the directory or the number",
        Error::Lost { .. } => "look with tenure ledger log whether the event is there, then decide",
        _ => return Failure::Error(error),
    };
    Failure::with_remedy(error, remedy)
}

/// Ends a command that added an event. If the number cannot be printed, the failure tells it.
pub fn answered(
    answer: Result<ExitCode, Failure>,
    directory: &Path,
    sequence: u64,
) -> Result<ExitCode, Failure> {
    answer.map_err(|failure| match failure {
        Failure::Output(source) => {
            let outcome = LedgerError::OutcomeUnknown {
                path: directory.to_owned(),
                sequence,
                source: Box::new(Error::io("write", "standard output", source)),
            };
            Failure::Error(outcome.into())
        }
        other => other,
    })
}
