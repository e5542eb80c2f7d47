//! Carries out the operations of Tenure, for a caller.
//!
//! A surface (the command, a server, a program that speaks JSON over a pipe) opens one [`Service`],
//! makes a [`Caller`] for each call, and calls an operation of `tenure-api`:
//! `service.handle(NextIssue { … }, &caller).await`. All decisions are made here or below.
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
//! - The rights of a caller are checked here, once, and in no surface.
//! - A call that its caller cancels ends its waits and leaves neither lock nor waiter. A write that
//!   had begun is finished, and its outcome is told.

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

/// The longest wait of an operation if neither the request nor the settings say another.
pub const WAIT_DEFAULT: std::time::Duration = std::time::Duration::from_secs(5);
/// The kind of the resources that stand for slots.
pub const SLOT_KIND: &str = tenure_api::text::Slot::KIND;
/// The largest number of resources in one request: a command could not be told of more.
pub const RESOURCES_MAX: usize = 256;
/// The largest size of all names in one request together, in bytes, for the same reason.
pub const NAMES_BYTES_MAX: usize = 32 * 1024;
