//! Guards: what is asked before a tool is used.
//!
//! A guard is a rule between honest programs. It sees what an agent's hooks tell it: the command lines and edits of its tools. It does not see
//! what a script does, and a program without hooks is not asked. Where a guard cannot decide, since the store is away or the lock of
//! the agent is not free, the tool goes on, and the agent's program is told.
//!
//! | module | what it holds |
//! |---|---|
//! | `commands` | heavy commands, which go through a slot |
//! | `edits` | files, which one agent edits at a time |
//! | `changed` | files of others that a command of the shell has changed |

mod changed;
mod commands;
mod edits;

pub use changed::{look, told};
pub use commands::{CommandRule, instead};
pub use edits::{EDIT_TTL, EditDecision, acquire, edited_files, release};
