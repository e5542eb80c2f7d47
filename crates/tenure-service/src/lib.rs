//! Carries out what Tenure can do, for a caller.
//!
//! A surface (the command, a server, a program that speaks JSON over a pipe) opens one [`Service`],
//! says for each call who asks ([`Caller`]), and calls an operation of `tenure-api`:
//! `service.handle(NextIssue { … }, &caller).await`. Everything that is decided is decided here or
//! below.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | the stores, the settings and the places, opened once and shared |
//! | [`caller`] | who asks, and what ends the call early |
//! | [`observer`] | who is told what is waited for, and how far a copy is |
//! | [`handle`] | the trait that carries out an operation, and a call by its name |
//! | [`limit`] | how long a call waits in all |
//! | `opening` | the wait for a server that is away |
//! | [`around`] | the leases that are held around a call |
//! | `claim_notes` | the claims of coding agents, which their hooks renew |
//! | [`store_identity`] | whether two addresses name one store |
//! | [`file_path`] | the path of a file in a resource |
//! | [`waiting`] | waits that are told and can be cancelled, and what is in the way |
//! | [`run`] | what a command runs under: a slot and locks |
//! | [`advisory`] | PostgreSQL's own locks, and one that a command runs under |
//! | [`agents`], [`board`], [`doc`], `leases`, [`ledger`], `op`, `publish` | the operations; one that is longer than a call has a file |
//! | [`doctor`], `status` | whether all is well; everything on one page |
//!
//! # Invariants
//!
//! - Nothing here names a terminal, a flag or an exit code, reads the environment, prints, or ends
//!   the process.
//! - What a caller may do is asked here once, and in no surface.
//! - A call whose caller cancels it ends its waits and leaves neither lock nor waiter; what it had
//!   begun to write is finished and told.

pub mod advisory;
pub mod agents;
pub mod around;
pub mod board;
pub mod caller;
mod claim_notes;
pub mod doc;
pub mod doctor;
pub mod file_path;
pub mod handle;
mod leases;
pub mod ledger;
pub mod limit;
pub mod observer;
mod op;
mod opening;
mod publish;
pub mod run;
pub mod service;
mod status;
pub mod store_identity;
pub mod waiting;

pub use caller::Caller;
pub use handle::Handle;
pub use limit::Limit;
pub use observer::Observer;
pub use service::{Service, Surroundings};

/// The longest wait of an operation that sets none, unless the settings do.
pub const WAIT_DEFAULT: std::time::Duration = std::time::Duration::from_secs(5);
/// The kind of the resources that stand for slots.
pub const SLOT_KIND: &str = tenure_api::text::Slot::KIND;
/// More resources than this in one request are refused: a command could not be told of them.
pub const RESOURCES_MAX: usize = 256;
/// Longer names in all are refused, for the same reason.
pub const NAMES_BYTES_MAX: usize = 32 * 1024;
