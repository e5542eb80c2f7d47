//! Every crash of every protocol of the ledger, on the simulated disk.
//!
//! | module | what it holds |
//! |---|---|
//! | `protocol` | the ledger as the harness in `tenure_os::crashes` takes it |
//! | `appends`, `claims` | the scenarios |

mod appends;
mod claims;
mod protocol;
