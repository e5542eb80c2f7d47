//! Heavy commands, which go through a slot.
//!
//! A line of the shell is read by its grammar (`shell`). A simple command that begins with the
//! words of a rule is heavy, unless it runs under the slot of that rule already. The reader looks
//! through programs such as `timeout` and `env` before it, the scripts of `sh -c`, here-documents
//! that a shell reads, and `find -exec`: the table is in [`runners`](super::runners).
//!
//! The line to run instead has `tenure run --slot NAME:N --` before the whole simple command: after
//! the variables that are set for it, which then count for both, and before `timeout`, so that the
//! wait for the slot is not counted. Several slots are put around each other in their order.
//!
//! # Limitations
//!
//! A command is not recognised if `eval`, `trap`, an alias, a function, a variable or a script in a
//! file hides it, or a pipe gives it to a shell. A command with the name of a function that the
//! line makes is that function. A `tenure run` with another slot and locks gets the slot around it;
//! if that is against the order of the slots it says so, and the line has to be written with one
//! slot. After `exec`, `command`, `nohup` and `setsid` tenure is looked up in a `PATH` that is set
//! for them.

use super::runners::{Place, Run, program, run_by};
use super::shell::{self, Command, Script, UNKNOWN, Unreadable, Word};
use tenure::request::command_line;

/// A rule: the words that a heavy command begins with, and the slot it goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The words, such as `cargo` and `test|t`: each may be one of several.
    pub words: Vec<String>,
    /// The slot, such as `build:2`.
    pub slot: String,
}

impl CommandRule {
    /// Reads the words of a rule.
    pub fn new(command: &str, slot: &str) -> Self {
        Self {
            words: command.split_whitespace().map(str::to_owned).collect(),
            slot: slot.to_owned(),
        }
    }

    /// Returns the command as it is mostly written: with the first of each word's alternatives.
    pub fn shown(&self) -> String {
        let first = |word: &String| word.split('|').next().unwrap_or_default().to_owned();
        let words: Vec<String> = self.words.iter().map(first).collect();
        words.join(" ")
    }

    fn slot_name(&self) -> &str {
        self.slot.split(':').next().unwrap_or_default()
    }
}

/// The largest number of programs around a command, each run by the one before it.
const DEPTH_MAX: usize = 50;

/// The heavy commands of a simple command, and the place where `tenure run` goes.
struct Heavy<'a> {
    at: usize,
    /// True if the place is under a `tenure run` of the line.
    is_under_run: bool,
    rules: Vec<&'a CommandRule>,
}

/// Returns the line to run instead, with the rule that asks for it, or `None` if nothing in the
/// line is heavy.
///
/// # Errors
///
/// `Unreadable` for a line that is not understood: nothing in it is known then.
pub fn instead<'a>(
    line: &str,
    rules: &'a [CommandRule],
) -> Result<Option<(String, &'a CommandRule)>, Unreadable> {
    let script = shell::read(line)?;
    let mut changes: Vec<(usize, String)> = Vec::new();
    let mut first = None;
    for command in &script.commands {
        let Some(heavy) = heavy_command(command, &script, rules, &Around::default())? else {
            continue;
        };
        first = first.or(heavy.rules.first().copied());
        let run =
            |rule: &&CommandRule| format!("tenure run --slot {} -- ", command_line([&rule.slot]));
        let runs: String = heavy.rules.iter().map(run).collect();
        // tenure must not be looked up in a `PATH` that may not have it.
        let is_first = command
            .words
            .first()
            .is_some_and(|first| first.at == heavy.at);
        let first_assignment = command.assignments.first();
        let lost = first_assignment.filter(|_| is_first && loses_path(command));
        changes.push(match lost {
            Some(assignment) => (assignment.at, format!("{runs}env ")),
            None => (heavy.at, runs),
        });
    }
    let mut changed = line.to_owned();
    changes.sort();
    for (at, runs) in changes.iter().rev() {
        changed.insert_str(*at, runs);
    }
    Ok(first.map(|first| (changed, first)))
}

fn loses_path(command: &Command) -> bool {
    let mut assignments = command.assignments.iter();
    assignments.any(|it| it.text.starts_with("PATH=") && !it.text[1..].contains("PATH"))
}

