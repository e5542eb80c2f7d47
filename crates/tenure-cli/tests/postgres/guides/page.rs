//! The commands of a page, and the output that it shows.

use std::path::{Path, PathBuf};

/// A page of the documentation.
pub struct Page {
    pub steps: Vec<Step>,
}

pub enum Step {
    /// A command that is run, and not shown to the reader.
    Hidden(String),
    /// A command that is shown, with its output.
    Shown {
        command: String,
        printed: Vec<String>,
    },
}

impl Page {
    pub fn read(name: &str) -> Page {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let (mut steps, mut in_block, mut skip) = (Vec::new(), false, false);
        for line in text.lines() {
            let hidden = line.strip_prefix("<!-- run: ");
            if let Some(hidden) = hidden {
                let command = hidden.strip_suffix(" -->").expect("a comment of one line");
                steps.push(Step::Hidden(command.to_owned()));
            } else if line == "<!-- not run -->" {
                skip = true;
            } else if line == "```console" {
                in_block = !skip;
                skip = false;
            } else if line.starts_with("```") {
                in_block = false;
            } else if in_block {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => steps.push(Step::Shown {
                        command: command.to_owned(),
                        printed: Vec::new(),
                    }),
                    (None, Some(Step::Shown { printed, .. })) => printed.push(line.to_owned()),
                    (None, _) => panic!("{name}: {line:?} follows no command"),
                }
            }
        }
        Page { steps }
    }
}

/// Returns the folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
