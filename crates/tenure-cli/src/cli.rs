//! The words of the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Value;
use tenure::{Mode, Owner, Resource, duration};

use crate::help;
use crate::report::{self, Report};

/// The word before a command that is none of the user's: the other side of `doctor`.
pub const HOLD: &str = "__hold";
/// More resources than this are refused: the command could not be told of them.
pub const RESOURCES_MAX: usize = 256;
/// Longer names in all are refused, for the same reason.
pub const NAMES_BYTES_MAX: usize = 32 * 1024;

/// Locks for many processes: who holds it, since when, and why.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, help_template = help::OVERVIEW, after_long_help = help::OVERVIEW_LONG)]
#[command(disable_help_subcommand = false, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// The store: file:DIR
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// Print one JSON document on standard output, errors included
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take locks, run a command under them, release them
    #[command(after_long_help = help::RUN_LONG)]
    Run(Box<Run>),
    /// Show what is held, by whom and why
    #[command(after_long_help = help::LS_LONG)]
    Ls(Ls),
    /// Say which store is used and why, and prove that it locks
    #[command(after_long_help = help::DOCTOR_LONG)]
    Doctor,
    /// Print completions for a shell
    #[command(after_long_help = help::COMPLETIONS_LONG)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Holds a lock until standard input ends: the other side of `doctor`
    #[command(skip)]
    Hold { resource: Resource },
}

/// The command line of [`HOLD`]. It is a definition of its own so that neither help nor
/// completions nor suggestions know of it.
#[derive(Debug, Parser)]
struct Hold {
    #[command(flatten)]
    global: Global,
    /// What to hold
    #[arg(value_parser = parse_resource())]
    resource: Resource,
}

#[derive(Debug, Args)]
pub struct Run {
    /// How resources without =MODE are locked: read, write or upgradeable
    #[arg(long, value_name = "MODE", default_value = "write", value_parser = parse_mode(), hide_possible_values = true)]
    pub mode: Mode,
    /// How long to wait, such as 500ms, 30s, 5m or 1h (default: 10m)
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(long)]
    pub no_wait: bool,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// Why, for people who look
    #[arg(long, value_parser = parse_purpose)]
    pub purpose: Option<String>,
    /// Kept with the lease, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_meta)]
    pub meta: Option<Value>,
    /// Run under a lock that an outer run holds already; one that none holds is simply taken
    #[arg(long)]
    pub reuse: bool,
    /// Do not pass the lock's descriptor on. If run is killed, so is the command itself, but
    /// not the processes it started in turn
    #[arg(short = 'o', long)]
    pub close: bool,
    /// The exit code for busy or timed out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::BUSY)]
    pub busy_exit: u8,
    /// What to lock
    #[arg(required = true, value_name = "RESOURCE[=MODE]", value_parser = parse_wanted())]
    pub resources: Vec<Wanted>,
    /// The command to run, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Ls {
    /// The beginning of a resource; without `:` also a kind
    pub prefix: Option<String>,
    /// Only what this owner holds
    #[arg(long)]
    pub owner: Option<Owner>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,
    /// Only what comes after, as `next` of an earlier page says
    #[arg(long, value_name = "CURSOR", value_parser = parse_cursor)]
    pub after: Option<String>,
}

/// A resource on the command line of `run`, with its own mode or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub resource: Resource,
    pub mode: Option<Mode>,
}

impl Wanted {
    /// Cuts at the last `=` only if a mode follows it.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let cut = text.iter().rposition(|byte| *byte == b'=');
        let mode = cut.and_then(|cut| str::from_utf8(&text[cut + 1..]).ok()?.parse().ok());
        let name = match (mode, cut) {
            (Some(_), Some(cut)) => &text[..cut],
            _ => text,
        };
        if let (None, Some(cut)) = (mode, cut) {
            let word = String::from_utf8_lossy(&text[cut + 1..]);
            return Err(format!(
                "there is no mode {word:?}; modes are read, write and upgradeable. \
                 A `=` in a name is written %3D"
            ));
        }
        let resource = Resource::parse_bytes(name).map_err(|error| error.to_string())?;
        Ok(Self { resource, mode })
    }
}

fn parse_mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)).try_map(|text| text.parse::<Mode>())
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the unit is missing; write {text}s for seconds"));
    }
    duration::parse(text).map_err(|error| error.to_string())
}