/// The programs and slots that a command runs under.
#[derive(Default)]
struct Around<'a> {
    /// The slots that are held.
    slots: Vec<&'a str>,
    /// The number of programs around the command.
    depth: usize,
}

impl<'a> Around<'a> {
    /// Returns the surroundings with one more program, which may hold a slot.
    fn with(&self, slot: Option<&'a str>) -> Self {
        Self {
            slots: self.slots.iter().copied().chain(slot).collect(),
            depth: self.depth + 1,
        }
    }
}

/// Returns the heavy part of a command.
fn heavy_command<'a>(
    command: &Command,
    script: &Script,
    rules: &'a [CommandRule],
    around: &Around<'_>,
) -> Result<Option<Heavy<'a>>, Unreadable> {
    let first = command.words.first();
    if first.is_none_or(|first| script.functions.contains(&first.text)) {
        return Ok(None);
    }
    heavy_words(&command.words, command.input.as_deref(), rules, around)
}

fn heavy_words<'a>(
    words: &[Word],
    input: Option<&str>,
    rules: &'a [CommandRule],
    around: &Around<'_>,
) -> Result<Option<Heavy<'a>>, Unreadable> {
    let Some(first) = words.first() else {
        return Ok(None);
    };
    if around.depth > DEPTH_MAX {
        let problem = "more programs that run each other than are looked at";
        return Err(Unreadable::at(first.at, problem));
    }
    if program(first) == "tenure" {
        return heavy_under_run(words, input, rules, around);
    }
    let inside = around.with(None);
    let mut heavy = Heavy {
        at: first.at,
        is_under_run: false,
        rules: Vec::new(),
    };
    let fitting = rules.iter().filter(|rule| begins_with(words, &rule.words));
    let best = fitting.max_by_key(|rule| rule.words.len());
    heavy
        .rules
        .extend(best.filter(|rule| !is_held(rule, &around.slots)));
    match run_by(words, input) {
        Some(Run::Words(inner, place)) => {
            let inner = heavy_words(inner, input, rules, &inside)?;
            if let Some(inner) = &inner
                && (place == Place::After || inner.is_under_run)
            {
                (heavy.at, heavy.is_under_run) = (inner.at, inner.is_under_run);
            }
            heavy
                .rules
                .extend(inner.into_iter().flat_map(|inner| inner.rules));
        }
        Some(Run::Split(text, more)) => {
            let word = |text: &str| Word {
                at: first.at,
                text: text.to_owned(),
            };
            let split = text.split_whitespace().map(word);
            let split: Vec<Word> = split.chain(more.iter().cloned()).collect();
            let inner = heavy_words(&split, input, rules, &inside)?;
            heavy
                .rules
                .extend(inner.into_iter().flat_map(|inner| inner.rules));
        }
        Some(Run::Script(text)) => {
            let script = shell::read(text)?;
            for command in &script.commands {
                let inner = heavy_command(command, &script, rules, &inside)?;
                heavy
                    .rules
                    .extend(inner.into_iter().flat_map(|inner| inner.rules));
            }
        }
        None => {}
    }
    heavy.rules.sort_by_key(|rule| rule.slot_name());
    heavy.rules.dedup_by_key(|rule| rule.slot_name());
    Ok((!heavy.rules.is_empty()).then_some(heavy))
}

/// Returns the heavy part under a call of `tenure` that its slot does not cover.
fn heavy_under_run<'a>(
    words: &[Word],
    input: Option<&str>,
    rules: &'a [CommandRule],
    around: &Around<'_>,
) -> Result<Option<Heavy<'a>>, Unreadable> {
    let Some(end) = words.iter().position(|word| word.text == "--") else {
        return Ok(None);
    };
    let (own, command) = (&words[..end], &words[end + 1..]);
    let slot = own
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.text.as_str() {
            "--slot" => own.get(at + 1).map(|slot| slot.text.as_str()),
            text => text.strip_prefix("--slot="),
        });
    let Some(heavy) = heavy_words(command, input, rules, &around.with(slot))? else {
        return Ok(None);
    };
    // Inside of a pool a slot may be taken, but no pool inside of a slot.
    let is_pool = |word: &Word| word.text == "--pool" || word.text.starts_with("--pool=");
    let is_after = |slot: &str| heavy.rules[0].slot_name() > slot.split(':').next().unwrap_or(slot);
    Ok(Some(
        if slot.is_some_and(is_after) || own.iter().any(is_pool) {
            Heavy {
                is_under_run: true,
                ..heavy
            }
        } else {
            Heavy {
                at: words[0].at,
                ..heavy
            }
        },
    ))
}

