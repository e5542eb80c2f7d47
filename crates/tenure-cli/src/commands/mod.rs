//! The commands, a file each: its arguments, its help, and what it calls.

pub mod agent;
pub mod audit;
pub mod break_lease;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod downgrade;
pub mod lock;
pub mod ls;
pub mod release;
pub mod renew;
mod several;
pub mod status;
pub mod upgrade;