/// A cursor of a store has a blank in it; one that begins the second list ends with a dot.
fn parse_cursor(text: &str) -> Result<String, String> {
    match text.contains(' ') || text == "1." {
        true => Ok(text.to_owned()),
        false => Err("take it from `next` of the page before, and quote it".into()),
    }
}

fn parse_wanted() -> impl TypedValueParser<Value = Wanted> {
    OsStringValueParser::new().try_map(|text| Wanted::parse(text.as_bytes()))
}

fn parse_resource() -> impl TypedValueParser<Value = Resource> {
    OsStringValueParser::new().try_map(|text| Resource::parse_bytes(text.as_bytes()))
}

fn parse_purpose(text: &str) -> Result<String, String> {
    let checked = tenure::request::check_notes(Some(text), None);
    checked.map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn parse_meta(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let checked = tenure::request::check_notes(None, Some(&value));
    checked.map_err(|error| error.to_string())?;
    Ok(value)
}

fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=100_000).contains(limit));
    limit.ok_or_else(|| "a limit is a whole number from 1 to 100000".into())
}

/// Why there is nothing to do: help was asked for, or the command line makes no sense.
pub struct Refusal {
    error: clap::Error,
    json: bool,
    /// The command it is about, if there is one.
    command: Option<String>,
}

impl Refusal {
    fn message(&self) -> String {
        match self.error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".into(),
            _ => report::usage_message(&self.error),
        }
    }

    /// Shows it and says how to exit.
    pub fn show(&self) -> ExitCode {
        let asked_for = matches!(
            self.error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        if self.json && !asked_for {
            let remedy = match &self.command {
                Some(command) => format!("look at: tenure {command} --help"),
                None => "look at: tenure --help".into(),
            };
            return Report::new(true).usage(&self.message(), remedy);
        }
        // It goes to standard output if it was asked for. A closed pipe there is no failure.
        let _ = self.error.print();
        match asked_for {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(crate::exit::USAGE),
        }
    }
}

/// Reads the command line.
pub fn parse(arguments: Vec<OsString>) -> Result<Cli, Refusal> {
    let cli = match arguments.get(1).is_some_and(|word| word == HOLD) {
        true => Hold::try_parse_from(&arguments[1..]).map(|Hold { global, resource }| Cli {
            global,
            command: Command::Hold { resource },
        }),
        false => parse_known(&arguments),
    };
    cli.map_err(|error| Refusal {
        error,
        json: wants_json(&arguments),
        command: command_in(&arguments),
    })
}

fn parse_known(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Command::Run(run) = &cli.command {
        let names = run.resources.iter().map(|wanted| wanted.resource.as_str());
        let bytes: usize = names.map(str::len).sum();
        if run.resources.len() > RESOURCES_MAX || bytes > NAMES_BYTES_MAX {
            let problem = format!(
                "one run takes at most {RESOURCES_MAX} resources, with names of at most \
                 {NAMES_BYTES_MAX} bytes together; these are {} with {bytes} bytes",
                run.resources.len()
            );
            return Err(definition.error(ErrorKind::TooManyValues, problem));
        }
    }
    Ok(cli)
}

/// Which command is meant, for a command line that could not be read.
fn command_in(arguments: &[OsString]) -> Option<String> {
    let definition = Cli::command();
    let own = arguments.iter().skip(1).take_while(|word| *word != "--");
    let mut words = own.filter_map(|word| word.to_str());
    let known = |word: &&str| definition.find_subcommand(word).is_some();
    words.find(known).map(str::to_owned)
}

