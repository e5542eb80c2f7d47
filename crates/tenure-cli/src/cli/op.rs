//! The words of `op`.

use clap::{Args, Subcommand};

use super::values::parse_with;
use crate::help;

#[derive(Debug, Subcommand)]
pub enum Op {
    /// Show the operations that are known here
    #[command(after_long_help = help::OP_LS_LONG, visible_alias = "list")]
    Ls,
    /// Show which locks an operation needs, and why
    #[command(after_long_help = help::OP_SHOW_LONG)]
    Show(OpShow),
}

#[derive(Debug, Args)]
pub struct OpShow {
    /// The operation, such as map.calibrate
    #[arg(value_name = "OPERATION")]
    pub operation: String,
    /// What it is about, such as project=atlas; several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_with)]
    pub with: Vec<(String, String)>,
}
