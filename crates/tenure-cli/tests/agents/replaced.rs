//! Shell lines, and the lines that a guard asks to run instead, under a real bash.
//!
//! A generator writes lines and counts the heavy commands in them. The programs are scripts that
//! print their arguments, and make a note if they run heavily without their slot; the script
//! `tenure` notes the slot and runs the command. So the checker knows nothing of how the guard
//! reads a line. A line that the guard replaces must print and return the same as before, and run
//! nothing heavy without its slot; a line that it leaves alone must contain nothing heavy.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use tenure_testkit::{campaign_end, tell};
use tenure_work::agents::guard::{CommandRule, instead};

use crate::world::text;

fn rules() -> Vec<CommandRule> {
    [
        ("cargo test|t", "build:2"),
        ("make", "build:2"),
        ("pytest", "build:2"),
        ("npm test", "js:1"),
    ]
    .map(|(command, slot)| CommandRule::new(command, slot))
    .to_vec()
}

const TENURE: &str = r#"#!/bin/bash
[[ $1 == run && $2 == --slot && $4 == -- ]] || { echo "called wrongly: $*"; exit 64; }
UNDER="$UNDER $3 "; export UNDER; shift 4; exec "$@"
"#;
const PROGRAM: &str = r#"#!/bin/bash
name=${0##*/}; slot=build:2; heavy=no
case "$name: $* " in make:*|pytest:*) heavy=yes ;; cargo:*" test "*|cargo:*" t "*) heavy=yes ;; npm:*" test "*) heavy=yes; slot=js:1 ;; esac
if [[ $heavy == yes && $UNDER != *" $slot "* ]]; then echo "$name $*" >> "$BARE"; fi
printf '%s' "$name"; printf ' <%s>' "$@"; printf ' A=%s\n' "$A"
if [[ ${*: -1} == - ]]; then cat; fi
if [[ " $* " == *" fail "* ]]; then exit 3; fi
"#;

/// A directory with the programs.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, script) in [
            ("tenure/tenure", TENURE),
            ("bin/make", PROGRAM),
            ("bin/pytest", PROGRAM),
            ("bin/cargo", PROGRAM),
            ("bin/npm", PROGRAM),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { directory }
    }

    /// Runs a line in a fresh directory. Returns its result, and the programs without their slot.
    fn run(&self, line: &str) -> (Output, String) {
        let work = tempfile::tempdir_in(self.directory.path()).unwrap();
        let bare = work.path().join("bare");
        let programs = self.directory.path().join("bin");
        let tenure = self.directory.path().join("tenure");
        let path = format!("{}:{}:/usr/bin", tenure.display(), programs.display());
        let mut bash = Command::new("/bin/bash");
        bash.args(["--norc", "--noprofile", "-c", line]);
        bash.env_clear()
            .env("PATH", path)
            .env("BARE", &bare)
            .env("TIMEFORMAT", "");
        bash.env("B", &programs).stdin(Stdio::null());
        let output = bash.current_dir(work.path()).output().unwrap();
        (output, fs::read_to_string(bare).unwrap_or_default())
    }
}

/// A generator of lines.
struct Lines {
    random: u64,
    /// The number of heavy commands in the line.
    heavy: u32,
    /// The number of names given so far: of files, functions, here-documents.
    names: u32,
    /// True inside of `$(…)`, where bash 5.2 itself reads here-documents and `time (` wrongly.
    has_no_documents: bool,
}

