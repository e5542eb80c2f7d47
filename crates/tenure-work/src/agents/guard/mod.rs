//! Guards: checks before a tool is used.
//!
//! A guard is a rule between honest programs. It sees the command lines and edits of an agent's
//! tools, as the agent's hooks report them. It does not see the effects of a script, and does not
//! check programs without hooks. If a guard cannot decide, since the store is away or the lock of
//! the agent is not free, a setting says what happens: the tool goes on, and the agent's program is
//! told; or the tool is refused.
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

/// Returns a path as an agent is told it. Characters that cannot be printed are escaped, so that a
/// file name adds no line to the message.
pub fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escaped = path.chars().map(|c| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    });
    escaped.collect()
}
