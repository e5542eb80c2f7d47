//! Every crash of every operation of the board, on the simulated disk.
//!
//! | module | what it holds |
//! |---|---|
//! | `protocol` | the board as the harness in `tenure_os::crashes` takes it |
//! | `operations` | every operation, alone and with the syncs for many |
//! | `recovery` | the recovery after a loss of power, as the protocol itself |

mod operations;
mod protocol;
mod recovery;
