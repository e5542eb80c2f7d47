//! Guards: what is asked before a tool is used.
//!
//! A guard is a rule between honest programs. It sees what an agent's hooks tell it: the command
//! lines and edits of its tools. It does not see what a script does, and a program without hooks is
//! not asked. Where a guard cannot decide, since the store is away or the lock of the agent is not
//! free, the tool goes on, and the agent's program is told, or the tool is refused: as it is set.
//!
//! | module | what it holds |
//! |---|---|
//! | `commands` | heavy commands, which go through a slot |
//! | [`shell`] | the grammar of the shell: the simple commands of a line |
//! | `runners` | programs that run the command that is among their words |
//! | `tools` | tools that edit files, and how they name them |
//! | `hold` | the files that an agent holds while it edits them |
//! | `changed` | files of others that a command of the shell has changed |

mod changed;
mod commands;
mod hold;
mod runners;
pub mod shell;
mod tools;

use std::path::Path;

pub use changed::{Snapshot, Watched, look, told};
pub use commands::{CommandRule, instead};
pub use hold::{ASKED_TTL, EDIT_TTL, EditDecision, Unheld, hold, unheld};
pub use tools::{Edits, edits};

/// Returns a path as an agent is told it: what is no printable character in a file name is no line
/// of the message.
pub fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.chars().map(|c| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    });
    escaped.collect()
}
