//! Heavy commands, which go through a slot.
//!
//! A line of the shell is cut into simple commands, as far as that is possible without running it. One that begins with the words of a rule
//! is heavy, unless it is a call of `tenure` already. Variables that are set for it, and programs such as `timeout` and `env` before it, are passed over.

/// A rule: what a heavy command begins with, and the slot it goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRule {
    /// The words, such as `cargo test`.
    pub words: Vec<String>,
    /// The slot, such as `build:2`.
    pub slot: String,
}

/// One word of a line, and where it begins.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    at: usize,
    text: String,
}

/// Returns the line to run instead, with the rule that asks for it, or `None` if nothing in the line is heavy.
pub fn instead<'a>(line: &str, rules: &'a [CommandRule]) -> Option<(String, &'a CommandRule)> {
    let mut heavy: Vec<(usize, &CommandRule)> = Vec::new();
    for command in simple_commands(line) {
        let command = without_prefix(&command);
        heavy.extend(rules.iter().find_map(|rule| {
            let first = command.first()?;
            begins_with(command, &rule.words).then_some((first.at, rule))
        }));
    }
    let (_, first) = *heavy.first()?;
    let mut changed = line.to_owned();
    for (at, rule) in heavy.into_iter().rev() {
        changed.insert_str(at, &format!("tenure run --slot {} -- ", rule.slot));
    }
    Some((changed, first))
}

/// Returns true if a command begins with these words. Options between them do not count: `cargo +nightly -q test`.
fn begins_with(command: &[Word], words: &[String]) -> bool {
    let Some((program, mut rest)) = command.split_first() else {
        return false;
    };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    let Some((wanted, more)) = words.split_first() else {
        return false;
    };
    if name != wanted {
        return false;
    }
    for wanted in more {
        let is_option = |word: &Word| word.text.starts_with(['-', '+']) && word.text != *wanted;
        while rest.first().is_some_and(is_option) {
            rest = &rest[1..];
        }
        match rest.split_first() {
            Some((word, after)) if word.text == *wanted => rest = after,
            _ => return false,
        }
    }
    true
}

/// Returns a command without the variables that are set for it, and without programs that only run another.
fn without_prefix(mut command: &[Word]) -> &[Word] {
    const RUNNERS: [&str; 8] = [
        "env", "time", "timeout", "nice", "nohup", "sudo", "command", "exec",
    ];
    while let Some((first, rest)) = command.split_first() {
        let is_setting = first.text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        let is_runner = RUNNERS.contains(&first.text.as_str());
        if !is_setting && !is_runner {
            break;
        }
        command = rest;
        // The options of a runner, and the time of `timeout`.
        let is_number = |word: &Word| word.text.starts_with(|c: char| c.is_ascii_digit());
        while is_runner
            && let Some((word, after)) = command.split_first()
            && (word.text.starts_with('-') || is_number(word))
        {
            command = after;
        }
    }
    command
}

/// Cuts a line of the shell into simple commands. Quotes are kept together; what is inside of `$(…)` and backquotes counts as commands,
/// too.
fn simple_commands(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') | (None, '\\') => {
                if let Some((_, escaped)) = chars.next().filter(|(_, next)| *next != '\n') {
                    push(&mut word, at, escaped);
                }
            }
            (Some(_), c) => push(&mut word, at, c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_with(|| Word {
                    at,
                    text: String::new(),
                });
            }
            // A comment goes to the end of the line.
            (None, '#') if word.is_none() => {
                while chars.next_if(|(_, next)| *next != '\n').is_some() {}
            }
            (None, ' ' | '\t') => end_word(&mut word, &mut commands),
            (None, ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}' | '`') => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, '$') if chars.peek().is_some_and(|(_, next)| *next == '(') => {
                end_word(&mut word, &mut commands);
            }
            (None, c) => push(&mut word, at, c),
        }
    }
    end_word(&mut word, &mut commands);
    commands.retain(|command| !command.is_empty());
    // Words of the shell's own grammar before a command.
    const GRAMMAR: [&str; 7] = ["if", "then", "else", "do", "while", "until", "!"];
    for command in &mut commands {
        let own = command
            .iter()
            .take_while(|word| GRAMMAR.contains(&word.text.as_str()))
            .count();
        command.drain(..own);
    }
    commands
}

fn end_word(word: &mut Option<Word>, commands: &mut [Vec<Word>]) {
    if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
        command.push(word);
    }
}

fn push(word: &mut Option<Word>, at: usize, c: char) {
    let new = || Word {
        at,
        text: String::new(),
    };
    word.get_or_insert_with(new).text.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<CommandRule> {
        let rule = |words: &str, slot: &str| CommandRule {
            words: words.split(' ').map(str::to_owned).collect(),
            slot: slot.to_owned(),
        };
        vec![rule("cargo test", "build:2"), rule("make", "build:2")]
    }

    fn changed(line: &str) -> Option<String> {
        instead(line, &rules()).map(|(line, _)| line)
    }

    #[test]
    fn a_bare_call_is_sent_through_its_slot_and_the_rest_of_the_line_is_kept() {
        for (line, wanted) in [
            ("cargo test", "tenure run --slot build:2 -- cargo test"),
            (
                "cargo test --all -- 'a b'",
                "tenure run --slot build:2 -- cargo test --all -- 'a b'",
            ),
            (
                "cd x && RUST_LOG=debug cargo test 2>&1 | tail",
                "cd x && RUST_LOG=debug tenure run --slot build:2 -- cargo test 2>&1 | tail",
            ),
            (
                "timeout 60 cargo +nightly -q test",
                "timeout 60 tenure run --slot build:2 -- cargo +nightly -q test",
            ),
            (
                "make; make install",
                "tenure run --slot build:2 -- make; tenure run --slot build:2 -- make install",
            ),
            (
                "if make; then echo ok; fi",
                "if tenure run --slot build:2 -- make; then echo ok; fi",
            ),
            ("echo $(make)", "echo $(tenure run --slot build:2 -- make)"),
            (
                "/usr/bin/make",
                "tenure run --slot build:2 -- /usr/bin/make",
            ),
        ] {
            assert_eq!(changed(line).as_deref(), Some(wanted), "{line}");
        }
    }

    #[test]
    fn what_only_mentions_a_heavy_command_is_left_alone() {
        for line in [
            "",
            "cargo build",
            "cargo testing",
            "echo cargo test",
            "echo 'x; make'",
            "git commit -m \"run cargo test; make\"",
            "# make",
            "tenure run --slot build:2 -- cargo test",
            "grep make Makefile",
        ] {
            assert_eq!(changed(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_that_was_changed_is_not_changed_again() {
        let once = changed("cd x && make | tee log").unwrap();
        assert_eq!(changed(&once), None);
    }
}