impl Lines {
    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len())]
    }

    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % end
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn line(&mut self) -> String {
        (self.heavy, self.names) = (0, 0);
        let depth = [0, 1, 2, 3][self.below(4)];
        self.list(depth)
    }

    /// Returns several commands in a row. A here-document ends a line.
    fn list(&mut self, depth: u32) -> String {
        let mut list = String::new();
        for _ in 0..=self.below(2) {
            if !list.is_empty() && !list.ends_with('\n') {
                list.push_str(self.pick(&["; ", "\n", " && ", " || ", " ;\n# don't make\n"]));
            }
            list.push_str(&self.command(depth));
        }
        list
    }

    /// Returns a list for the inside of a substitution.
    fn substituted(&mut self, depth: u32) -> String {
        let before = std::mem::replace(&mut self.has_no_documents, true);
        let list = self.closed(depth);
        self.has_no_documents = before;
        list
    }

    /// Returns a list that a keyword of the shell may follow.
    fn closed(&mut self, depth: u32) -> String {
        let list = self.list(depth);
        match list.ends_with('\n') {
            true => list,
            false => list + self.pick(&["; ", "\n"]),
        }
    }

    fn command(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(3) == 0 {
            return self.simple();
        }
        let depth = depth - 1;
        match self.below(20) {
            15 | 16 | 18 if self.has_no_documents => self.simple(),
            0 => format!(
                "if {}then {}else {}fi",
                self.closed(depth),
                self.closed(depth),
                self.closed(depth)
            ),
            1 => format!("for make in make x; do {}done", self.closed(depth)),
            2 => format!(
                "while {}false; do {}done",
                self.closed(0),
                self.closed(depth)
            ),
            3 => format!(
                "case make in {}x|make) {};; (*) {}esac",
                self.pick(&["", "a) ;; "]),
                self.closed(depth),
                self.closed(depth)
            ),
            4 => format!("( {})", self.closed(depth)),
            5 => format!(
                "{{ {}}} {}",
                self.closed(depth),
                self.pick(&["> out", "2>&1", ""])
            ),
            6 => format!(
                "{{ {}}} | {}",
                self.closed(depth),
                self.pick(&["cat", "tail -n 1", "tr a-z b-za"])
            ),
            7 => format!("{{ {{ {}}} & wait $!; }}", self.closed(depth)),
            8 => {
                let name = self.name();
                format!("{name}() {{ {}}}; {name} make", self.closed(depth))
            }
            9 => format!("echo \"make $( {}) make\"", self.substituted(depth)),
            10 => format!("A=$( {}) && echo \"$A\"", self.substituted(depth)),
            11 => {
                let inner = self.list(depth).replace('\\', "\\\\").replace('`', "\\`");
                format!("A=`{inner}`; echo \"${{A:-make}}\"")
            }
            12 => format!("cat <( {}echo end) -", self.substituted(depth)),
            13 => format!(
                "a=(make \"$( {})\"); echo \"${{a[1]}}\"",
                self.substituted(depth)
            ),
            14 => format!(
                "bash {}-c {}",
                self.pick(&["", "--norc ", "-e ", "-o pipefail "]),
                self.quoted(depth)
            ),
            15 => {
                let (script, name) = (self.closed(depth), self.name());
                let end = if script.ends_with('\n') { "" } else { "\n" };
                format!("bash <<'{name}'\n{script}{end}{name}\n")
            }
            16 => {
                let (inner, name) = (self.simple(), self.name());
                format!("cat <<{name} | cat\nmake $( {inner}) \\$(make) 'x\n{name}\n")
            }
            17 => format!(
                "[[ make == m* && ! ( -e make ) && x =~ ^(x|make)$ ]] && {}",
                self.command(depth)
            ),
            18 => format!("time {} 2> err", self.simple()),
            _ => format!("bash <<< {}", self.quoted(depth)),
        }
    }

    fn quoted(&mut self, depth: u32) -> String {
        format!("'{}'", self.list(depth).replace('\'', "'\\''"))
    }

    fn simple(&mut self) -> String {
        let assigned = self.pick(&[
            "",
            "",
            "",
            "A=1 ",
            "A=\"$(echo make)\" ",
            "A= PATH=$B:$PATH ",
            "PATH=$B:/usr/bin A=2 ",
        ]);
        let before = self.pick(&["", "", "", "> out ", "2>&1 ", "</dev/null "]);
        let after = self.pick(&[
            "",
            "",
            "",
            " 2>&1",
            " > out",
            " <<< make",
            " {fd}>out",
            " # make",
        ]);
        let after = if after.ends_with("make") && after.contains('#') {
            " #make\n"
        } else {
            after
        };
        if self.below(2) == 0 {
            let light = self.pick(&[
                "echo make",
                "cargo build",
                "cargo run tests",
                "true",
                "false",
                "printf '%s\\n' \"cargo test; make\"",
                "npm run build",
                "echo $((1<<4)) make",
                "echo ${make:-make}",
                "echo $'don\\'t'; : make",
                "command -v make >/dev/null",
                "type make >/dev/null",
                "echo a#make",
                "echo \\; make",
                "timeout 9 echo make",
                "cargo tests",
                "exit 4",
                "env echo make",
                "</dev/null xargs echo make",
            ]);
            return format!("{light}{after}");
        }
        self.heavy += 1;
        let mut command = self
            .pick(&[
                "make",
                "make -j4 all fail",
                "make -",
                "cargo test",
                "cargo t -- 'a b'",
                "cargo +x -Z y test",
                "npm test",
                "npm -s run test",
                "npm run -s test fail",
                "pytest -q",
                "\"$B/pytest\" x",
                "${B}/make fail",
                "ma\"ke\" \"$(echo make)\"",
                "\\make",
                "m'a'ke `echo make`",
                "$B/cargo test $((1<<2))",
            ])
            .to_owned();
        // After an assignment of `PATH`, these would look for tenure in the new path.
        let is_path_lost = assigned.starts_with("PATH");
        for _ in 0..self.below(3) {
            let name = self.name();
            command = match self.below(14) {
                0 => format!("env {command}"),
                1 => format!("/usr/bin/env -u X A=3 {command}"),
                2 => format!(
                    "timeout -k 5 {} {command}",
                    self.pick(&["60", "$((60))", "1m"])
                ),
                3 => format!("nice -n 1 {command}"),
                4 => format!("stdbuf -oL {command}"),
                5 => format!("flock {name} {command}"),
                6 => format!("taskset -c 0 {command}"),
                7 => format!("echo a b | xargs -d '\\n' {command}"),
                8 => format!("find . -maxdepth 0 -exec {command} {{}} \\;"),
                9 if !is_path_lost => format!("setsid -w {command}"),
                10 if !is_path_lost => format!("nohup {command}"),
                11 => format!("ionice -c 3 {command}"),
                12 => format!("env -S 'env A=4' {command}"),
                _ => format!("/usr/bin/timeout --signal=TERM 60 {command}"),
            };
            // The part before the pipe is a command of its own.
            if command.contains('|') {
                break;
            }
        }
        if command.contains('|') {
            return command + after;
        }
        match self.below(12) {
            0 | 1 if is_path_lost => format!("{before}{assigned}{command}{after}"),
            0 => format!("( {before}{assigned}exec {command}{after}\n)"),
            1 => format!("{before}{assigned}command {command}{after}"),
            _ => format!("{before}{assigned}{command}{after}"),
        }
    }
}

