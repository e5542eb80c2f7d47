//! Heavy commands, which go through a slot.
//!
//! A line of the shell is cut into simple commands, as far as that is possible without running it. One that begins with the words of a rule
//! is heavy, unless it is a call of `tenure` already. Variables that are set for it, and programs such as `timeout` and `env` before it, are passed over.
//! The script of `sh -c` is read, too: the whole shell goes through the slot then. So does `sudo`, since root has slots of its own.
//!
//! # Limitations
//!
//! Not recognised is what `eval`, an alias, a function or a script hides, what stands in backquotes inside of quotes, and a command under a `tenure run` that
//! takes no slot.

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
        let (at, command) = without_prefix(&command);
        let script = script_of(command).and_then(|script| instead(script, rules));
        let in_script = script.map(|(_, rule)| rule);
        let mut rules = rules.iter();
        let rule = in_script.or_else(|| rules.find(|rule| begins_with(command, &rule.words)));
        heavy.extend(rule.map(|rule| (at, rule)));
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
        while let Some((option, after)) = rest.split_first().filter(|(word, _)| is_option(word)) {
            let is_valued = WITH_VALUE.contains(&option.text.as_str());
            rest = &after[usize::from(is_valued).min(after.len())..];
        }
        match rest.split_first() {
            Some((word, after)) if word.text == *wanted => rest = after,
            _ => return false,
        }
    }
    true
}

/// Options whose value is the next word.
const WITH_VALUE: [&str; 12] = [
    "--chdir",
    "--color",
    "--config",
    "--directory",
    "--manifest-path",
    "--prefix",
    "--signal",
    "-C",
    "-I",
    "-f",
    "-s",
    "-u",
];

/// Returns the script that a shell is given, as in `bash -lc SCRIPT`.
fn script_of(command: &[Word]) -> Option<&str> {
    let (shell, rest) = command.split_first()?;
    let shell = shell.text.rsplit('/').next()?;
    ["sh", "bash", "dash", "zsh"]
        .contains(&shell)
        .then_some(())?;
    let is_c = |word: &Word| word.text.starts_with('-') && word.text.ends_with('c');
    let at = rest.iter().position(is_c)?;
    rest.get(at + 1).map(|script| script.text.as_str())
}

/// Returns a command without the variables that are set for it, and without programs that only run another, and where `tenure run` goes.
fn without_prefix(mut command: &[Word]) -> (usize, &[Word]) {
    const RUNNERS: [&str; 11] = [
        "env", "time", "timeout", "nice", "nohup", "sudo", "command", "exec", "stdbuf", "xargs",
        "setsid",
    ];
    let mut sudo = None;
    while let Some((first, rest)) = command.split_first() {
        let is_setting = first.text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        let is_runner = RUNNERS.contains(&first.text.as_str());
        if !is_setting && !is_runner {
            break;
        }
        if first.text == "sudo" {
            sudo.get_or_insert(first.at);
        }
        command = rest;
        // The options of a runner, and the time of `timeout`.
        let is_number = |word: &Word| word.text.starts_with(|c: char| c.is_ascii_digit());
        while is_runner
            && let Some((word, after)) = command.split_first()
            && (word.text.starts_with('-') || is_number(word))
        {
            let is_valued = WITH_VALUE.contains(&word.text.as_str());
            command = &after[usize::from(is_valued).min(after.len())..];
        }
    }
    let first = command.first().map_or(0, |first| first.at);
    (sudo.unwrap_or(first), command)
}

/// Cuts a line of the shell into simple commands. Quotes are kept together; what is inside of `$(…)` and backquotes counts as commands,
/// too. The text of a here-document does not.
fn simple_commands(line: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    // The quote around each parenthesis that is open.
    let mut around: Vec<Option<char>> = Vec::new();
    let mut documents: Vec<String> = Vec::new();
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') | (None, '\\') => {
                if let Some((_, escaped)) = chars.next().filter(|(_, next)| *next != '\n') {
                    push(&mut word, at, escaped);
                }
            }
            (Some('"'), '$') if chars.next_if(|(_, next)| *next == '(').is_some() => {
                around.push(quote.take());
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
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
            (None, '<') if line[at..].starts_with("<<") && !line[at..].starts_with("<<<") => {
                end_word(&mut word, &mut commands);
                chars.next();
                documents.push(delimiter(&line[at + 2..]));
            }
            (None, '<' | '>') => end_word(&mut word, &mut commands),
            (None, ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}' | '`') => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
                match c {
                    '\n' if !documents.is_empty() => {
                        let end = after_documents(line, at + 1, &mut documents);
                        while chars.next_if(|(at, _)| *at < end).is_some() {}
                    }
                    '(' => around.push(None),
                    // What follows inside of the quote is no command.
                    ')' => {
                        quote = around.pop().flatten();
                        let text = "\"".to_owned();
                        word = quote.map(|_| Word { at, text });
                    }
                    _ => {}
                }
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
    const GRAMMAR: [&str; 8] = ["if", "then", "elif", "else", "do", "while", "until", "!"];
    for command in &mut commands {
        let own = command
            .iter()
            .take_while(|word| GRAMMAR.contains(&word.text.as_str()))
            .count();
        command.drain(..own);
    }
    commands
}

/// Returns the word that ends a here-document, from what follows `<<`.
fn delimiter(rest: &str) -> String {
    let rest = rest.trim_start_matches('-').trim_start_matches(' ');
    let end = rest.find(|c: char| c.is_whitespace() || ";&|<>()".contains(c));
    let word = &rest[..end.unwrap_or(rest.len())];
    word.chars().filter(|c| !"'\"\\".contains(*c)).collect()
}

/// Returns where the line goes on after here-documents that begin at `start`.
fn after_documents(line: &str, start: usize, documents: &mut Vec<String>) -> usize {
    let mut end = start;
    for delimiter in documents.drain(..) {
        for text in line[end..].split_inclusive('\n') {
            end += text.len();
            if text.trim_end_matches('\n').trim_start_matches('\t') == delimiter {
                break;
            }
        }
    }
    end
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
                "OUT=\"$(make 2>&1) make\" && echo \"$OUT\"",
                "OUT=\"$(tenure run --slot build:2 -- make 2>&1) make\" && echo \"$OUT\"",
            ),
            (
                "bash -lc 'cd x; cargo test'",
                "tenure run --slot build:2 -- bash -lc 'cd x; cargo test'",
            ),
            ("make>log", "tenure run --slot build:2 -- make>log"),
            (
                "cargo --manifest-path a/Cargo.toml test",
                "tenure run --slot build:2 -- cargo --manifest-path a/Cargo.toml test",
            ),
            (
                "env -u FOO stdbuf -oL make",
                "env -u FOO stdbuf -oL tenure run --slot build:2 -- make",
            ),
            (
                "ls | xargs make",
                "ls | xargs tenure run --slot build:2 -- make",
            ),
            (
                "if x; then y; elif make; then z; fi",
                "if x; then y; elif tenure run --slot build:2 -- make; then z; fi",
            ),
            (
                "sudo -u ana make install",
                "tenure run --slot build:2 -- sudo -u ana make install",
            ),
            (
                "cat > notes.md <<'EOF'\nmake\nEOF\nmake",
                "cat > notes.md <<'EOF'\nmake\nEOF\ntenure run --slot build:2 -- make",
            ),
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
            "cat > notes.md <<'EOF'\ncargo test\nEOF",
            "cat <<-EOF > a && cat b\n\tmake\n\tEOF\nls",
            "cat <<< make",
            "echo \"$(date)make\"",
            "bash -lc 'echo make'",
            "bash make.sh",
            "echo x > make",
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
