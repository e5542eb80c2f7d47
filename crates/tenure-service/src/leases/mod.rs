//! The operations on locks.

mod acquire;
mod audit;
mod break_lease;
mod check;
mod find;
mod ls;
mod recover;
mod release;
mod renew;
mod upgrade;