/// Whether errors are wanted as JSON, for a command line that could not be read.
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

    fn run(text: &str) -> Run {
        let cli = parse(arguments(text))
            .map_err(|refusal| refusal.error)
            .unwrap();
        match cli.command {
            Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    fn kind(text: &str) -> ErrorKind {
        parse(arguments(text)).map(drop).unwrap_err().error.kind()
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mode_is_cut_at_the_last_equals_sign_only_if_one_follows() {
        let wanted = |text: &str| Wanted::parse(text.as_bytes());
        let read = wanted("map:a/b=read").unwrap();
        assert_eq!(
            (read.resource.as_str(), read.mode),
            ("map:a/b", Some(Mode::Read))
        );
        assert_eq!(wanted("x").unwrap().mode, None);
        assert!(wanted("x=y").is_err(), "a bare = is not allowed in an id");
        assert!(wanted("x=y=read").is_err());
        assert!(wanted("=read").is_err());
        assert_eq!(
            wanted("x%3Dread").unwrap().resource.as_str(),
            "name:x%3Dread"
        );
    }

    #[test]
    fn options_and_command_are_told_apart() {
        let run = run("tenure run -E 3 --wait 5s a b=read -- make --json -E 9");
        assert_eq!(run.busy_exit, 3);
        assert_eq!(run.wait, Some(Duration::from_secs(5)));
        assert_eq!(run.resources.len(), 2);
        assert_eq!(run.command, ["make", "--json", "-E", "9"]);
    }

    #[test]
    fn what_is_missing_or_malformed_is_a_usage_error() {
        assert_eq!(
            kind("tenure run -- true"),
            ErrorKind::MissingRequiredArgument
        );
        assert_eq!(kind("tenure run x"), ErrorKind::MissingRequiredArgument);
        assert_eq!(
            kind("tenure run x true"),
            ErrorKind::MissingRequiredArgument
        );
        assert_eq!(kind("tenure run X:y -- true"), ErrorKind::ValueValidation);
        assert_eq!(
            kind("tenure run --wait 5 x -- true"),
            ErrorKind::ValueValidation
        );
        assert_eq!(
            kind("tenure run --mode rw x -- true"),
            ErrorKind::InvalidValue
        );
        assert_eq!(
            kind("tenure run -E 256 x -- true"),
            ErrorKind::ValueValidation
        );
        assert_eq!(
            kind("tenure run --meta { x -- true"),
            ErrorKind::ValueValidation
        );
        assert_eq!(
            kind("tenure run --wait 1s --no-wait x -- true"),
            ErrorKind::ArgumentConflict
        );
    }

    #[test]
    fn a_word_that_is_no_mode_is_called_so() {
        for text in ["x=Write", "x=bad", "x="] {
            let problem = Wanted::parse(text.as_bytes()).unwrap_err();
            assert!(problem.starts_with("there is no mode"), "{problem}");
            assert!(problem.contains("read, write and upgradeable"), "{problem}");
            assert!(problem.contains("%3D"), "{problem}");
        }
    }

    #[test]
    fn a_wait_without_a_unit_is_told_which_to_write() {
        assert!(parse_wait("5").unwrap_err().contains("5s"));
        assert_eq!(parse_wait("5s"), Ok(Duration::from_secs(5)));
    }

    #[test]
    fn more_resources_than_can_be_passed_on_are_refused() {
        let line = |number: usize, name: &str| {
            let names: Vec<String> = (0..number).map(|i| format!("{name}{i}")).collect();
            format!("tenure run {} -- true", names.join(" "))
        };
        assert_eq!(
            run(&line(RESOURCES_MAX, "x")).resources.len(),
            RESOURCES_MAX
        );
        assert_eq!(
            kind(&line(RESOURCES_MAX + 1, "x")),
            ErrorKind::TooManyValues
        );
        assert_eq!(kind(&line(40, &"x".repeat(900))), ErrorKind::TooManyValues);
    }

    #[test]
    fn a_cursor_is_told_from_a_name() {
        assert!(parse_cursor("name:x l1").is_ok() && parse_cursor("1.").is_ok());
        assert!(parse_cursor("name:x").is_err() && parse_cursor("").is_err());
    }

    #[test]
    fn json_is_wanted_only_by_our_own_words() {
        assert!(wants_json(&arguments("tenure run --json")));
        assert!(!wants_json(&arguments("tenure run x -- make --json")));
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in Cli::command().get_subcommands_mut() {
            if command.get_name() != "help" && !command.is_hide_set() {
                let help = command.render_long_help().to_string();
                assert!(help.contains("Examples:"), "{help}");
            }
        }
    }

    #[test]
    fn the_overview_names_every_command() {
        let overview = Cli::command().render_long_help().to_string();
        for command in Cli::command().get_subcommands() {
            let line = format!("  {} ", command.get_name());
            assert_eq!(overview.contains(&line), !command.is_hide_set(), "{line}");
        }
    }
}
