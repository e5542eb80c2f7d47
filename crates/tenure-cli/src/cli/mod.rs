//! The words of the command line.
//!
//! | file | what it holds |
//! |---|---|
//! | `on_demand` | the words of a command, put together only if it is asked for |
//! | `values` | the readers of single values |
//! | `usage_error` | messages for a command line that cannot be read |

mod on_demand;
mod usage_error;
pub mod values;

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::board::{self, BoardCommand};
use crate::commands::{
    advisory, agent, audit, break_lease, check, completions, doc, doctor, downgrade, ledger, lock,
    ls, op, publish, recover, release, renew, run, schema, status, upgrade,
};
use crate::help;
use on_demand::OnDemand;
use tenure_api::text::Wanted;
use tenure_service::{NAMES_BYTES_MAX, RESOURCES_MAX};
pub use usage_error::UsageError;
pub use values::Slot;

/// The options of every command are shown after its own.
const LAST: usize = 100;

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
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The store: sqlite:PATH, postgres://… or file:DIR (default: as `tenure doctor` says)
    #[arg(long, global = true, value_name = "URL", display_order = LAST)]
    pub store: Option<String>,
    /// Print one JSON document on standard output, errors included
    #[arg(long, global = true, display_order = LAST + 1)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take locks, run a command under them, release them
    #[command(after_long_help = run::HELP)]
    Run(OnDemand<run::Run>),
    /// Take locks that outlive this command, and print their leases
    #[command(after_long_help = lock::HELP)]
    Lock(OnDemand<lock::Lock>),
    /// Give leases more time
    #[command(after_long_help = renew::HELP)]
    Renew(OnDemand<renew::Renew>),
    /// End leases
    #[command(after_long_help = release::HELP, visible_alias = "unlock")]
    Release(OnDemand<release::Release>),
    /// Make an upgradeable lease exclusive
    #[command(after_long_help = upgrade::HELP)]
    Upgrade(OnDemand<upgrade::Upgrade>),
    /// Make an upgraded lease upgradeable again
    #[command(after_long_help = downgrade::HELP)]
    Downgrade(OnDemand<downgrade::Downgrade>),
    /// Say whether a token is still good
    #[command(after_long_help = check::HELP)]
    Check(OnDemand<check::Check>),
    /// Show what is held and who waits, and why
    #[command(after_long_help = ls::HELP, visible_alias = "list")]
    Ls(OnDemand<ls::Ls>),
    /// End stale leases; always safe
    #[command(after_long_help = recover::HELP)]
    Recover(OnDemand<recover::Recover>),
    /// Take a lease away from its holder
    #[command(after_long_help = break_lease::HELP)]
    Break(OnDemand<break_lease::Break>),
    /// Show who did what to a lock, when and why
    #[command(after_long_help = audit::HELP)]
    Audit(OnDemand<audit::Audit>),
    /// PostgreSQL's own locks, which other programs take, too
    #[command(after_long_help = advisory::HELP)]
    Advisory {
        #[command(subcommand)]
        command: OnDemand<advisory::Advisory>,
    },
    /// Read, write, change and clean JSON documents that are never torn
    #[command(after_long_help = doc::HELP)]
    Doc {
        #[command(subcommand)]
        command: OnDemand<doc::Doc>,
    },
    /// Put a directory in place whole, and verify what is there
    #[command(after_long_help = publish::HELP)]
    Publish(OnDemand<publish::Publish>),
    /// Append events that are never lost, and claim nodes that one agent works on
    #[command(after_long_help = ledger::HELP)]
    Ledger {
        #[command(subcommand)]
        command: OnDemand<ledger::LedgerCommand>,
    },
    /// Issues that many agents create, change and claim at once
    #[command(after_long_help = board::HELP)]
    Board {
        #[command(subcommand)]
        command: OnDemand<BoardCommand>,
    },
    /// Show which operations there are, and which locks each needs
    #[command(after_long_help = op::HELP)]
    Op {
        #[command(subcommand)]
        command: OnDemand<op::Op>,
    },
    /// Coding agents: their hooks, what they do, and what tends them
    #[command(after_long_help = agent::HELP)]
    Agent {
        #[command(subcommand)]
        command: OnDemand<agent::Agent>,
    },
    /// Show agents, locks, slots and the board on one page
    #[command(after_long_help = status::HELP)]
    Status(OnDemand<status::Status>),
    /// Say which store is used and why, and prove that it locks
    #[command(after_long_help = doctor::HELP)]
    Doctor(OnDemand<doctor::Doctor>),
    /// Print the JSON schemas of what is asked and answered
    #[command(after_long_help = schema::HELP)]
    Schema(OnDemand<schema::Schema>),
    /// Print completions for a shell
    #[command(after_long_help = completions::HELP)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Reads the command line.
pub fn parse(arguments: Vec<OsString>) -> Result<Cli, UsageError> {
    parse_known(&arguments).map_err(|error| UsageError::new(error, &arguments))
}

fn parse_known(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    // `run` starts for every lock, and the words of the other commands are half the cost of reading
    // its own. Help and errors need all of them.
    if arguments.get(1).is_some_and(|word| word == "run")
        && let Ok(cli) = parse_with(run_alone(), arguments)
    {
        return Ok(cli);
    }
    parse_with(Cli::command(), arguments)
}

/// Returns the definition of `run`, without the other commands.
fn run_alone() -> clap::Command {
    let run = run::Run::augment_args(clap::Command::new("run"));
    Global::augment_args(clap::Command::new("tenure")).subcommand(run)
}