/// Returns true if the slot of a rule is held, or may be.
fn is_held(rule: &CommandRule, held: &[&str]) -> bool {
    let places = |slot: &str| slot.split_once(':')?.1.parse::<u32>().ok();
    held.iter().any(|slot| {
        let name = slot.split(':').next().unwrap_or(slot);
        slot.contains(UNKNOWN)
            || name == rule.slot_name()
                && places(slot).is_none_or(|asked| Some(asked) <= places(&rule.slot))
    })
}

/// Programs whose words are targets, in any order.
const MAKERS: [&str; 6] = ["make", "gmake", "ninja", "just", "task", "rake"];
/// Programs whose `run NAME` is their `NAME`.
const SCRIPTED: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

/// The options whose value is the next word, for some programs and for all others.
const VALUED: [(&str, &[&str]); 10] = [
    (
        "cargo",
        &["-C", "-Z", "--color", "--config", "--manifest-path"],
    ),
    (
        "npm",
        &[
            "-C",
            "-w",
            "--loglevel",
            "--prefix",
            "--registry",
            "--userconfig",
            "--workspace",
        ],
    ),
    ("pnpm", &["-C", "-F", "--dir", "--filter", "--loglevel"]),
    ("yarn", &["--cwd"]),
    (
        "make",
        &[
            "-C",
            "-I",
            "-W",
            "-f",
            "-o",
            "--directory",
            "--file",
            "--include-dir",
            "--makefile",
        ],
    ),
    ("go", &["-C"]),
    (
        "gradle",
        &[
            "-I",
            "-b",
            "-c",
            "-g",
            "-p",
            "--build-file",
            "--project-dir",
        ],
    ),
    (
        "mvn",
        &["-P", "-f", "-gs", "-pl", "-s", "-t", "--file", "--projects"],
    ),
    ("git", &["-C", "-c", "--git-dir", "--work-tree"]),
    (
        "",
        &[
            "-C",
            "-I",
            "-f",
            "-p",
            "--chdir",
            "--color",
            "--config",
            "--directory",
            "--file",
            "--prefix",
        ],
    ),
];

/// Returns true if a command begins with these words. Options between the words do not count:
/// `cargo +nightly -q test`.
fn begins_with(command: &[Word], words: &[String]) -> bool {
    let (Some((program, mut rest)), Some((wanted, mut more))) = (
        command
            .split_first()
            .map(|(first, rest)| (program(first), rest)),
        words.split_first(),
    ) else {
        return false;
    };
    if !is_one_of(program, wanted) {
        return false;
    }
    let mut valued = VALUED
        .iter()
        .filter(|(name, _)| *name == program || name.is_empty());
    let valued = valued.next().map_or(&[][..], |(_, valued)| valued);
    let is_maker = MAKERS.contains(&program);
    while let Some((wanted, after)) = more.split_first() {
        let Some((word, behind)) = rest.split_first() else {
            return false;
        };
        let text = word.text.as_str();
        let is_skipped = is_maker
            || text.starts_with('+')
            || (SCRIPTED.contains(&program) && ["run", "run-script"].contains(&text));
        rest = behind;
        if is_one_of(text, wanted) {
            more = after;
        } else if text.starts_with('-') && text != "--" {
            rest = &behind[usize::from(valued.contains(&text)).min(behind.len())..];
        } else if !is_skipped {
            return false;
        }
    }
    true
}

