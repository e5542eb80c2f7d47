//! The process of the coding agent around this one, as `/proc` shows it.
//!
//! A process is named by its id, the moment it began and the boot of the machine, as ids are used
//! again: no two processes have one name.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Interpreters whose first argument is the program.
const INTERPRETERS: [&str; 4] = ["node", "bun", "deno", "python3"];
/// The most ancestors that are looked at.
const ANCESTORS_MAX: usize = 64;

/// A process among the ancestors.
struct Process {
    id: u32,
    parent: u32,
    began: u64,
    name: String,
}

/// Returns the name of the agent's process around this one: `PID-START-BOOT`.
///
/// The agent is the nearest ancestor that has one of `names`, or that does not have the variable
/// `marker` itself, since an agent sets it for its children. A parent with the agent's name, such
/// as a launcher, is taken for it.
pub(super) fn agent(names: &[&str], marker: &str) -> String {
    let line: Vec<Process> = ancestors();
    let is_agent = |it: &Process| it.has_name(names) || !it.has_variable(marker);
    let nearest = line.iter().position(is_agent);
    let nearest = nearest.unwrap_or(line.len().saturating_sub(1));
    let above = line.iter().skip(nearest);
    let outermost = above.take_while(|it| it.has_name(names)).last();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: String = boot.chars().take(8).collect();
    match outermost.or(line.get(nearest)) {
        Some(agent) => format!("{}-{}-{boot}", agent.id, agent.began),
        // Without /proc only this process is known, so it stands for the agent.
        None => format!("{}-0-{boot}", std::process::id()),
    }
}

/// Returns the index of the program that is the nearest around this process, by the names of their
/// processes.
pub(super) fn nearest<'a>(programs: impl Iterator<Item = &'a [&'a str]>) -> Option<usize> {
    let programs: Vec<&[&str]> = programs.collect();
    ancestors()
        .iter()
        .find_map(|it| programs.iter().position(|names| it.has_name(names)))
}

/// Returns the ancestors of this process, nearest first.
fn ancestors() -> Vec<Process> {
    let mut line = Vec::new();
    let mut next = std::os::unix::process::parent_id();
    while let Some(process) = Process::read(next).filter(|_| line.len() < ANCESTORS_MAX) {
        next = process.parent;
        line.push(process);
    }
    line
}

impl Process {
    fn read(id: u32) -> Option<Self> {
        if id == 0 {
            return None;
        }
        Self::parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// Reads a line of `stat`. The name is in parentheses and may hold parentheses itself.
    fn parse(id: u32, stat: &str) -> Option<Self> {
        let (head, rest) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = rest.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let began = fields.nth(17)?.parse().ok()?;
        Some(Self {
            id,
            parent,
            began,
            name: name.to_owned(),
        })
    }

    /// Returns true if the process is one of these programs, run by itself or by an interpreter.
    fn has_name(&self, names: &[&str]) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).map(stem);
        let first = words.next().unwrap_or_default();
        let script = words.next().filter(|_| INTERPRETERS.contains(&&*first));
        let of = |name: &str| names.contains(&name);
        of(&self.name) || of(&first) || script.is_some_and(|script| of(&script))
    }

    /// Returns true if the process was started with this variable.
    fn has_variable(&self, name: &str) -> bool {
        let variables = fs::read(format!("/proc/{}/environ", self.id)).unwrap_or_default();
        let start = format!("{name}=");
        variables
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(start.as_bytes()))
    }
}

/// Returns the name of a program without its directory and ending.
fn stem(word: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt;
    let stem = Path::new(OsStr::from_bytes(word)).file_stem();
    stem.unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_parentheses_in_its_name_is_read() {
        let stat = "42 (a) (b)) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0 0";
        let process = Process::parse(42, stat).unwrap();
        assert_eq!((process.parent, process.began), (7, 123_456));
        assert_eq!(process.name, "a) (b)");
    }

    #[test]
    fn a_program_is_known_by_its_file_without_directory_and_ending() {
        assert_eq!(stem(b"/usr/lib/node_modules/.bin/codex.js"), "codex");
        assert_eq!(stem(b""), "");
    }
}
