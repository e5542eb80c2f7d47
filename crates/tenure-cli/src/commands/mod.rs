//! The commands, a file each: its arguments, its help, and its call of an operation.

pub mod advisory;
pub mod agent;
pub mod audit;
pub mod board;
pub mod break_lease;
pub mod check;
pub mod completions;
pub mod doc;
pub mod doctor;
pub mod downgrade;
pub mod findings;
pub mod ledger;
pub mod lock;
pub mod ls;
pub mod op;
pub mod publish;
pub mod recover;
pub mod release;
pub mod renew;
pub mod run;
pub mod schema;
mod several;
pub mod status;
pub mod supervise;
pub mod upgrade;
