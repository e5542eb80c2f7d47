//! Programs that run the command that is among their words.

use super::shell::{UNKNOWN, Word};

/// The place of `tenure run` in a command that such a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It goes before the program.
    Before,
    /// It goes after the program, which is a command of the shell, or ends before the command that
    /// it runs.
    After,
}

/// A program that runs a command, and the words that come before that.
struct Runner {
    name: &'static str,
    /// The number of the program's own words before the command, without options.
    own: usize,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    place: Place,
}

const fn runner(name: &'static str, own: usize, valued: &'static [&'static str]) -> Runner {
    Runner {
        name,
        own,
        valued,
        place: Place::Before,
    }
}

const fn behind(name: &'static str, valued: &'static [&'static str]) -> Runner {
    Runner {
        name,
        own: 0,
        valued,
        place: Place::After,
    }
}

const RUNNERS: [Runner; 27] = [
    behind("builtin", &[]),
    behind("command", &[]),
    behind("exec", &["-a"]),
    behind("nohup", &[]),
    behind("setsid", &[]),
    runner("caffeinate", 0, &["-t", "-w"]),
    runner("catchsegv", 0, &[]),
    runner("chronic", 0, &[]),
    runner("chrt", 1, &["-T", "-P", "-D"]),
    runner("doas", 0, &["-u", "-C"]),
    runner("env", 0, &["-u", "--unset", "-C", "--chdir"]),
    runner(
        "flock",
        1,
        &["-w", "--timeout", "-E", "--conflict-exit-code"],
    ),
    runner("ionice", 0, &["-c", "--class", "-n", "--classdata"]),
    runner("ltrace", 0, &["-o", "-e", "-n", "-s"]),
    runner("nice", 0, &["-n", "--adjustment"]),
    runner("numactl", 0, &["-N", "-m", "-C", "-i", "-p"]),
    runner("prlimit", 0, &[]),
    runner(
        "stdbuf",
        0,
        &["-i", "-o", "-e", "--input", "--output", "--error"],
    ),
    runner("strace", 0, &["-o", "-e", "-p", "-s", "-u", "-E"]),
    runner(
        "sudo",
        0,
        &[
            "-u", "-g", "-h", "-p", "-C", "-D", "-R", "-r", "-t", "-T", "-U",
        ],
    ),
    runner(
        "systemd-run",
        0,
        &["-u", "--unit", "-p", "--property", "-E", "--setenv"],
    ),
    runner("taskset", 1, &[]),
    runner("time", 0, &["-f", "--format", "-o", "--output"]),
    runner("timeout", 1, &["-k", "--kill-after", "-s", "--signal"]),
    runner("unbuffer", 0, &[]),
    runner("valgrind", 0, &[]),
    runner(
        "xargs",
        0,
        &[
            "-a",
            "--arg-file",
            "-d",
            "--delimiter",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--max-args",
            "--max-procs",
        ],
    ),
];

/// Returns the name of the program that a word calls.
pub fn program(word: &Word) -> &str {
    word.text.rsplit('/').next().unwrap_or_default()
}

/// The thing that a program runs.
pub enum Run<'a> {
    /// A command, which is the rest of the words.
    Words(&'a [Word], Place),
    /// A text that a shell reads.
    Script(&'a str),
    /// A text that is cut into words.
    Split(&'a str, &'a [Word]),
}

/// Returns the command or script that a command runs, if its words say so. `input` is the text that
/// it reads.
pub fn run_by<'a>(words: &'a [Word], input: Option<&'a str>) -> Option<Run<'a>> {
    let (first, rest) = words.split_first()?;
    match program(first) {
        "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" => {
            return script_of(rest)
                .or(input.filter(|_| reads_input(rest)))
                .map(Run::Script);
        }
        "find" | "fd" => {
            let is_run = |word: &Word| {
                ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X"].contains(&word.text.as_str())
            };
            let at = rest.iter().position(is_run)?;
            return Some(Run::Words(&rest[at + 1..], Place::Before));
        }
        // `command -v` only asks where a command is.
        "command" if rest.first().is_some_and(|word| word.text.starts_with('-')) => return None,
        _ => {}
    }
    let runner = RUNNERS
        .iter()
        .find(|runner| runner.name == program(first))?;
    let mut rest = rest;
    let mut own = runner.own;
    while let Some((word, after)) = rest.split_first() {
        let text = word.text.as_str();
        let is_setting = || ["env", "sudo", "doas"].contains(&runner.name) && is_setting(text);
        if runner.name == "env"
            && let Some(split) = split_of(text, after)
        {
            return Some(split);
        }
        if runner.name == "flock" && (text == "-c" || text == "--command") {
            return after.first().map(|script| Run::Script(&script.text));
        }
        if text == "--" || is_setting() || (text.starts_with('-') && own == runner.own) {
            let is_valued = runner.valued.contains(&text);
            rest = &after[usize::from(is_valued).min(after.len())..];
        } else if own > 0 {
            own -= 1;
            rest = after;
        } else {
            break;
        }
    }
    (!rest.is_empty()).then_some(Run::Words(rest, runner.place))
}

/// Returns the text and the words that `env -S` runs.
fn split_of<'a>(option: &'a str, after: &'a [Word]) -> Option<Run<'a>> {
    let attached = option.strip_prefix("--split-string=").or_else(|| {
        let attached = option.strip_prefix("-S").or(option.strip_prefix("-vS"))?;
        (!attached.is_empty()).then_some(attached)
    });
    match attached {
        Some(text) => Some(Run::Split(text, after)),
        None if ["-S", "-vS", "--split-string"].contains(&option) => {
            let (text, after) = after.split_first()?;
            Some(Run::Split(&text.text, after))
        }
        None => None,
    }
}

/// Returns true for a word that sets a variable, or may set one.
fn is_setting(text: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_set = |(name, _): (&str, &str)| !name.is_empty() && is_name(name);
    text.split_once('=').is_some_and(is_set) || text.chars().eq([UNKNOWN])
}

/// Returns the words of a shell after its options, and true if one of those is `-c`.
fn after_options(mut words: &[Word]) -> (&[Word], bool) {
    const VALUED: [&str; 6] = ["-o", "+o", "-O", "+O", "--rcfile", "--init-file"];
    let mut has_script = false;
    while let Some((word, after)) = words.split_first() {
        let text = word.text.as_str();
        if !text.starts_with(['-', '+']) {
            break;
        }
        has_script |= text.starts_with('-') && !text.starts_with("--") && text.contains('c');
        let is_valued = VALUED.contains(&text)
            || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('o'));
        words = &after[usize::from(is_valued).min(after.len())..];
    }
    (words, has_script)
}

fn script_of(words: &[Word]) -> Option<&str> {
    let (rest, has_script) = after_options(words);
    let script = rest.first().filter(|_| has_script);
    script.map(|script| script.text.as_str())
}

/// Returns true for a shell that reads its script from its input.
fn reads_input(words: &[Word]) -> bool {
    let (rest, has_script) = after_options(words);
    let is_asked = words.iter().any(|word| word.text == "-s");
    !has_script && (rest.is_empty() || is_asked)
}
