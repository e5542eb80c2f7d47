//! Failures, as people and programs see them.

mod busy;
mod words;

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use tenure::{Error, Remedy};
use tenure_api as api;
use tenure_run::SpawnError;
use tenure_service::agents::sandbox;

use crate::exit;
use crate::output;
use crate::people::without_long_words;

pub use words::{in_words, render, word};

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The error of a keeper or a store.
    Error(Error),
    /// An error with an exit code or a remedy of its own.
    Adjusted {
        error: Error,
        /// The exit code that the user wants for it.
        code: Option<u8>,
        /// The remedy in this case, if it is not the usual one.
        remedy: Option<Remedy>,
    },
    /// The command line makes sense, but not here.
    Usage { message: String, remedy: String },
    /// A person was asked for consent and did not give it.
    Declined(String),
    /// The command under `run` could not be started.
    Spawn {
        /// The program that could not be started.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A command whose output was wanted failed.
    Command {
        /// The failure, and the work that was left undone because of it.
        message: String,
        /// Its exit code, which is passed on.
        code: u8,
    },
    /// Our own output could not be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        match error {
            SpawnError::Program { program, source } => Failure::Spawn { program, source },
            SpawnError::NotTried(error) => Failure::Error(error),
        }
    }
}

impl Failure {
    /// Makes the failure of a command that was called in a wrong way.
    pub fn usage(message: &str, remedy: &str) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Failure::Usage { message, remedy }
    }

    /// Makes a failure whose remedy replaces the usual one of its error.
    pub fn with_remedy(error: Error, remedy: impl Into<Remedy>) -> Self {
        let (code, remedy) = (None, Some(remedy.into()));
        Failure::Adjusted {
            error,
            code,
            remedy,
        }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Error(error) => exit::code(error.class()),
            Failure::Adjusted { error, code, .. } => code.unwrap_or(exit::code(error.class())),
            Failure::Usage { .. } => exit::USAGE,
            Failure::Declined(_) => exit::OTHER,
            Failure::Spawn { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => exit::COMMAND_NOT_FOUND,
                io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => exit::OTHER,
                _ => exit::NOT_EXECUTABLE,
            },
            Failure::Command { code, .. } => *code,
            Failure::Output(_) => exit::OTHER,
        }
    }

    /// Returns the error as JSON shows it.
    pub fn body(&self) -> Body {
        let mut body = match self {
            Failure::Error(error) => Body::of(error, error.class().as_str(), remedy_of(error)),
            Failure::Adjusted { error, remedy, .. } => {
                let remedy = remedy.clone().unwrap_or_else(|| remedy_of(error));
                Body::of(error, error.class().as_str(), remedy)
            }
            Failure::Usage { message, remedy } => Body::new("usage", message, remedy.clone()),
            Failure::Declined(message) => Body::new("declined", message, "nothing else was done"),
            Failure::Spawn { program, source } => {
                let kind = match self.code() {
                    exit::COMMAND_NOT_FOUND => "command_not_found",
                    exit::NOT_EXECUTABLE => "command_not_executable",
                    _ => "other",
                };
                let message = format!("cannot run {program}: {source}");
                Body::new(kind, message, "check the command after --")
            }
            Failure::Command { message, .. } => {
                let remedy = "look at what it said on standard error, and try again";
                Body::new("command_failed", message, remedy)
            }
            Failure::Output(source) => {
                let message = format!("cannot write to standard output: {source}");
                Body::new("other", message, "check where it goes")
            }
        };
        body.message = without_long_words(&body.message).into_owned();
        render(&mut body.remedy);
        body
    }

    fn document(&self) -> Document {
        let error = self.body();
        Document { error }
    }

    /// Returns the message for people, one or a few lines, without the remedy.
    fn message(&self) -> String {
        match self {
            Failure::Error(error) | Failure::Adjusted { error, .. } => busy::message(error),
            _ => self.body().message,
        }
    }
}

/// Returns the remedy for an error; in a sandbox, it says how that is opened.
fn remedy_of(error: &Error) -> Remedy {
    let environment = crate::surface::environment().ok();
    let in_sandbox = environment.and_then(|it| sandbox::remedy(error, &it));
    in_sandbox.unwrap_or_else(|| error.remedy())
}

/// The error in JSON. Its remedy is a text in the words of the command.
pub type Body = api::Failure<&'static str>;

/// The failure in JSON, `{"error":{…}}`.
#[derive(Serialize)]
struct Document {
    error: Body,
}

/// The form in which failures are shown.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    json: bool,
}

impl Report {
    /// Returns a report that shows failures as JSON on standard output, or for people on standard
    /// error.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Shows a failure and returns the exit code.
    pub fn failure(self, failure: &Failure) -> ExitCode {
        // A reader that went away has seen enough.
        let broken_pipe =
            matches!(failure, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe);
        if !broken_pipe {
            if self.json {
                // Standard error is left if standard output cannot be written, as on a full disk.
                if output::json(&failure.document()).is_err() {
                    output::tell_json(&failure.document());
                }
            } else {
                self.say(failure);
            }
        }
        ExitCode::from(failure.code())
    }

    /// Shows a failure that happened after the command under `run` started, when standard output
    /// belongs to that command.
    pub fn late_failure(self, failure: &Failure) {
        if self.json {
            output::tell_json(&failure.document());
        } else {
            self.say(failure);
        }
    }

    /// Tells people about a failure, on standard error.
    pub fn say(self, failure: &Failure) {
        let (message, remedy) = (failure.message(), failure.body().remedy);
        output::tell(&format!("tenure: {message}\n  {remedy}\n"));
    }
}

/// Returns the first paragraph of an error of clap, without tips and usage.
pub fn usage_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let message = text.split("\n\n").next().unwrap_or(text);
    message.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::busy::tests::busy;
    use super::*;
    use tenure::Class;

    #[test]
    fn the_error_document_has_all_its_fields() {
        let failure = Failure::from(busy(1));
        let document = serde_json::to_value(failure.document()).unwrap();
        let error = document["error"].as_object().unwrap();
        let names: Vec<_> = error.keys().map(String::as_str).collect();
        assert_eq!(names, ["kind", "message", "resource", "holders", "remedy"]);
        assert_eq!(
            (&error["kind"], &error["resource"]),
            (&"busy".into(), &"name:x".into())
        );
        assert_eq!(error["holders"][0]["owner"], "ana@desk");
    }

    #[test]
    fn every_class_has_a_code_of_its_own() {
        let classes = [
            Class::BadInput,
            Class::NotFound,
            Class::Unreachable,
            Class::Internal,
            Class::Busy,
            Class::Conflict,
            Class::NotAllowed,
            Class::Configuration,
            Class::Lost,
            Class::Interrupted,
        ];
        let codes = classes.map(exit::code);
        assert_eq!(codes, [65, 66, 69, 70, 75, 76, 77, 78, 79, 130]);
    }

    #[test]
    fn a_command_that_cannot_start_has_the_code_shells_use() {
        let code = |kind: io::ErrorKind| {
            let (program, source) = ("x".into(), kind.into());
            Failure::Spawn { program, source }.code()
        };
        assert_eq!(code(io::ErrorKind::NotFound), 127);
        assert_eq!(code(io::ErrorKind::PermissionDenied), 126);
        assert_eq!(code(io::ErrorKind::WouldBlock), 1);
    }
}
