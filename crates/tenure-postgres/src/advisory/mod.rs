//! PostgreSQL advisory locks, each on a dedicated connection, outside any transaction.
//!
//! | module | what it holds |
//! |---|---|
//! | `namespace`, `key` | what a lock is known by |
//! | `service` | the front door: locks and sessions |
//! | `acquire` | how a lock is taken, step by step |
//! | `guard`, `standing`, `probe` | a lock in hand, how far it can be trusted, and what proves it |
//! | `reentry` | what a session holds |
//! | `pool` | clean connections |
//! | `tokens` | fencing tokens, and what keeps them from going back |
//! | `sql` | every statement on a lock |
//! | `store` | resources and their modes on advisory locks |
//! | `monitor`, `since` | who holds and waits, and since when |

mod acquire;
mod guard;
mod key;
mod monitor;
mod namespace;
mod pool;
mod probe;
mod reentry;
mod service;
mod since;
mod sql;
mod standing;
mod store;
mod tokens;

pub use guard::Guard;
pub use key::{Key, name_to_i32, name_to_i64};
pub use monitor::{LockEntry, Locks};
pub use namespace::Namespace;
pub use service::{AdvisoryLocks, DEFAULT_WAIT, PoolState, Session, Settings};
pub use standing::GuardState;
pub use store::AdvisoryStore;

use tenure_core::Error;

/// Another session answered than was asked: something between us and the server shares them.
fn not_the_same(asked: i32, answered: i32) -> Error {
    crate::prove::shared(&format!(
        "session {asked} was asked, and {answered} answered"
    ))
}
