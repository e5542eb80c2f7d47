//! Documents in a world, and commands on them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::world::{DEADLINE, World, code, holds_within, text, until};

/// Raises the member `n` of a document.
pub const RAISE: [&str; 3] = ["--", "jq", ".n += 1"];

/// Writes a file as any program would.
pub fn put(world: &World, name: &str, content: &str) {
    fs::write(world.path(name), content).unwrap();
}

/// Returns the content of a file, without asking the command.
#[track_caller]
pub fn bytes(world: &World, name: &str) -> String {
    text(&fs::read(world.path(name)).unwrap())
}

/// Runs `tenure doc ARGUMENTS` to its end.
pub fn doc<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = world.tenure();
    command.arg("doc").args(arguments);
    Process::start(&mut command).end()
}

/// Runs `tenure doc ARGUMENTS`, which must succeed, and returns its output.
#[track_caller]
pub fn done<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> String {
    let output = doc(world, arguments);
    assert_eq!(code(&output), 0, "{output:?}");
    text(&output.stdout)
}

/// Returns the document as `doc read --json` prints it.
#[track_caller]
pub fn read(world: &World, name: &str) -> Value {
    let shown = done(world, ["read", "--json", name]);
    serde_json::from_str::<Value>(&shown).unwrap()["document"].clone()
}

#[track_caller]
pub fn version(world: &World, name: &str) -> String {
    let shown = done(world, ["read", "--json", name]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["version"].as_str().unwrap().to_owned()
}

/// Runs `tenure doc write ARGUMENTS` with this standard input.
pub fn write<'a>(
    world: &World,
    input: &[u8],
    arguments: impl IntoIterator<Item = &'a str>,
) -> Output {
    let given = tempfile::NamedTempFile::new().unwrap();
    fs::write(given.path(), input).unwrap();
    let mut command = world.tenure();
    command.args(["doc", "write"]).args(arguments);
    command.stdin(File::open(given.path()).unwrap());
    Process::start(&mut command).end()
}

/// Asserts that a command ended with this code and a message, and returns the message.
#[track_caller]
pub fn refused(output: &Output, expected: i32) -> String {
    assert_eq!(code(output), expected, "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.starts_with("tenure: "), "{said}");
    said
}

/// Returns every file and directory below a place, by its name and with its content. Lock files are
/// left out, as every holder changes their records.
pub fn everything(below: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_folder = fs::symlink_metadata(&path).unwrap().is_dir();
            if is_folder {
                folders.push(path.clone());
            }
            let is_lock = path.to_string_lossy().ends_with(".lock");
            if is_folder || !is_lock {
                let content = (!is_folder).then(|| fs::read(&path).unwrap());
                found.insert(path, content);
            }
        }
    }
    found
}

/// Returns the names in a directory, in order.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| text(entry.unwrap().file_name().as_encoded_bytes()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Asserts that nothing is beside these documents but their locks and notes.
#[track_caller]
pub fn assert_tidy(directory: &Path, documents: &[&str]) {
    let names = names(directory);
    let of = |document: &str, name: &str| {
        name == document
            || name == format!(".{document}.lock")
            || name == format!(".{document}.note")
    };
    let known = |name: &String| documents.iter().any(|document| of(document, name));
    let left: Vec<&String> = names.iter().filter(|name| !known(name)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A process in the background, with its output in files. It is killed if the test ends before it.
pub struct Process {
    child: Child,
    stdout: tempfile::NamedTempFile,
    stderr: tempfile::NamedTempFile,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let file = || tempfile::NamedTempFile::new().unwrap();
        let (stdout, stderr) = (file(), file());
        command.stdout(stdout.reopen().unwrap());
        command.stderr(stderr.reopen().unwrap());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Starts `tenure doc ARGUMENTS`.
    pub fn doc<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::start(world.tenure().arg("doc").args(arguments))
    }

    /// Starts a shell in the directory of the world; `$TENURE` is the command.
    pub fn shell(world: &World, script: &str) -> Self {
        let mut command = Command::new("sh");
        world.prepare(&mut command);
        Self::start(command.args(["-c", script]).stdin(Stdio::null()))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns what it has printed so far on stdout.
    pub fn printed(&self) -> String {
        text(&fs::read(self.stdout.path()).unwrap())
    }

    /// Returns what it has said so far on stderr.
    pub fn said(&self) -> String {
        text(&fs::read(self.stderr.path()).unwrap())
    }

    #[track_caller]
    pub fn until_said(&self, what: &str) {
        until(&format!("it says {what}"), || self.said().contains(what));
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn end(self) -> Output {
        self.end_within(DEADLINE)
    }

    #[track_caller]
    pub fn end_within(mut self, limit: Duration) -> Output {
        let ended = holds_within(limit, || self.is_over());
        assert!(ended, "it does not end within {limit:?}: {}", self.said());
        Output {
            status: self.child.wait().unwrap(),
            stdout: fs::read(self.stdout.path()).unwrap(),
            stderr: fs::read(self.stderr.path()).unwrap(),
        }
    }

    /// Closes the standard input of the process.
    pub fn close_input(&mut self) {
        self.child.stdin = None;
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
