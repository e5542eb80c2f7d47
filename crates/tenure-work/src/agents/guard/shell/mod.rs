//! The grammar of the shell: the simple commands of a line, wherever they are in it.
//!
//! A line is read by the grammar of POSIX and the words of bash, and never run. The reader finds
//! simple commands: in lists, pipelines, loops, conditions, functions, subshells, and in the
//! substitutions of any word, also inside of quotes, backquotes, arithmetic and here-documents.
//! Each command has the places where its words begin, so that text can be put before them.
//!
//! | file | reads |
//! |---|---|
//! | `list` | lists, pipelines, compound commands |
//! | `simple` | simple commands: words, assignments, redirections, here-documents |
//! | `word` | words: quotes, expansions, substitutions |
//!
//! A text that the grammar does not allow is an error with its place. Nothing is guessed: a line
//! that cannot be read has no commands.
//!
//! # Limitations
//!
//! Patterns such as `@(a|b)`, which are off in scripts unless turned on, are read in `[[ … ]]`
//! alone. `${ command; }` of bash 5.3 is refused. A list in braces, `a{b,c}`, is one word.

mod list;
mod simple;
mod word;

use std::cell::Cell;
use std::fmt;

/// Stands in the text of a word for an expansion, whose value is known only when the line runs.
pub const UNKNOWN: char = '\0';
/// The longest line that is read, in bytes. The kernel passes on at most half of that as one
/// argument.
const LINE_BYTES_MAX: usize = 256 << 10;
/// The deepest nesting that is read.
const DEPTH_MAX: usize = 100;
/// The number of times that each byte of a line may be looked at: `((` may be tried in two ways.
const LOOKS_MAX: usize = 50;

/// A word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The place in the line where the word begins.
    pub at: usize,
    /// The word without its quotes, and with [`UNKNOWN`] in place of expansions.
    pub text: String,
}

/// A simple command of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The words, without assignments and redirections.
    pub words: Vec<Word>,
    /// The variables that are set for it, as they are written.
    pub assignments: Vec<Word>,
    /// The text on its standard input, if that is in the line.
    pub input: Option<String>,
    /// The here-document that becomes its input.
    document: Option<usize>,
}

/// The commands of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The simple commands, in the order of their places.
    pub commands: Vec<Command>,
    /// The names of the functions that the line makes.
    pub functions: Vec<String>,
    documents: Vec<String>,
}

/// The reason why a line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    at: usize,
    problem: &'static str,
}

impl Unreadable {
    /// Returns the error for a line that is not understood for another reason than its grammar.
    pub fn at(at: usize, problem: &'static str) -> Self {
        Self { at, problem }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.problem, self.at)
    }
}

type Read<T> = Result<T, Unreadable>;

/// Reads a command line, which may span several lines of text.
///
/// # Errors
///
/// `Unreadable` for a text that is no line of the shell, as far as the grammar is known here.
pub fn read(line: &str) -> Read<Script> {
    Reader::new(line, 0, line.len() * LOOKS_MAX + 1).script()
}

/// A position in a line, and the commands that were found before it.
struct Reader<'a> {
    line: &'a str,
    at: usize,
    /// The end of the text that is read now: the line, or a here-document.
    end: usize,
    depth: usize,
    looks_left: Cell<usize>,
    found: Script,
    pending: Vec<PendingDocument>,
}

/// A here-document whose text begins after the next newline.
#[derive(Clone)]
struct PendingDocument {
    delimiter: String,
    has_tabs_stripped: bool,
    is_literal: bool,
    number: usize,
}

impl<'a> Reader<'a> {
    fn new(line: &'a str, depth: usize, looks: usize) -> Self {
        Self {
            line,
            at: 0,
            end: line.len(),
            depth,
            looks_left: Cell::new(looks),
            found: Script::default(),
            pending: Vec::new(),
        }
    }

    fn script(&mut self) -> Read<Script> {
        if self.line.len() > LINE_BYTES_MAX {
            return Err(self.problem("the line is too long"));
        }
        self.list(&[])?;
        if self.at < self.end {
            return Err(self.problem("what no command begins with"));
        }
        if !self.pending.is_empty() {
            return Err(self.problem("a here-document without text"));
        }
        let mut script = std::mem::take(&mut self.found);
        for command in &mut script.commands {
            let document = command.document.take();
            let text = document.and_then(|number| script.documents.get(number).cloned());
            command.input = text.or(command.input.take());
        }
        script.commands.sort_by_key(Command::at);
        Ok(script)
    }

    fn problem(&self, problem: &'static str) -> Unreadable {
        let problem = match self.looks_left.get() {
            0 => "the line is too intricate",
            _ => problem,
        };
        Unreadable {
            at: self.at,
            problem,
        }
    }

    /// Returns the next byte. Returns none once the line was looked at too often.
    fn peek(&self) -> Option<u8> {
        let left = self.looks_left.get().saturating_sub(1);
        self.looks_left.set(left);
        let byte = self.line.as_bytes().get(self.at).copied();
        byte.filter(|_| self.at < self.end && left > 0)
    }

