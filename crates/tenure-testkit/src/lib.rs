//! The conformance suite: tests that every store must pass.
//!
//! | module | what it holds |
//! |---|---|
//! | `conformance` | the suite: areas, each a file of cases whose names are claims |
//! | [`histories`] | random histories, compared step by step with a model that knows no store |
//! | [`mod@agent`] | a client that takes locks in a test: a child process, or a thread |
//! | [`stage`] | a fresh store, its agents, and proof that an agent waits |
//! | `budget` | the time that a test waits before it fails |
//! | `campaign` | the time that random operations beside kills go on |
//! | [`postgres`] | real servers: PostgreSQL, pgbouncer, and a proxy that injects network faults |
//! | [`fixture`] | the things that the crate of a store provides for its tests |
//!
//! # How a store is tested
//!
//! A store's crate has an integration test `conformance` with, at the root, [`agent!`] once and
//! [`conformance!`] in a module for each store. This gives one test for each area and one for
//! the histories, so that a failure names the area.
//!
//! # How the suite grows
//!
//! A case is a function in the file of its area and a line in that file's `CASES`. An area is
//! a file, a variant of [`Area`] and a line in [`conformance!`]; the compiler asks for the rest.
//! Cases are added and never weakened.
//!
//! # Rules
//!
//! - A case that waits for time to pass, a lease's or a person's, is marked slow: the slow cases of
//!   an area run at once. A case claims of more than half of its tries that something is done in
//!   time, and of every try that it is not done before its time.
//! - No test sleeps and hopes. The store's own list of waiters, or the kernel's, proves that an
//!   agent waits.
//! - A case that a store cannot do is skipped by [`Capabilities`](tenure::store::Capabilities), or by what
//!   [`Store::leases`](tenure::store::Store::leases) returns, and the skip is printed. Exclusion,
//!   timeouts, cancellation, re-entry, crash and listing are never skipped: a skip there panics.

#![allow(
    clippy::unwrap_used,
    reason = "this is test code: it fails by panicking"
)]

pub mod agent;
mod budget;
mod campaign;
mod conformance;
pub mod fixture;
pub mod histories;
pub mod kernel_locks;
pub mod postgres;
pub mod stage;

pub use campaign::campaign_end;
pub use conformance::{Area, conformance};
pub use fixture::{Fixture, Fresh};
pub use tenure_os::crashes::tell;

/// Makes a test of each area, and one of random histories, for the store of a fixture. [`agent!`]
/// must be at the root of that test binary.
#[macro_export]
macro_rules! conformance {
    ($fixture:expr) => {
        $crate::conformance!(@areas $fixture;
            exclusion Exclusion,
            sharing Sharing,
            fairness Fairness,
            upgrade Upgrade,
            timeouts Timeouts,
            cancellation Cancellation,
            reentry Reentry,
            order Order,
            tokens Tokens,
            crash Crash,
            listing Listing,
            leases Leases,
            recovery Recovery,
            breaking Breaking,
            audit Audit,
            keys Keys,
            offers Offers,
            slots Slots,
            records Records,
        );

        #[test]
        fn random_histories_agree_with_the_model() {
            $crate::histories::run(&$fixture);
        }
    };
    (@areas $fixture:expr; $($test:ident $area:ident,)*) => {
        // An area without a line above would never run.
        const _: () = assert!($crate::Area::ALL.len() == [$(stringify!($area)),*].len());
        $(
            #[test]
            fn $test() {
                $crate::conformance(&$fixture, $crate::Area::$area);
            }
        )*
    };
}

/// Makes the test that child processes run as; see [`agent::process`].
#[macro_export]
macro_rules! agent {
    () => {
        /// Starts itself as a child, and checks the answers of the child.
        #[test]
        fn an_agent_obeys_and_ends_with_its_input() {
            $crate::agent::process::play_or_prove();
        }
    };
}
