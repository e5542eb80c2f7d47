//! A command line that is not carried out: it asks for help, or it makes no sense.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Cli;
use crate::output;
use crate::report::{self, Failure, Report};

/// A command line that is not carried out, and the reason.
pub struct UsageError {
    pub(super) error: clap::Error,
    json: bool,
    /// The command that the command line names, if there is one.
    command: Option<String>,
    /// The command of `doc` that it names, if there is one.
    of_doc: Option<String>,
    /// True if the command line holds no `--`.
    undivided: bool,
}

impl UsageError {
    pub(super) fn new(error: clap::Error, arguments: &[OsString]) -> Self {
        let mut definition = Cli::command();
        definition.build();
        Self {
            error,
            json: wants_json(arguments),
            command: command_in(&definition, arguments),
            of_doc: definition
                .find_subcommand("doc")
                .and_then(|doc| command_in(doc, arguments)),
            undivided: !arguments.iter().any(|word| word == "--"),
        }
    }

    /// Returns advice for a typical first mistake of a person who knows similar commands.
    fn tip(&self) -> Option<&'static str> {
        let missing = self.error.kind() == ErrorKind::MissingRequiredArgument;
        let tip = match (self.command.as_deref()?, self.of_doc.as_deref()) {
            ("run", _) => "put -- before the command, as in: tenure run build -- make",
            ("doc", Some("update")) => {
                "put -- before the command, as in: tenure doc update a.json -- jq '.n += 1'"
            }
            _ => return None,
        };
        (missing && self.undivided).then_some(tip)
    }

    fn message(&self) -> String {
        match self.error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".into(),
            _ => report::usage_message(&self.error),
        }
    }

    /// Shows the error or the help, and returns the exit code.
    pub fn show(&self) -> ExitCode {
        let asked_for = matches!(
            self.error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        if self.json && !asked_for {
            let remedy = match (self.command.as_deref(), &self.of_doc) {
                (Some("doc"), Some(command)) => self.tip().map_or_else(
                    || format!("look at: tenure doc {command} --help"),
                    str::to_owned,
                ),
                (Some(command), _) => format!("look at: tenure {command} --help"),
                (None, _) => "look at: tenure --help".into(),
            };
            let message = self.message();
            return Report::new(true).failure(&Failure::Usage { message, remedy });
        }
        match asked_for {
            // Help goes to standard output. A closed pipe there is no failure.
            true => drop(self.error.print()),
            // The message repeats the arguments, which a terminal must not obey.
            false => output::tell(&self.error.render().to_string()),
        }
        if let Some(tip) = self.tip() {
            output::word(tip);
        }
        match asked_for {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(crate::exit::USAGE),
        }
    }
}

/// Returns the command on a command line that could not be read.
fn command_in(definition: &clap::Command, arguments: &[OsString]) -> Option<String> {
    let own = arguments.iter().skip(1).take_while(|word| *word != "--");
    let mut words = own.filter_map(|word| word.to_str());
    let known = |word: &&str| definition.find_subcommand(word).is_some();
    words.find(known).map(str::to_owned)
}

/// Returns true if a command line that could not be read asks for JSON.
fn wants_json(arguments: &[OsString]) -> bool {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    own.into_iter().any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_without_a_divider_is_told_where_to_put_it() {
        let tip = |text: &str| {
            let usage_error = crate::cli::parse(arguments(text)).map(drop).unwrap_err();
            usage_error.tip().is_some()
        };
        assert!(tip("tenure run build make") && tip("tenure run build"));
        assert!(!tip("tenure run -- make") && !tip("tenure lock"));
        assert!(tip("tenure doc update a.json jq .") && tip("tenure doc update a.json"));
        assert!(!tip("tenure doc update -- jq") && !tip("tenure doc write"));
    }

    #[test]
    fn json_is_wanted_only_by_our_own_words() {
        assert!(wants_json(&arguments("tenure run --json")));
        assert!(!wants_json(&arguments("tenure run x -- make --json")));
    }

    #[test]
    fn the_command_is_known_even_where_the_rest_is_not() {
        let of = |text: &str| command_in(&Cli::command(), &arguments(text));
        assert_eq!(of("tenure break --nonsense").as_deref(), Some("break"));
        assert_eq!(of("tenure --json nonsense"), None);
    }
}
