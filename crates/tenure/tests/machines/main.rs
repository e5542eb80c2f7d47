//! Several machines and one PostgreSQL, with every fault that can happen to a machine.
//!
//! A machine is a process of its own: this binary again, in a role of `roles`. It reaches the
//! database through a proxy of its own, which stops, resets and refuses as bad networks do.
//!
//! | module | what it holds |
//! |---|---|
//! | `histories` | three machines, 500 random histories with crash, pause and cut-off |
//! | `outage` | hundreds of leases run out at once while the database is out of reach |
//! | `crowd` | 1,000 waiters on one resource |
//! | `restart` | the server is restarted under holders and waiters |
//! | `machine` | the work of a machine in a history, and the `event_log` it keeps |
//! | `register` | the values that the locks of a history protect, which refuse old tokens |
//! | `faults` | the faults that happen to a machine |
//! | `check` | the conditions that a history must meet |
//! | `worker` | a process that holds and waits as it is told |
//! | `process`, `roles` | other processes |
//! | `dice`, `moment` | random choices that a seed repeats, and the one clock of this host |
//!
//! `TENURE_MACHINES_HISTORIES` raises the number of histories. `TENURE_MACHINES_SEED` repeats the
//! faults and the choices of the machines, but not what the scheduler made of them.

#![allow(
    clippy::unwrap_used,
    reason = "a test says by panicking what went wrong"
)]

mod check;
mod crowd;
mod dice;
mod event_log;
mod faults;
mod histories;
mod machine;
mod moment;
mod outage;
mod process;
mod register;
mod restart;
mod roles;
mod worker;
