//! PostgreSQL advisory locks, each on a dedicated connection, outside any transaction. Programs
//! begin with [`AdvisoryLocks::open`].
//!
//! | module | what it holds |
//! |---|---|
//! | `key` | the keys of locks |
//! | `service` | locks and sessions, the entry for programs |
//! | `acquire` | the steps of taking a lock |
//! | `guard`, `liveness`, `probe` | a lock that is held, the trust in it, and its proof |
//! | `reentry`, `scope` | the keys that a session holds; calls that share a session without handing it on |
//! | `pool` | clean connections |
//! | `tokens` | fencing tokens, and the proof that they have not gone back |
//! | `sql` | every statement on a lock |
//! | `monitor`, `since` | holders and waiters, with their times |

mod acquire;
mod guard;
mod key;
mod liveness;
mod monitor;
mod pool;
mod probe;
mod reentry;
mod scope;
mod service;
mod since;
mod sql;
mod tokens;

pub use guard::Guard;
pub use key::{Key, name_to_i32};
pub use liveness::GuardState;
pub use monitor::Locks;
pub use service::{AdvisoryLocks, DEFAULT_WAIT, NamespaceLocks, PoolState, Session, Settings};
pub use tenure_core::advisory::{LockEntry, Namespace};
