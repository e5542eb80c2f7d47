//! Simple commands: words, assignments, redirections, here-documents.

use super::{Command, PendingDocument, Read, Reader, UNKNOWN, Word};

/// The commands of the shell whose words may be assignments of lists.
const DECLARING: [&str; 6] = ["declare", "export", "let", "local", "readonly", "typeset"];
/// The operators of redirections. If two begin alike the longer one comes first.
const REDIRECTIONS: [&str; 12] = [
    "&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">",
];

impl Reader<'_> {
    pub(super) fn simple(&mut self) -> Read<()> {
        let mut command = Command::default();
        let mut is_redirected = false;
        loop {
            self.blanks();
            if self.redirection(&mut command)? {
                is_redirected = true;
                continue;
            }
            match self.peek() {
                None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')') => break,
                Some(b'(') => {
                    let is_function = command.assignments.is_empty() && command.words.len() == 1;
                    let name = command.words.pop().filter(|_| is_function);
                    let name = name.ok_or_else(|| self.problem("a ( after a word"))?;
                    self.at += 1;
                    self.blanks();
                    self.expect(")", "a ( after a word")?;
                    return self.function(name.text);
                }
                Some(_) => {}
            }
            let at = self.at;
            if command.words.is_empty() && self.assignment_name() {
                self.assigned()?;
                let text = self.line[at..self.at].to_owned();
                command.assignments.push(Word { at, text });
                continue;
            }
            let first = command.words.first().map(|first| first.text.as_str());
            if first.is_some_and(|first| DECLARING.contains(&first)) && self.assignment_name() {
                self.assigned()?;
                let text = self.line[at..self.at].to_owned();
                command.words.push(Word { at, text });
                continue;
            }
            let word = self.word()?;
            command.words.push(word);
        }
        if command.words.is_empty() && command.assignments.is_empty() && !is_redirected {
            return Err(self.problem("no command"));
        }
        self.found.commands.push(command);
        Ok(())
    }

    /// Passes over `NAME=`, `NAME+=` or `NAME[…]=`, if that is next.
    fn assignment_name(&mut self) -> bool {
        let rest = &self.line.as_bytes()[self.at..self.end];
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let mut length = rest.iter().take_while(is_name).count();
        if length == 0 || rest[0].is_ascii_digit() {
            return false;
        }
        if rest.get(length) == Some(&b'[') {
            let index = rest[length..].iter();
            let end = index.take(100).position(|byte| *byte == b']');
            length += end.map_or(0, |end| end + 1);
        }
        length += usize::from(rest.get(length) == Some(&b'+'));
        let is_assignment = rest.get(length) == Some(&b'=');
        self.at += if is_assignment { length + 1 } else { 0 };
        is_assignment
    }

    /// Reads the value of an assignment: a word, nothing, or a list.
    fn assigned(&mut self) -> Read<()> {
        if !self.take("(") {
            return self.pieces(&mut String::new());
        }
        loop {
            self.blank_lines()?;
            if self.take(")") {
                return Ok(());
            }
            self.word()?;
        }
    }

    /// Reads redirections after a compound command.
    pub(super) fn redirections(&mut self) -> Read<()> {
        let mut command = Command::default();
        loop {
            self.blanks();
            if !self.redirection(&mut command)? {
                return Ok(());
            }
        }
    }

    /// Reads a redirection, if one is next.
    fn redirection(&mut self, command: &mut Command) -> Read<bool> {
        let Some((length, operator)) = self.redirection_operator() else {
            return Ok(false);
        };
        self.at += length;
        self.blanks();
        if operator != "<<" && operator != "<<-" {
            let word = self.word()?;
            match operator {
                "<<<" => (command.input, command.document) = (Some(word.text), None),
                "<" => (command.input, command.document) = (None, None),
                _ => {}
            }
            return Ok(true);
        }
        let at = self.at;
        let delimiter = self.word()?.text;
        let written = &self.line[at..self.at];
        if delimiter.contains(UNKNOWN) {
            return Err(self.problem("a here-document whose end is not known"));
        }
        let number = self.found.documents.len();
        self.found.documents.push(String::new());
        self.pending.push(PendingDocument {
            delimiter,
            has_tabs_stripped: operator == "<<-",
            is_literal: written.contains(['\'', '"', '\\']),
            number,
        });
        command.document = Some(number);
        Ok(true)
    }

    /// Returns the operator of the redirection that is next, and its length with the number or name
    /// before it.
    fn redirection_operator(&self) -> Option<(usize, &'static str)> {
        let rest = &self.line[self.at..self.end];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let name = || {
            let name = rest.strip_prefix('{')?.split_once('}')?.0;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            (!name.is_empty() && name.chars().all(is_name)).then_some(name.len() + 2)
        };
        let before = match rest.as_bytes().first()? {
            b'{' => name()?,
            b'<' | b'>' | b'&' | b'0'..=b'9' => digits,
            _ => return None,
        };
        let rest = &rest[before..];
        if before == 0 && (rest.starts_with("<(") || rest.starts_with(">(")) {
            return None;
        }
        let mut operators = REDIRECTIONS.into_iter();
        let operator = operators.find(|operator| rest.starts_with(operator))?;
        (before == 0 || !operator.starts_with('&')).then_some((before + operator.len(), operator))
    }

    /// Passes over a newline, and over the here-documents that begin after it.
    pub(super) fn newline(&mut self) -> Read<()> {
        self.at += 1;
        for document in std::mem::take(&mut self.pending) {
            let start = self.at;
            let mut end = start;
            while self.at < self.end {
                end = self.at;
                let rest = &self.line[self.at..self.end];
                let line = self.take_until(b'\n').unwrap_or_else(|| {
                    self.at = self.end;
                    rest
                });
                let line = if document.has_tabs_stripped {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if line == document.delimiter {
                    break;
                }
                end = self.at;
            }
            let text = self.line[start..end].to_owned();
            self.found.documents[document.number] = text;
            if !document.is_literal {
                self.expand_document(start, end)?;
            }
        }
        Ok(())
    }

    /// Reads the substitutions of a here-document.
    fn expand_document(&mut self, start: usize, end: usize) -> Read<()> {
        let after = (self.at, self.end);
        (self.at, self.end) = (start, end);
        while let Some(byte) = self.peek() {
            match byte {
                b'$' | b'`' => self.quoted_piece(&mut String::new())?,
                b'\\' => {
                    self.at += 1;
                    self.take_char();
                }
                _ => self.at += 1,
            }
        }
        if self.at < end {
            return Err(self.problem("a here-document"));
        }
        (self.at, self.end) = after;
        Ok(())
    }
}
