//! `tenure schema`: the JSON schemas of requests and responses.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use tenure_api::operation::described;

use crate::cli::Global;
use crate::output;
use crate::report::Failure;

#[derive(Debug, Args)]
pub struct Schema {
    /// The schemas to print
    #[arg(value_enum)]
    pub of: Of,
}

/// Something that has schemas.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Of {
    /// Every operation: what it is asked, and what it answers
    Operations,
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure schema operations                    the names of all operations
  tenure schema operations --json | jq -r '.operations[].name'
  tenure schema operations --json |
    jq '.operations[] | select(.name == \"audit\").response'

What a command prints with --json is the response of its operation. The schemas
are JSON Schema, draft 2020-12. Fields are only ever added.";

/// Prints the schemas of all operations.
pub fn schema(global: &Global, options: Schema) -> Result<ExitCode, Failure> {
    let Of::Operations = options.of;
    let operations = described();
    let all = json!({ "operations": operations, "next": null });
    let names = operations.iter().map(|one| one.name.to_owned());
    output::answer(global.json, &all, || output::lines(names))
}
