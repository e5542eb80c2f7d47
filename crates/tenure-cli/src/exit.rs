//! The one table of exit codes.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tenure::Class;

/// Success.
pub const DONE: u8 = 0;
/// Any failure without a code of its own; `doctor` found problems.
pub const OTHER: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// Another holder has the lock; `-E` of `run` sets another code.
pub const BUSY: u8 = 75;
/// The lock was lost, or broken by a person, while the command ran or before it started.
pub const LOST: u8 = 79;
/// The command exists but cannot be executed; shells use this code, too.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist; shells use this code, too.
pub const COMMAND_NOT_FOUND: u8 = 127;
/// The base of the codes for signals: the number of the signal that ended the command is added.
pub const SIGNAL_BASE: i32 = 128;

/// Returns the code of a class of failures.
pub const fn code(class: Class) -> u8 {
    match class {
        Class::BadInput => 65,
        Class::NotFound => 66,
        Class::Unreachable | Class::Unknown => 69,
        Class::Internal => 70,
        Class::Busy => BUSY,
        Class::Conflict => 76,
        Class::NotAllowed => 77,
        Class::Configuration => 78,
        Class::Lost => LOST,
        Class::Interrupted => 130,
        _ => OTHER,
    }
}

/// Returns the code that passes on the end of a command.
pub fn of_command(status: ExitStatus) -> u8 {
    let code = match status.signal() {
        Some(number) => SIGNAL_BASE + number,
        None => status.code().unwrap_or(OTHER.into()),
    };
    u8::try_from(code).unwrap_or(OTHER)
}
