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

use std::path::Path;

pub use changed::{look, told};
pub use commands::{CommandRule, instead};
pub use edits::{EDIT_TTL, EditDecision, acquire, edited_files, release};

/// Returns a path as an agent is told it: what is no printable character in a file name is no line of the message.
pub fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.chars().map(|c| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    escaped.collect()
}
