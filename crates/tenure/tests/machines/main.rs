//! Several machines and one PostgreSQL, with everything that can happen to a machine.
//!
//! A machine is a process of its own: this binary again, in a role of `roles`. It reaches the
//! database through a proxy of its own, which stops, resets and refuses as bad networks do.
//!
//! | module | what it holds |
//! |---|---|
//! | `histories` | three machines, 500 random histories with crash, pause and cut-off |
//! | `outage` | hundreds of leases run out at once while nobody reaches the database |
//! | `crowd` | 1,000 waiters on one resource |
//! | `restart` | the server is restarted under holders and waiters |
//! | `machine` | what a machine does in a history, and the `event_log` it keeps |
//! | `register` | what the locks of a history protect: a register that refuses old tokens |
//! | `faults` | what happens to a machine |
//! | `check` | what must be true of a history |
//! | `worker` | a process that holds and waits as it is told |
//! | `process`, `roles` | other processes |
//! | `dice`, `moment` | chance that can be repeated, and the one clock of this host |
//!
//! `TENURE_MACHINES_HISTORIES` raises the number of histories, `TENURE_MACHINES_SEED` repeats what
//! was drawn: the faults and the choices of the machines, but not what the scheduler made of them.

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
