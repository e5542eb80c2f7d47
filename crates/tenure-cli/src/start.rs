//! The beginning of the process.
//!
//! The standard library begins a program by reading `/proc/self/maps`, to tell where the stack of
//! its first thread ends: a sixth of all that `tenure run` does. Here the C library calls this
//! `main` instead, which does the rest of that beginning. A stack that overflows ends the process
//! either way, but here without a message.

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::process::{ExitCode, exit};

use tenure_os::platform::{ignore, open_standard_streams};

/// The exit code of a program that panicked.
const PANICKED: c_int = 101;

/// The C library calls this after it noted the arguments for the standard library.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    open_standard_streams();
    // A write to a closed pipe is an error, and does not end the process.
    ignore(libc::SIGPIPE);
    let code = catch_unwind(crate::main).map_or(PANICKED, number_of);
    // The rest of the standard output is written out.
    exit(code)
}

/// Returns the number of a code, which the standard library does not tell.
fn number_of(code: ExitCode) -> c_int {
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code);
    number.map_or(PANICKED, c_int::from)
}

/// Returns a power. Only the scheduler of several threads asks for one, to estimate how long a task
/// takes; without this, every start would load the library of mathematics for it.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    crate::power::power(base, exponent)
}
