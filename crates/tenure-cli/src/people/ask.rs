//! Questions to people. They are asked on standard error, so that standard output stays clean.

use std::io::{self, BufRead, IsTerminal};

use crate::output;

/// Returns true if there is a terminal to ask on.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question. Returns true only for a plain yes.
pub fn is_confirmed(question: &str) -> io::Result<bool> {
    output::tell(question);
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("yes"))
}
