//! How the process begins.
//!
//! The standard library begins a program by reading `/proc/self/maps`, to tell where the stack of
//! its first thread ends: a sixth of all that `tenure run` does. So the C library calls this
//! `main` instead, which does the rest of it. A stack that overflows ends the process either way;
//! here nothing is said of it.

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::process::{ExitCode, exit};

use tenure_os::platform::{ignore, open_standard_streams};

/// The exit code of a program that panicked.
const PANICKED: c_int = 101;

/// Called by the C library, which has noted the arguments for the standard library.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    open_standard_streams();
    // A write to a pipe that nobody reads is an error, and not the end.
    ignore(libc::SIGPIPE);
    let code = catch_unwind(crate::main).map_or(PANICKED, number_of);
    // Writes out what is left of the standard output.
    exit(code)
}

/// Returns the number of a code, which the standard library does not tell.
fn number_of(code: ExitCode) -> c_int {
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code);
    number.map_or(PANICKED, c_int::from)
}

/// Returns a power. The only one that asks is the scheduler of several threads, which estimates how
/// long a task takes; without this, every start would load the library of mathematics for it.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    crate::power::power(base, exponent)
}
