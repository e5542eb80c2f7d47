//! The operating system, as the rest of Tenure sees it. Only the harness of tests reads an
//! environment variable.
//!
//! | module | what it holds |
//! |---|---|
//! | `blocking` | work that blocks inside a runtime (feature `tokio`) |
//! | [`clock`], [`machine`] | the one clock; which machine this is |
//! | [`disk`] | the calls that must survive a crash, on the real disk or a simulated one |
//! | [`replace`] | the one atomic replace |
//! | `crashes` | a harness that tries every crash of a protocol (feature `simulation`) |
//! | [`filesystem`] | where locks can be trusted |
//! | [`platform`] | the calls to the kernel that make locks, threads and signals |
//! | [`cancel`] | waits that are ended early |
//! | [`random`], [`retry`], [`look`] | random numbers; trying again; looking again |
//! | [`real_path`] | one path for each file |
//!
//! # Limitations
//!
//! Linux only.

#[cfg(feature = "tokio")]
pub mod blocking;
pub mod cancel;
pub mod clock;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod crashes;
pub mod disk;
pub mod filesystem;
pub mod look;
pub mod machine;
#[doc(hidden)]
pub mod platform;
pub mod random;
pub mod real_path;
pub mod replace;
pub mod retry;