fn is_one_of(word: &str, wanted: &str) -> bool {
    wanted.split('|').any(|wanted| wanted == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<CommandRule> {
        [
            ("cargo test|t", "build:2"),
            ("make", "build:2"),
            ("npm test", "js:1"),
            ("pytest", "build:2"),
            ("just lint|check", "build:2"),
        ]
        .map(|(command, slot)| CommandRule::new(command, slot))
        .to_vec()
    }

    fn changed(line: &str) -> Option<String> {
        let rules = rules();
        let instead = instead(line, &rules);
        let instead = instead.unwrap_or_else(|error| panic!("{line}: {error}"));
        instead.map(|(line, _)| line)
    }

    /// Asserts where `tenure run` goes: at each `@` for a build, at each `%` for a script of npm.
    #[track_caller]
    fn assert_changed(marked: &str) {
        let line = marked.replace(['@', '%'], "");
        let wanted = marked
            .replace('@', "tenure run --slot build:2 -- ")
            .replace('%', "tenure run --slot js:1 -- ");
        assert_eq!(changed(&line), Some(wanted), "{line}");
    }

    #[test]
    fn a_bare_call_is_sent_through_its_slot_and_the_rest_of_the_line_is_kept() {
        for marked in [
            "@cargo test",
            "@cargo test --all -- 'a b'",
            "cd x && RUST_LOG=debug @cargo test 2>&1 | tail",
            "@make; @make install",
            "if @make; then echo ok; fi",
            "if x; then y; elif @make; then z; fi",
            "while ! @make; do sleep 1; done; until @make; do :; done",
            "for d in a b; do (cd $d && @make) & done; wait",
            "case $x in a|b) @make ;; (*) @cargo t;; esac",
            "f() { @make -C \"$1\"; }; f x",
            "function f { @make; }; f",
            "[[ -e x && $x =~ ^(a|b)$ ]] && @make",
            "{ @make; } > log 2>&1",
            "time @make; time -p @make; ! @make",
            "echo $(@make)",
            "echo `@make` \"`@make a`\"",
            "OUT=\"$(@make 2>&1) make\" && echo \"$OUT\"",
            "a=(x $(@make))",
            "diff <(@make a) <(@make b)",
            "@make>log",
            "cat > notes.md <<'EOF'\nmake\nEOF\n@make",
            "cat <<EOF\nmake $(@make)\nEOF\n@make",
            "cat <<-A <<\\B | @make\n\tx\n\tA\ny\nB\n@make",
            "@/usr/bin/make",
            "@cargo +nightly -q test",
            "@cargo --manifest-path a/Cargo.toml test",
            "@make \\\n  -j4",
            "# it's a comment\n@make # don't",
            "@ma\"ke\" x; @\\make",
            "git commit -m \"$(cat <<'EOF'\nDon't make (this\ncargo test\nEOF\n)\" && @make",
            "python3 - <<'EOF'\nprint('make')\nEOF\n@make",
            "while read -r x; do @make \"${x#a}\" \"${a[0]}\" $#; done < <(ls *.{a,b}) &> /dev/null",
            "find . \\( -name a -o -name b \\) && [ -f x ] && @make",
        ] {
            assert_changed(marked);
        }
    }

    #[test]
    fn what_stands_around_a_heavy_command_does_not_hide_it() {
        for marked in [
            "CARGO_TARGET_DIR=\"$(pwd)/target\" @cargo test",
            "PATH=$(pwd)/bin:$PATH @cargo test",
            "@/usr/bin/env cargo test",
            "@/usr/bin/env -i -u X A=b $MORE cargo test",
            "@/usr/bin/timeout 60 cargo test",
            "@timeout -k 5 $T cargo test",
            "@ionice -c 3 nice -n 19 cargo test",
            "@taskset -c 0,1 cargo test",
            "@flock F cargo test",
            "@flock -w 5 F -c 'cargo test'",
            "@stdbuf -oL cargo test",
            "ls | @xargs -d '\\n' cargo test",
            "ls | @xargs make",
            "@env -S 'cargo test' -q",
            "@env '-Scargo test'",
            "@env -u FOO stdbuf -oL make",
            "@find . -name Makefile -exec make -f {} \\;",
            "> out.log @cargo test",
            "2>&1 >x A=1 <y @cargo test",
            "@bash --norc -c 'cargo test'",
            "@bash -lc 'cd x; cargo test'",
            "@bash -eo pipefail -c \"cargo test\"",
            "@bash <<'EOF'\ncargo test\nEOF",
            "@bash -s a <<< 'cargo test'",
            "@sh -c \"bash -c 'cargo test'\"",
            "echo $((1<<4)) && @make",
            "echo $'don\\'t' && @make",
            "$((echo a); @make)",
            "@cargo t",
            "@cargo -Z unstable-options test",
            "%npm -s test",
            "%npm run -s test",
            "%npm run test",
            "%npm -w app test",
            "%npm --prefix a run test",
            "@just --dry-run fmt check",
            "@sudo -u ana make install",
            "@sudo nohup make install",
            "exec @make",
            "nohup @timeout 5 make &",
            "setsid -w @make",
            "command @make",
            "@${VENV}/bin/pytest -q",
            "\"$VENV\"/bin/activate; @\"$VENV/bin/pytest\"",
        ] {
            assert_changed(marked);
        }
    }

    #[test]
    fn only_its_own_slot_satisfies_a_rule() {
        for line in [
            "tenure run --slot build:2 -- cargo test",
            "tenure run --slot=build -- cargo test",
            "tenure run -w 5s --slot build x -- timeout 5 cargo test",
            "timeout 9 tenure run --slot build:1 -- bash -c 'make; cargo test'",
            "tenure run --slot \"$SLOT\" -- make",
            "tenure ls; tenure run x -- true",
        ] {
            assert_eq!(changed(line), None, "{line}");
        }
        for marked in [
            "@tenure run --slot other:50 -- make",
            "@tenure run --slot build:50 -- make",
            "@tenure run lock -- make",
            "tenure run --slot a:1 -- @make",
            "tenure run --pool=z:1 -- @make",
            "timeout 5 tenure run --slot a:1 -- @make",
            "@%bash -c 'npm test; make'",
            "tenure run --slot build:2 -- %bash -c 'npm test; make'",
        ] {
            assert_changed(marked);
        }
    }

    #[test]
    fn a_path_that_is_set_does_not_hide_tenure() {
        let wanted = "tenure run --slot build:2 -- env PATH=/x A=1 make";
        assert_eq!(changed("PATH=/x A=1 make").as_deref(), Some(wanted));
    }

    #[test]
    fn what_only_mentions_a_heavy_command_is_left_alone() {
        for line in [
            "",
            " \n# make\n",
            "cargo build",
            "cargo testing",
            "cargo -q build test",
            "cargo run test",
            "echo cargo test",
            "echo 'x; make'",
            "git commit -m \"run cargo test; make\"",
            "grep make Makefile",
            "cat > notes.md <<'EOF'\ncargo test\nEOF",
            "cat <<-EOF > a && cat b\n\tmake\n\tEOF\nls",
            "cat <<< make",
            "echo \"$(date)make\"",
            "bash -lc 'echo make'",
            "bash make.sh",
            "bash x.sh <<< make",
            "echo x > make",
            "command -v make",
            "type make; which make",
            "case x in make) ;; x | make) echo;; esac",
            "cmds=(make lint)",
            "declare -a cmds=(make lint)",
            "${make}",
            "$((make+1)); ((make)); echo $((make<(make)))",
            "for make in a; do echo; done; for x in make; do echo; done",
            "make() { echo; }; make",
            "[[ make == make ]]; [[ ( make ) ]]",
            "make=1; make[2]+=3",
            "env make=1",
            "just build",
            "npm run build",
            "$CARGO test",
        ] {
            assert_eq!(changed(line), None, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_with_its_place() {
        for line in [
            "make 'x",
            "make \"x",
            "if make",
            "make )",
            "make; }",
            "cat <<EOF; $(cat <<X)\n",
            "ls @(a|b); make",
            "${ make; }",
            "bash -c 'make; )'",
            "echo `make 'x`",
            "a ;; make",
        ] {
            assert!(instead(line, &rules()).is_err(), "{line}");
        }
        let error = instead("ls; make )", &rules()).unwrap_err();
        assert_eq!(error.to_string(), "what no command begins with at byte 9");
        let many = "nice ".repeat(50_000) + "make";
        assert!(instead(&many, &rules()).is_err());
        for deep in ["$(", "((", "$((", "{ ", "if (", "\"${x:-", "a(){ "] {
            assert!(instead(&deep.repeat(20_000), &rules()).is_err(), "{deep}");
        }
    }

    #[test]
    fn a_line_that_was_changed_is_not_changed_again() {
        let once = changed("cd x && make | tee log").unwrap();
        assert_eq!(changed(&once), None);
    }
}
