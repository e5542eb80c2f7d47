//! `tenure publish --verify`: compares every file of a target with its manifest.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use tenure::Error;
use tenure_api::publish::{Verified, Verify};

use crate::output::{self, word};
use crate::people::{counted, visible};
use crate::report::{Body, Failure};
use crate::surface::Surface;

/// The response, and the error if there are differences.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    verified: &'a Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Body>,
}

/// Shows the differences, any of which is a failure.
pub fn verify(surface: &Surface, target: PathBuf) -> Result<ExitCode, Failure> {
    let verified = surface.call(Verify { target }, &surface.caller(None)?)?;
    let failure = difference(&verified);
    let answer = Answer {
        verified: &verified,
        error: failure.as_ref().map(Failure::body),
    };
    surface.answer(&answer, || {
        output::lines(verified.differences.iter().map(|found| {
            let path = visible(&found.relative_path);
            format!("{path}: {}", visible(&found.problem))
        }))
    })?;
    match failure {
        Some(failure) if surface.is_json() => Ok(ExitCode::from(failure.code())),
        Some(failure) => Err(failure),
        None => {
            word(&format!(
                "{} has all of manifest {}: {}",
                verified.target.display(),
                verified.manifest,
                counted(verified.files, "file")
            ));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the error for a directory that differs from its manifest.
fn difference(verified: &Verified) -> Option<Failure> {
    let count = verified.differences.len();
    let problem = format!(
        "{} differs from manifest {} in {}",
        verified.target.display(),
        verified.manifest,
        counted(count, "file")
    );
    let remedy = "find out what changed it, and publish it again";
    (count > 0).then(|| Failure::with_remedy(Error::BadInput(problem), remedy))
}
