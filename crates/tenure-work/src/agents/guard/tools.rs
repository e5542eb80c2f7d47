//! Tools that edit files, and how they name them.
//!
//! A tool is known by its name without case and punctuation, whatever program has it. A tool of an
//! MCP server is known by the name after the server's: `mcp__filesystem__edit_file`.
//! `[guard.tools]` says for other tools, and against the table, whether they edit, and which field
//! names the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tenure_os::real_path::real_path;

use super::runners::{Run, program, run_by};
use super::shell;
use crate::agents::event::{HookEvent, plain};

/// The fields that may name a file, as programs differ in that.
const PATHS: [&str; 8] = [
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "target_file",
    "notebook_path",
    "target_notebook",
    "filename",
];
/// The fields with a text to write.
const TEXTS: [&str; 12] = [
    "content",
    "contents",
    "new_string",
    "newString",
    "new_str",
    "new_text",
    "newText",
    "file_text",
    "text",
    "edits",
    "code_edit",
    "diff",
];

/// A tool, the fields that name its files, and the values of `command` with which it only reads.
type Tool = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const TOOLS: [Tool; 22] = [
    ("create", &PATHS, &[]),
    ("createfile", &PATHS, &[]),
    ("delete", &PATHS, &[]),
    ("deletefile", &PATHS, &[]),
    ("edit", &PATHS, &[]),
    ("editfile", &PATHS, &[]),
    ("editnotebook", &["target_notebook"], &[]),
    ("inserteditintofile", &["filePath"], &[]),
    ("insert", &PATHS, &[]),
    ("movefile", &["source", "destination"], &[]),
    ("multiedit", &["file_path"], &[]),
    ("notebookedit", &["notebook_path"], &[]),
    ("replace", &["file_path", "absolute_path"], &[]),
    ("replacestringinfile", &["filePath"], &[]),
    ("searchreplace", &PATHS, &[]),
    ("strreplace", &PATHS, &[]),
    ("strreplacebasededittool", &["path"], &["view"]),
    ("strreplaceeditor", &["path"], &["view"]),
    ("texteditor", &["path"], &["view"]),
    ("write", &PATHS, &[]),
    ("writefile", &PATHS, &[]),
    ("writetofile", &PATHS, &[]),
];

/// The files that a tool is about to edit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// The paths of the files on this machine.
    pub files: Vec<PathBuf>,
    /// The field that names a file of an unknown tool, which has a text field besides: the tool may
    /// edit the file.
    pub unknown: Option<&'static str>,
}

/// Returns the files that a tool is about to edit. A path is relative to the directory of the
/// event, or else to `here`. `settings` has a word for each tool that is set: `edits FIELD` or
/// `reads`.
pub fn edits(event: &HookEvent, here: Option<&Path>, settings: &BTreeMap<String, String>) -> Edits {
    let directory = event.cwd().or_else(|| here.map(Path::to_owned));
    let input = event.tool_input();
    let tool = event.tool().unwrap_or_default();
    let mut found = Edits::default();
    let mut add = |directory: Option<&Path>, name: &str| {
        found.files.extend(real_path(directory, Path::new(name)));
    };
    let name = plain(after_server(tool));
    let known = TOOLS.iter().find(|(known, ..)| *known == name);
    if let Some(setting) = settings.get(tool) {
        let field = setting.strip_prefix("edits ").map(str::trim);
        let named = field.and_then(|field| text(&input, field));
        named
            .into_iter()
            .for_each(|name| add(directory.as_deref(), name));
    } else if name == "applypatch" {
        let patch = ["command", "input", "patch"]
            .iter()
            .find_map(|name| text(&input, name));
        let patch = patch.or(input.as_str()).unwrap_or_default();
        patched(patch).for_each(|name| add(directory.as_deref(), name));
    } else if let Some(line) = event.shell_command() {
        for (directory, patch) in patches(&line, directory.as_deref(), 0) {
            patched(&patch).for_each(|name| add(directory.as_deref(), name));
        }
    } else if let Some((_, fields, reading)) = known {
        let is_reading = text(&input, "command").is_some_and(|command| reading.contains(&command));
        let named = fields.iter().filter_map(|field| text(&input, field));
        named
            .filter(|_| !is_reading)
            .for_each(|name| add(directory.as_deref(), name));
    } else if TEXTS.iter().any(|field| input.get(*field).is_some()) {
        let named = PATHS.iter().find(|field| text(&input, field).is_some());
        found.unknown = named.copied();
    }
    found.files.sort();
    found.files.dedup();
    found
}

