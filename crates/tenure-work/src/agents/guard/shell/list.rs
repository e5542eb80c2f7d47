//! Lists, pipelines and compound commands.

use super::{Read, Reader};

/// The words that end a list, and begin no command.
const CLOSING: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];

impl<'a> Reader<'a> {
    /// Reads commands up to one of these words, or to a text that begins no command: `)`, `;;`, the
    /// end.
    pub(super) fn list(&mut self, ends: &[&str]) -> Read<()> {
        self.deeper(|reader| {
            loop {
                reader.blank_lines()?;
                if reader.is_at_end_of(ends) {
                    return Ok(());
                }
                reader.pipelines()?;
                reader.blanks();
                let is_separated = match reader.peek() {
                    Some(b';') if !reader.is_at_case_end() => reader.take(";"),
                    Some(b'&') => reader.take("&"),
                    byte => byte == Some(b'\n'),
                };
                if !is_separated && !reader.is_at_end_of(ends) {
                    return Err(reader.problem("no end of a command"));
                }
            }
        })
    }

    fn is_at_end_of(&self, ends: &[&str]) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => self.is_at_case_end(),
            _ => ends.contains(&self.reserved()),
        }
    }

    fn is_at_case_end(&self) -> bool {
        self.starts_with(";;") || self.starts_with(";&")
    }

    /// Reads a list up to a word, and the word.
    fn list_to(&mut self, end: &'static str) -> Read<()> {
        self.list(&[end])?;
        self.take_reserved(end)
    }

    /// Reads pipelines with `&&` and `||` between them.
    fn pipelines(&mut self) -> Read<()> {
        loop {
            self.pipeline()?;
            self.blanks();
            if !(self.take("&&") || self.take("||")) {
                return Ok(());
            }
            self.blank_lines()?;
        }
    }

    fn pipeline(&mut self) -> Read<()> {
        loop {
            match self.reserved() {
                "!" => self.at += 1,
                "time" => {
                    self.at += "time".len();
                    self.blanks();
                    if self.reserved() == "-p" {
                        self.at += "-p".len();
                    }
                }
                _ => break,
            }
            self.blanks();
        }
        loop {
            self.deeper(Self::command)?;
            self.blanks();
            if self.starts_with("||") || !(self.take("|&") || self.take("|")) {
                return Ok(());
            }
            self.blank_lines()?;
        }
    }

    fn command(&mut self) -> Read<()> {
        let word = self.reserved();
        match word {
            "" if self.starts_with("(") => {
                let is_arithmetic = self.starts_with("((")
                    && self.attempt(|reader| {
                        reader.at += 2;
                        reader.arithmetic()
                    });
                if !is_arithmetic {
                    self.at += 1;
                    self.list(&[])?;
                    self.expect(")", "a ( without its )")?;
                }
            }
            "{" => {
                self.at += 1;
                self.list_to("}")?;
            }
            "if" => {
                self.at += word.len();
                self.list_to("then")?;
                self.branches()?;
            }
            "while" | "until" => {
                self.at += word.len();
                self.list_to("do")?;
                self.list_to("done")?;
            }
            "for" | "select" => {
                self.at += word.len();
                self.for_loop()?;
            }
            "case" => {
                self.at += word.len();
                self.case()?;
            }
            "[[" => {
                self.at += word.len();
                self.test()?;
            }
            "function" => {
                self.at += word.len();
                self.blanks();
                let name = self.word()?.text;
                self.blanks();
                if self.take("(") {
                    self.blanks();
                    self.expect(")", "a ( without its )")?;
                }
                return self.function(name);
            }
            "coproc" => {
                self.at += word.len();
                self.blanks();
                // Only compound commands may have a name before them.
                self.attempt(|reader| {
                    reader.word()?;
                    reader.blanks();
                    match reader.starts_with("(") || reader.reserved() == "{" {
                        true => Ok(()),
                        false => Err(reader.problem("no name")),
                    }
                });
                return self.command();
            }
            word if CLOSING.contains(&word) => {
                return Err(self.problem("a word that begins no command"));
            }
            _ => return self.simple(),
        }
        self.redirections()
    }

    /// Reads the rest of an `if` after its `then`.
    fn branches(&mut self) -> Read<()> {
        loop {
            self.list(&["elif", "else", "fi"])?;
            match self.reserved() {
                "elif" => {
                    self.at += "elif".len();
                    self.list_to("then")?;
                }
                "else" => {
                    self.at += "else".len();
                    return self.list_to("fi");
                }
                _ => return self.take_reserved("fi"),
            }
        }
    }

    fn for_loop(&mut self) -> Read<()> {
        self.blanks();
        if self.take("((") {
            self.arithmetic()?;
        } else {
            self.word()?;
            self.blank_lines()?;
            if self.reserved() == "in" {
                self.at += "in".len();
                self.blanks();
                while !matches!(self.peek(), None | Some(b';' | b'\n')) {
                    self.word()?;
                    self.blanks();
                }
            }
        }
        self.blanks();
        let _ = self.take(";");
        self.blank_lines()?;
        if self.reserved() == "{" {
            self.at += 1;
            return self.list_to("}");
        }
        self.take_reserved("do")?;
        self.list_to("done")
    }

    fn case(&mut self) -> Read<()> {
        self.blanks();
        self.word()?;
        self.blank_lines()?;
        self.take_reserved("in")?;
        loop {
            self.blank_lines()?;
            if self.reserved() == "esac" {
                return self.take_reserved("esac");
            }
            let _ = self.take("(");
            loop {
                self.blanks();
                self.word()?;
                self.blanks();
                if !self.take("|") {
                    break;
                }
            }
            self.expect(")", "a pattern without its )")?;
            self.list(&["esac"])?;
            if !(self.take(";;&") || self.take(";;") || self.take(";&")) {
                return self.take_reserved("esac");
            }
        }
    }

    /// Reads `[[ … ]]`, in which nothing but expansions and quotes counts.
    fn test(&mut self) -> Read<()> {
        let mut is_start = false;
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\n') => self.newline()?,
                Some(_) if is_start && self.reserved() == "]]" => {
                    self.at += 2;
                    return Ok(());
                }
                Some(_) => {
                    let is_piece = self.piece(&mut String::new())?;
                    if !is_piece {
                        self.take_char();
                    }
                    is_start = false;
                    continue;
                }
                None => return Err(self.problem("a [[ without its ]]")),
            }
            is_start = true;
        }
    }

    /// Reads the body of a function.
    pub(super) fn function(&mut self, name: String) -> Read<()> {
        self.blank_lines()?;
        self.found.functions.push(name);
        self.deeper(Self::command)
    }

    /// Returns the next text up to a blank or an operator, which may be a word of the grammar.
    pub(super) fn reserved(&self) -> &'a str {
        let rest = &self.line[self.at..self.end];
        let is_end = |byte| b" \t\n;&|()<>".contains(&byte);
        // The longest word of the grammar has eight letters.
        let length = rest.bytes().take(10).position(is_end);
        &rest[..length.unwrap_or(match rest.len() {
            short @ 0..10 => short,
            _ => 0,
        })]
    }

    fn take_reserved(&mut self, word: &'static str) -> Read<()> {
        if self.peek().is_none() || self.reserved() != word {
            return Err(self.problem("a compound command that does not go on as it should"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over blanks, and over a comment.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.starts_with("\\\n") => self.at += 2,
                Some(b'#') => {
                    let rest = &self.line[self.at..self.end];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Passes over blanks, comments and newlines.
    pub(super) fn blank_lines(&mut self) -> Read<()> {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'\n') => self.newline()?,
                _ => return Ok(()),
            }
        }
    }
}
