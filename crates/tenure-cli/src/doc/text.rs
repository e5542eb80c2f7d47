//! Documents as they are printed. With `--json` they are part of another document, on one line and token
//! for token: no number changes.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tenure_files::document::{Content, Version, on_one_line};

use crate::output::{self, word};
use crate::report::Failure;

/// `"version":"…","document":…`.
pub fn fields(content: &Content) -> Result<String, Failure> {
    let document = on_one_line(content.text()?);
    Ok(format!(
        "\"version\":\"{}\",\"document\":{document}",
        content.version()
    ))
}

/// `{"documents":[{"file":…,…}],"next":null}`, of the fields of each.
pub fn list<'a>(documents: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let one = |(file, fields): (&str, String)| {
        let file = serde_json::Value::from(file);
        format!("{{\"file\":{file},{fields}}}")
    };
    let documents: Vec<String> = documents.into_iter().map(one).collect();
    format!(
        "{{\"documents\":[{}],\"next\":null}}\n",
        documents.join(",")
    )
}

/// Returns the version of one, or of each of several, after a write.
pub fn written(files: &[&str], versions: &[Version], json: bool) -> String {
    match versions {
        versions if !json => versions
            .iter()
            .map(|version| format!("{version}\n"))
            .collect(),
        [version] => format!("{{\"version\":\"{version}\"}}\n"),
        versions => {
            let fields = versions
                .iter()
                .map(|version| format!("\"version\":\"{version}\""));
            list(files.iter().copied().zip(fields))
        }
    }
}

/// Prints the versions that were written. If they cannot be printed, a word says that they were written,
/// so that the command is not repeated.
pub fn tell_written(files: &[&Path], written: &str) -> Result<ExitCode, Failure> {
    match output::exact(written) {
        // A reader that went away does not need it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            let names = files.iter().map(|file| file.display().to_string());
            let names = names.collect::<Vec<_>>().join(", ");
            word(&format!("{names}: written; do not repeat it"));
            Err(failure)
        }
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_one_a_line_or_one_document() {
        let version = Version::of(b"");
        let digits = version.to_string();
        assert_eq!(written(&["a"], &[version], false), format!("{digits}\n"));
        let one: serde_json::Value =
            serde_json::from_str(&written(&["a"], &[version], true)).unwrap();
        assert_eq!(one, serde_json::json!({ "version": digits }));
        let two: serde_json::Value =
            serde_json::from_str(&written(&["a", "b"], &[version; 2], true)).unwrap();
        assert_eq!(two["documents"][1]["file"], "b");
        assert_eq!(two["documents"][0]["version"], digits);
        assert!(two["next"].is_null());
    }
}
