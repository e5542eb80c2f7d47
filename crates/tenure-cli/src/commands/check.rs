//! `tenure check`: checks whether a token is good.

use std::process::ExitCode;

use clap::Args;
use tenure::{Resource, Token};
use tenure_api::leases;

use crate::cli::Global;
use crate::cli::values::{bytes, parse_resource};
use crate::output;
use crate::report::Failure;
use crate::surface::Surface;

#[derive(Debug, Args)]
pub struct Check {
    /// What the token is of
    #[arg(value_parser = bytes(parse_resource))]
    pub resource: Resource,
    /// The token, as the lease has it
    pub token: Token,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure check deploy \"$token\" && ./publish
  tenure run x -- sh -c 'make && tenure check x \"$TENURE_TOKEN\" && make install'

A token is good while it is that of the newest exclusive grant of the resource,
released or not. What was only ever shared has the token 0. Between the check
and a write someone may still take over: where it counts, let what you write to
compare tokens itself.

Exit codes: 0 it is good; 66 nobody ever locked the resource in this store; 69
the store cannot be asked; 77 it is fenced, as someone else took over, or it was
never granted.";

/// Compares a token with that of the newest exclusive grant. Any other token is a failure.
pub fn check(global: &Global, options: Check) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller(None)?;
    let Check { resource, token } = options;
    let checked = surface.call(leases::Check { resource, token }, &caller)?;
    surface.answer(&checked, || {
        let (token, resource) = (checked.token, &checked.resource);
        output::text(&format!("token {token} of {resource} is good\n"))
    })
}