/// Returns the name of a tool without its server's name: `mcp__SERVER__TOOL`, `MCP:TOOL`,
/// `SERVER.TOOL`.
fn after_server(tool: &str) -> &str {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    name.rsplit([':', '.']).next().unwrap_or(name)
}

fn text<'a>(input: &'a Value, field: &str) -> Option<&'a str> {
    input.get(field).and_then(Value::as_str)
}

/// Returns the files that a patch names.
fn patched(patch: &str) -> impl Iterator<Item = &str> {
    const MARKS: [&str; 4] = [
        "*** Update File:",
        "*** Add File:",
        "*** Delete File:",
        "*** Move to:",
    ];
    let named = |line: &'_ str| -> Option<usize> {
        let mark = MARKS.iter().find(|mark| line.starts_with(**mark))?;
        Some(mark.len())
    };
    let lines = patch.lines().map(str::trim);
    lines.filter_map(move |line| named(line).map(|length| line[length..].trim_start()))
}

/// The largest number of scripts around one that is still looked at.
const SCRIPTS_MAX: usize = 10;

/// Returns the patches that a line of the shell gives to `apply_patch`, each with the directory
/// that the line is in by then. `depth` is the number of scripts around the line.
fn patches(line: &str, directory: Option<&Path>, depth: usize) -> Vec<(Option<PathBuf>, String)> {
    let mut directory = directory.map(Path::to_owned);
    if !line.contains("apply") || depth > SCRIPTS_MAX {
        return Vec::new();
    }
    let Ok(script) = shell::read(line) else {
        // A patch that is not quoted properly still names its files.
        return vec![(directory, line.to_owned())];
    };
    let mut patches = Vec::new();
    for command in &script.commands {
        let Some((first, rest)) = command.words.split_first() else {
            continue;
        };
        match (plain(program(first)).as_str(), rest.first()) {
            ("cd" | "pushd", Some(to)) if !to.text.contains(shell::UNKNOWN) => {
                let joined = directory.as_deref().unwrap_or(Path::new("")).join(&to.text);
                directory = Some(joined)
                    .filter(|joined| joined.is_absolute())
                    .or(directory);
            }
            ("applypatch", given) => {
                let patch = given
                    .map(|given| given.text.clone())
                    .or(command.input.clone());
                patches.extend(patch.map(|patch| (directory.clone(), patch)));
            }
            _ => {
                if let Some(Run::Script(script)) = run_by(&command.words, command.input.as_deref())
                {
                    patches.extend(self::patches(script, directory.as_deref(), depth + 1));
                }
            }
        }
    }
    patches
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn event(tool: &str, input: Value, cwd: Option<&Path>) -> HookEvent {
        let body = json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": cwd, "tool_name": tool, "tool_input": input});
        HookEvent::parse(body.to_string().as_bytes(), None, None).unwrap()
    }

    fn found(tool: &str, input: Value, cwd: &Path) -> Edits {
        edits(&event(tool, input, Some(cwd)), None, &BTreeMap::new())
    }

    fn files(tool: &str, input: Value, cwd: &Path) -> Vec<PathBuf> {
        found(tool, input, cwd).files
    }

    #[test]
    fn files_are_found_as_the_tool_will_find_them() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        fs::create_dir(here.join("real")).unwrap();
        fs::write(here.join("real/a"), "").unwrap();
        symlink("real", here.join("link")).unwrap();
        let of = |tool: &str, input: Value| files(tool, input, &here);
        let a = [here.join("real/a")];
        assert_eq!(of("Edit", json!({"file_path": here.join("link/a")})), a);
        assert_eq!(of("Write", json!({"file_path": "real/../link/a"})), a);
        assert_eq!(of("replace", json!({"file_path": "./link/a"})), a);
        let new = [here.join("real/new/b")];
        assert_eq!(
            of("NotebookEdit", json!({"notebook_path": "link/new/x/../b"})),
            new
        );
        symlink("new/b", here.join("real/dangling")).unwrap();
        assert_eq!(of("Write", json!({"file_path": "link/dangling"})), new);
        for (tool, field) in [
            ("StrReplace", "path"),
            ("EditNotebook", "target_notebook"),
            ("Delete", "path"),
            ("str_replace", "path"),
            ("insert", "path"),
            ("mcp__filesystem__edit_file", "path"),
            ("mcp__filesystem__write_file", "path"),
            ("MCP:write_file", "path"),
            ("str_replace_based_edit_tool", "path"),
            ("replace_string_in_file", "filePath"),
        ] {
            assert_eq!(of(tool, json!({ field: "real/a" })), a, "{tool}");
        }
        let both = of(
            "mcp__fs__move_file",
            json!({"source": "real/a", "destination": "real/b"}),
        );
        assert_eq!(both, [here.join("real/a"), here.join("real/b")]);
        assert!(of("Read", json!({"file_path": "real/a"})).is_empty());
        assert!(of("Bash", json!({"command": "rm real/a"})).is_empty());
        // Without a directory in the event the hook's directory counts.
        let relative = event("Edit", json!({"file_path": "real/a"}), None);
        assert_eq!(edits(&relative, Some(&here), &BTreeMap::new()).files, a);
    }

    #[test]
    fn a_look_at_a_file_is_no_edit() {
        for tool in ["str_replace_editor", "str_replace_based_edit_tool"] {
            let input = |command: &str| json!({"command": command, "path": "/a"});
            assert_eq!(found(tool, input("view"), Path::new("/")), Edits::default());
            assert_eq!(files(tool, input("create"), Path::new("/")).len(), 1);
        }
    }

    #[test]
    fn a_tool_that_is_not_known_is_asked_of_the_settings() {
        let input = json!({"path": "/a", "text": "x"});
        let put = event("mcp__notes__put", input, None);
        let of = |setting: &str| {
            let settings = [("mcp__notes__put".to_owned(), setting.to_owned())];
            edits(&put, None, &BTreeMap::from(settings))
        };
        let unsettled = edits(&put, None, &BTreeMap::new());
        assert_eq!(
            (unsettled.files.len(), unsettled.unknown),
            (0, Some("path"))
        );
        assert_eq!(of("edits path").files, [PathBuf::from("/a")]);
        assert_eq!(of("reads"), Edits::default());
        let search = found(
            "Grep",
            json!({"path": "/a", "pattern": "x"}),
            Path::new("/"),
        );
        assert_eq!(search, Edits::default());
    }

    #[test]
    fn a_patch_names_all_its_files_however_it_is_given() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Move to: c.rs\n  *** Add File: b.rs\n+*** Add File: no\n*** Delete File: d.rs \n*** End Patch\n";
        let wanted =
            |under: &str| ["a.rs", "b.rs", "c.rs", "d.rs"].map(|name| here.join(under).join(name));
        for input in [
            json!({"command": patch}),
            json!({"input": patch}),
            json!(patch),
        ] {
            assert_eq!(files("apply_patch", input, &here), wanted(""));
        }
        let words = json!({"command": ["apply_patch", patch]});
        assert_eq!(files("shell", words, &here), wanted(""));
        for (under, line) in [
            ("", format!(" apply_patch <<'EOF'\n{patch}EOF")),
            ("", format!("applypatch '{patch}'")),
            ("d", format!("cd d && apply_patch <<'EOF'\n{patch}EOF\n")),
            (
                "d/e",
                format!("cd d; (cd e; apply_patch <<EOF\n{patch}EOF\n)"),
            ),
            ("d", format!("bash -lc \"cd d && apply_patch '{patch}'\"")),
            ("", format!("apply_patch '{patch}")),
        ] {
            assert_eq!(
                files("Bash", json!({ "command": line }), &here),
                wanted(under),
                "{line}"
            );
        }
        let told = format!("cat <<'EOF'\n{patch}EOF\n");
        assert!(files("Bash", json!({ "command": told }), &here).is_empty());
    }
}