#[test]
fn a_line_that_is_replaced_does_the_same_and_runs_nothing_heavy_without_its_slot() {
    assert!(Path::new("/bin/bash").exists());
    let seed = std::env::var("TENURE_REPLACED_SEED").ok();
    let seed = seed.map_or_else(
        || RandomState::new().hash_one("seed"),
        |seed| seed.parse().unwrap(),
    );
    tell(format!("replaced commands: seed {seed}"));
    let (bench, rules, end) = (Bench::new(), rules(), campaign_end());
    let mut lines = Lines {
        random: seed | 1,
        heavy: 0,
        names: 0,
        has_no_documents: false,
    };
    let (mut read, mut replaced) = (0, 0);
    while Instant::now() < end {
        let line = lines.line();
        let problem = || format!("TENURE_REPLACED_SEED={seed}:\n{line}");
        let found = instead(&line, &rules).unwrap_or_else(|error| panic!("{error}: {}", problem()));
        assert_eq!(found.is_some(), lines.heavy > 0, "{}", problem());
        let (plain, bare) = bench.run(&line);
        let told = text(&plain.stderr);
        assert!(!told.contains("syntax error"), "{told}: {}", problem());
        read += 1;
        let Some((changed, _)) = found else {
            assert_eq!(bare, "", "{}", problem());
            continue;
        };
        replaced += 1;
        let (through, bare) = bench.run(&changed);
        assert_eq!(bare, "", "{}\ninstead:\n{changed}", problem());
        let seen = |output: &Output| (output.status.code(), text(&output.stdout));
        assert_eq!(
            seen(&through),
            seen(&plain),
            "{}\ninstead:\n{changed}",
            problem()
        );
        let again = instead(&changed, &rules).unwrap();
        assert_eq!(again.map(|(line, _)| line), None, "{}", problem());
    }
    assert!(replaced > 20, "of {read} lines {replaced} were replaced");
    tell(format!(
        "replaced commands: {read} lines, {replaced} replaced"
    ));
}
