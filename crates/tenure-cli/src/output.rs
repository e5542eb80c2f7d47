//! What commands print on standard output: one JSON document, or words for people.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::Failure;

/// Prints one document.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let document = serde_json::to_string(document);
    let document = document.expect("text, numbers and JSON values are always serialisable");
    text(&(document + "\n"))
}

/// Prints words as they are.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout();
    let written = output.write_all(text.as_bytes());
    written
        .and_then(|()| output.flush())
        .map_err(Failure::output)
}