fn parse_with(definition: clap::Command, arguments: &[OsString]) -> Result<Cli, clap::Error> {
    // The process ends soon: taking the words apart again would only cost time.
    let mut definition = ManuallyDrop::new(definition);
    let mut matches = ManuallyDrop::new(definition.try_get_matches_from_mut(arguments)?);
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    let resources: &[Wanted] = match &cli.command {
        Command::Run(run) => &run.0.resources,
        Command::Lock(lock) => &lock.0.resources,
        _ => &[],
    };
    let names = resources.iter().map(|wanted| wanted.resource.as_str());
    let bytes: usize = names.map(str::len).sum();
    if resources.len() > RESOURCES_MAX || bytes > NAMES_BYTES_MAX {
        let problem = format!(
            "one run or lock takes at most {RESOURCES_MAX} resources, with names of at most \
             {NAMES_BYTES_MAX} bytes together; these are {} with {bytes} bytes",
            resources.len()
        );
        return Err(definition.error(ErrorKind::TooManyValues, problem));
    }
    Ok(cli)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn arguments(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn run(text: &str) -> run::Run {
        let cli = parse(arguments(text))
            .map_err(|usage_error| usage_error.error)
            .unwrap();
        match cli.command {
            Command::Run(run) => *run.0,
            other => panic!("{other:?}"),
        }
    }

    fn kind(text: &str) -> ErrorKind {
        parse(arguments(text)).map(drop).unwrap_err().error.kind()
    }

    #[test]
    fn the_help_of_a_command_begins_as_the_list_of_commands_says() {
        fn summaries(command: &clap::Command, above: &str, all: &mut Vec<(String, String)>) {
            for command in command.get_subcommands() {
                let name = format!("{above} {}", command.get_name());
                let about = command.get_about().map(ToString::to_string);
                all.push((name.clone(), about.unwrap_or_default()));
                summaries(command, &name, all);
            }
        }
        let (mut listed, mut built) = (Vec::new(), Vec::new());
        let mut command = Cli::command();
        summaries(&command, "", &mut listed);
        command.build();
        summaries(&command, "", &mut built);
        assert!(listed.len() > 20);
        for one in &listed {
            assert!(built.contains(one), "{one:?} is not among {built:#?}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
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
    fn a_slot_needs_no_resource_and_there_is_one_at_most() {
        let run = run("tenure run --slot build:2 -- make");
        assert_eq!(run.slot.unwrap().capacity, Some(2));
        assert!(run.resources.is_empty());
        assert_eq!(
            kind("tenure run --slot build:2 --slot test:1 -- make"),
            ErrorKind::ArgumentConflict
        );
    }

    #[test]
    fn what_is_missing_or_malformed_is_a_usage_error() {
        for line in [
            "tenure run -- true",
            "tenure run x",
            "tenure run x true",
            "tenure lock",
            "tenure renew",
            "tenure release",
            "tenure upgrade",
            "tenure check x",
            "tenure break l1",
            "tenure break --reason stuck",
        ] {
            assert_eq!(kind(line), ErrorKind::MissingRequiredArgument, "{line}");
        }
        for line in [
            "tenure run X:y -- true",
            "tenure run --wait 5 x -- true",
            "tenure run -E 256 x -- true",
            "tenure run --meta { x -- true",
            "tenure run --slot build:x -- true",
            "tenure lock --ttl 0s x",
            "tenure renew L1",
            "tenure check x seven",
            "tenure audit --since never",
        ] {
            assert_eq!(kind(line), ErrorKind::ValueValidation, "{line}");
        }
        assert_eq!(
            kind("tenure run --mode rw x -- true"),
            ErrorKind::InvalidValue
        );
        for line in [
            "tenure run --wait 1s --no-wait x -- true",
            "tenure lock --wait 1s --no-wait x",
            "tenure upgrade --wait 1s --no-wait l1",
        ] {
            assert_eq!(kind(line), ErrorKind::ArgumentConflict, "{line}");
        }
    }

    #[test]
    fn more_resources_than_can_be_passed_on_are_refused() {
        let names = |number: usize, name: &str| {
            let names: Vec<String> = (0..number).map(|i| format!("{name}{i}")).collect();
            names.join(" ")
        };
        let line = |number, name| format!("tenure run {} -- true", names(number, name));
        assert_eq!(
            run(&line(RESOURCES_MAX, "x")).resources.len(),
            RESOURCES_MAX
        );
        assert_eq!(
            kind(&line(RESOURCES_MAX + 1, "x")),
            ErrorKind::TooManyValues
        );
        assert_eq!(kind(&line(40, &"x".repeat(900))), ErrorKind::TooManyValues);
        let lock = format!("tenure lock {}", names(RESOURCES_MAX + 1, "x"));
        assert_eq!(kind(&lock), ErrorKind::TooManyValues);
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
    fn every_help_text_fits_a_terminal_of_80_columns() {
        let definition = Cli::command();
        for command in definition.get_subcommands().chain([&definition]) {
            let text = command.get_after_long_help().map(ToString::to_string);
            for line in text.unwrap_or_default().lines() {
                assert!(line.chars().count() <= 80, "{line:?}");
            }
        }
    }

    #[test]
    fn the_options_of_every_command_are_shown_after_its_own() {
        let mut definition = Cli::command();
        definition.build();
        for command in definition.get_subcommands_mut() {
            if command.get_name() == "help" {
                continue;
            }
            let page = command.render_long_help().to_string();
            let option = |line: &str| line.trim_start().split(' ').next().map(str::to_owned);
            let lines = page.lines().filter(|line| line.starts_with("      --"));
            let mut options: Vec<_> = lines.filter_map(option).collect();
            let last = options.split_off(options.len() - 2);
            assert_eq!(last, ["--store", "--json"], "{page}");
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
