//! `tenure publish SRC TARGET`: puts a copy of a directory in place, whole.

use std::process::ExitCode;

use tenure::Error;
use tenure_api::publish::Put;
use tenure_api::text::Span;

use super::Publish;
use crate::output;
use crate::people::counted;
use crate::report::Failure;
use crate::surface::Surface;

/// Publishes a copy of a directory.
pub fn put(surface: &Surface, options: Publish) -> Result<ExitCode, Failure> {
    let (Some(source), Some(target)) = (options.source, options.target) else {
        return Err(Failure::usage(
            "SRC and TARGET are missing",
            "see tenure publish --help",
        ));
    };
    let caller = surface.caller_within(None)?;
    let request = Put {
        source,
        target,
        resource: options.resource,
        op_type: options.op_type,
        wait: options.wait.map(Span),
    };
    let published = surface.call_waiting(request, &caller).map_err(about)?;
    surface.answer(&published, || {
        output::lines(published.manifests.iter().map(|manifest| {
            let files = counted(manifest.files.len(), "file");
            format!("published {files} to {}", manifest.target)
        }))
    })
}

/// Returns the failure, with a remedy of its own if a directory is missing.
fn about(failure: Failure) -> Failure {
    match failure {
        Failure::Error(error @ Error::NotFound(_)) => {
            Failure::with_remedy(error, "make it, or name another one")
        }
        failure => failure,
    }
}
