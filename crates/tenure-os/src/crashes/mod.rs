//! Every crash of every protocol, on the simulated disk: a harness that a protocol is given to.
//!
//! | module | what it holds |
//! |---|---|
//! | `protocol` | what a protocol says about itself |
//! | `allowed` | the worlds that may be seen at some moment: the oracle |
//! | `scenario`, `run` | what a process does, step by step; one run of it |
//! | `enumerate` | every crash, every state it may leave, every crash of the recovery from that |
//! | `check` | a scenario with all its crashes, failures and removed syncs, and its figures |
//!
//! Each scenario also runs with every single sync ignored, and each time a violation must be found.
//! That shows both that the enumeration sees what it should and that every sync is needed.
//!
//! Documents, the ledger, the board and publish give their protocols to it, each in its `crashes`.

mod allowed;
mod check;
mod enumerate;
mod figures;
mod protocol;
mod run;
mod scenario;

pub use allowed::Allowed;
pub use check::{check, check_alike};
pub use figures::tell;
pub use protocol::{Protocol, Violation};
pub use run::Power;
pub use scenario::Scenario;