    fn starts_with(&self, text: &str) -> bool {
        self.peek().is_some() && self.line[self.at..self.end].starts_with(text)
    }

    /// Passes over a text, if it is next.
    fn take(&mut self, text: &str) -> bool {
        let is_next = self.starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, text: &str, problem: &'static str) -> Read<()> {
        if self.take(text) {
            Ok(())
        } else {
            Err(self.problem(problem))
        }
    }

    /// Passes over the next character, whole.
    fn take_char(&mut self) -> Option<char> {
        self.peek()?;
        let next = self.line[self.at..self.end].chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Passes over everything up to a byte, and over the byte. Returns the text before it, or
    /// `None` if the byte is not there.
    fn take_until(&mut self, byte: u8) -> Option<&'a str> {
        let rest = &self.line[self.at..self.end];
        let length = rest.bytes().position(|it| it == byte);
        let looked = length.unwrap_or(rest.len());
        let left = self.looks_left.get().saturating_sub(looked);
        self.looks_left.set(left);
        let length = length.filter(|_| left > 0)?;
        self.at += length + 1;
        Some(&rest[..length])
    }

    /// Reads something one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.problem("the line is nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads something, or leaves everything as it was if that fails.
    fn attempt(&mut self, read: impl FnOnce(&mut Self) -> Read<()>) -> bool {
        let (at, found, pending) = (self.at, self.found.lengths(), self.pending.clone());
        let (end, depth) = (self.end, self.depth);
        let is_read = read(self).is_ok();
        if !is_read {
            (self.at, self.end, self.depth) = (at, end, depth);
            self.found.truncate(found);
            self.pending = pending;
        }
        is_read
    }
}

impl Command {
    fn at(&self) -> usize {
        let first = self.words.first().or(self.assignments.first());
        first.map_or(0, |word| word.at)
    }
}

impl Script {
    fn lengths(&self) -> [usize; 3] {
        [
            self.commands.len(),
            self.functions.len(),
            self.documents.len(),
        ]
    }

    fn truncate(&mut self, [commands, functions, documents]: [usize; 3]) {
        self.commands.truncate(commands);
        self.functions.truncate(functions);
        self.documents.truncate(documents);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    const PIECES: [&str; 56] = [
        " ",
        "\n",
        ";",
        "&",
        "|",
        "&&",
        "||",
        "(",
        ")",
        "((",
        "))",
        "$(",
        "$((",
        "${",
        "}",
        "{",
        "`",
        "\"",
        "'",
        "$'",
        "\\",
        "$",
        "#",
        "<",
        ">",
        "<<",
        "<<-",
        "<<<",
        "<(",
        "2>&1",
        "&>",
        "if",
        "then",
        "else",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "case",
        "esac",
        ";;",
        "[[",
        "]]",
        "!",
        "time",
        "function",
        "coproc",
        "make",
        "A=",
        "a[",
        "=(",
        "\t",
        "é",
        "\u{1f600}",
        "E",
    ];

    #[test]
    fn words_begin_where_they_are_written() {
        let line = "A=1 x >o \"é$(b `c \\`d\\``)\" <<E | y\né $(z)\nE\n";
        let found = read(line).unwrap();
        let words = found.commands.iter().flat_map(|command| &command.words);
        let written: Vec<&str> = words.map(|word| &line[word.at..=word.at]).collect();
        assert_eq!(written, ["x", "\"", "b", "`", "c", "\\", "d", "y", "z"]);
        let read_by_x = found
            .commands
            .iter()
            .find(|command| command.input.is_some());
        assert_eq!(read_by_x.unwrap().input.as_deref(), Some("é $(z)\n"));
    }

    proptest! {
        #[test]
        fn whatever_a_line_is_its_words_begin_at_characters(pieces in vec(select(&PIECES[..]), 0..40)) {
            let line = pieces.concat();
            for command in read(&line).into_iter().flat_map(|found| found.commands) {
                for word in command.words.iter().chain(&command.assignments) {
                    prop_assert!(word.at < line.len() && line.is_char_boundary(word.at));
                }
            }
        }

        #[test]
        fn whatever_a_text_is_something_is_returned(text: String) {
            let _ = read(&text);
        }
    }

    #[test]
    fn a_line_that_is_looked_at_again_and_again_is_given_up() {
        for piece in [
            "$((", "((", "`", "\"$((a ", "$((`", "<<E $((", "${x:-$((", "a=(<( ((", "((a) ",
        ] {
            for end in ["", ")", "))", "`", "\""] {
                let line = piece.repeat(20_000 / piece.len()) + &end.repeat(9);
                let began = std::time::Instant::now();
                let _ = read(&line);
                let took = began.elapsed();
                assert!(took.as_secs() < 20, "{piece} {end}: {took:?}");
            }
        }
    }
}
