//! The words of a command, put together only if that command is the one asked for.
//!
//! `run` starts for every lock, and would otherwise spend a quarter of its own time on the words of
//! the other commands.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// The words of one command.
#[derive(Debug)]
pub struct OnDemand<T>(pub Box<T>);

impl<T: FromArgMatches> FromArgMatches for OnDemand<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|words| Self(Box::new(words)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|words| Self(Box::new(words)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for OnDemand<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(augment_args::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(T::augment_args_for_update)
    }
}

/// Adds the arguments of a command. Its summary stays the one in the list of commands; clap would
/// replace it by the comment on a group of arguments.
fn augment_args<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let command = T::augment_args(command);
    match about {
        None => command,
        Some(about) => command.about(about),
    }
}

impl<T: Subcommand> Subcommand for OnDemand<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(T::augment_subcommands)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(T::augment_subcommands_for_update)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}
