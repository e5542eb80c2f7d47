//! One session of bash, in which a page is run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use super::normalise::{ids, normalise};
use crate::world::DEADLINE;

/// Functions for the hidden commands of a page.
const FUNCTIONS: &str = r#"
last=0
until_so() {
    for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done
    echo "in vain: $*"
    return 1
}
stop_background() { kill $(jobs -p) 2>/dev/null; wait; }
"#;

pub struct Shell {
    directory: TempDir,
    bash: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    commands: usize,
    /// The real id for each id that the page shows.
    ids: BTreeMap<String, String>,
}

impl Shell {
    pub fn start() -> Shell {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().canonicalize().unwrap();
        for name in ["atlas", "home", "printed"] {
            std::fs::create_dir(here.join(name)).unwrap();
        }
        let init = ["init", "--quiet"];
        let git = Command::new("git")
            .args(init)
            .arg(here.join("atlas"))
            .status();
        assert!(git.unwrap().success());
        let tenure = PathBuf::from(env!("CARGO_BIN_EXE_tenure"));
        let path = format!(
            "{}:{}",
            tenure.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        let mut bash = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["TENURE_", "GIT_", "XDG_"]
                .iter()
                .any(|ours| name.starts_with(ours))
            {
                bash.env_remove(name);
            }
        }
        bash.env("PATH", path)
            .env("HOME", here.join("home"))
            .env("TENURE_OWNER", "ana@desk")
            .current_dir(here.join("atlas"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut bash = bash.spawn().unwrap();
        let mut orders = bash.stdin.take().unwrap();
        let answers = BufReader::new(bash.stdout.take().unwrap());
        orders.write_all(FUNCTIONS.as_bytes()).unwrap();
        Shell {
            directory,
            bash,
            orders,
            answers,
            commands: 0,
            ids: BTreeMap::new(),
        }
    }

    /// Runs a command that the reader does not see, and that must succeed.
    pub fn hidden(&mut self, command: &str) {
        let file = self.run(command);
        let printed = std::fs::read_to_string(file).unwrap();
        assert!(!printed.contains("in vain"), "{command}: {printed}");
    }

    /// Runs a command of a page, and compares what it prints.
    pub fn shown(&mut self, page: &str, command: &str, expected: &[String]) {
        let mut real = command.to_owned();
        for (shown, id) in &self.ids {
            real = real.replace(shown, id);
        }
        let file = self.run(&real);
        let began = Instant::now();
        let printed = loop {
            let printed = std::fs::read_to_string(&file).unwrap();
            if !command.ends_with('&') {
                break printed;
            }
            // A command in the background prints at some time, and may print more later.
            let whole = printed
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let whole: Vec<&str> = whole.take(expected.len()).collect();
            if whole.len() == expected.len() || began.elapsed() > DEADLINE {
                break whole.concat();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let printed = self.as_on_the_page(&printed);
        let printed: Vec<&str> = printed.lines().collect();
        let words = |line: &str| normalise(line);
        assert_eq!(
            printed.iter().copied().map(words).collect::<Vec<_>>(),
            expected.iter().map(|line| words(line)).collect::<Vec<_>>(),
            "{page}: {command}\nprinted:\n{}\n",
            printed.join("\n")
        );
        for (shown, real) in expected.iter().zip(&printed) {
            for (shown, real) in ids(shown).into_iter().zip(ids(real)) {
                self.ids.insert(shown.to_owned(), real.to_owned());
            }
        }
    }

    /// Runs a command to its end, and returns the file with its output.
    fn run(&mut self, command: &str) -> PathBuf {
        self.commands += 1;
        let number = self.commands;
        let file = self
            .directory
            .path()
            .join("printed")
            .join(number.to_string());
        let order = format!(
            "{{ (exit $last)\n{command}\n}} >{} 2>&1 </dev/null; last=$?; echo done {number}\n",
            file.display()
        );
        self.orders.write_all(order.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim(), format!("done {number}"), "{command}");
        file
    }

    /// Returns the output, with the folders and the machine of the page.
    fn as_on_the_page(&self, printed: &str) -> String {
        let here = self.directory.path().canonicalize().unwrap();
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        printed
            .replace(&here.join("atlas").display().to_string(), "/srv/atlas")
            .replace(&here.join("home").display().to_string(), "/home/ana")
            .replace(&format!(" on {host}"), " on desk")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Commands in the background are told to end, and bash waits for them.
        drop(self.orders.write_all(b"stop_background; exit\n"));
        drop(self.bash.wait());
    }
}
