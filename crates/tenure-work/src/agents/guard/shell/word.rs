//! Words: quotes, expansions, substitutions.

use super::{Read, Reader, UNKNOWN, Word};

impl Reader<'_> {
    /// Reads a word, which must be there.
    pub(super) fn word(&mut self) -> Read<Word> {
        let at = self.at;
        let mut text = String::new();
        self.pieces(&mut text)?;
        if self.at > at {
            Ok(Word { at, text })
        } else {
            Err(self.problem("no word where one must be"))
        }
    }

    /// Reads the pieces of a word up to its end.
    pub(super) fn pieces(&mut self, text: &mut String) -> Read<()> {
        while self.piece(text)? {}
        Ok(())
    }

    /// Reads a piece of a word. Returns false at its end.
    pub(super) fn piece(&mut self, text: &mut String) -> Read<bool> {
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')') => {
                return Ok(false);
            }
            Some(b'<' | b'>') => {
                if !(self.take("<(") || self.take(">(")) {
                    return Ok(false);
                }
                self.substitution()?;
                text.push(UNKNOWN);
            }
            Some(b'\\') => {
                self.at += 1;
                text.extend(self.take_char().filter(|next| *next != '\n'));
            }
            Some(b'\'') => {
                self.at += 1;
                let quoted = self.take_until(b'\'');
                text.push_str(quoted.ok_or_else(|| self.problem("a ' without its end"))?);
            }
            Some(b'"') => self.double_quoted(text)?,
            Some(b'$') if self.take("$'") => self.escaped(text)?,
            Some(b'$') if self.starts_with("$\"") => {
                self.at += 1;
                self.double_quoted(text)?;
            }
            Some(b'$' | b'`') => self.expansion(text, false)?,
            Some(_) => text.extend(self.take_char()),
        }
        Ok(true)
    }

    fn double_quoted(&mut self, text: &mut String) -> Read<()> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.quoted_piece(text)?,
                None => return Err(self.problem("a \" without its end")),
            }
        }
    }

    /// Reads an expansion or a character inside of double quotes, or of a here-document.
    pub(super) fn quoted_piece(&mut self, text: &mut String) -> Read<()> {
        match self.peek() {
            Some(b'$' | b'`') => self.expansion(text, true),
            Some(b'\\') => {
                self.at += 1;
                match self.take_char() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                    c => text.extend(['\\'].into_iter().chain(c)),
                }
                Ok(())
            }
            _ => {
                text.extend(self.take_char());
                Ok(())
            }
        }
    }

    /// Reads a `$'…'`, after its first quote.
    fn escaped(&mut self, text: &mut String) -> Read<()> {
        loop {
            match self.take_char() {
                Some('\'') => return Ok(()),
                Some('\\') => text.push(match self.take_char() {
                    Some(c @ ('\'' | '"' | '\\' | '?')) => c,
                    Some('n') => '\n',
                    Some('t') => '\t',
                    _ => UNKNOWN,
                }),
                Some(c) => text.push(c),
                None => return Err(self.problem("a ' without its end")),
            }
        }
    }

    /// Reads an expansion, which begins with `$` or a backquote.
    fn expansion(&mut self, text: &mut String, is_quoted: bool) -> Read<()> {
        self.deeper(|reader| {
            let is_arithmetic = reader.starts_with("$((")
                && reader.attempt(|reader| {
                    reader.at += "$((".len();
                    reader.arithmetic()
                });
            if is_arithmetic {
            } else if reader.take("$(") {
                reader.substitution()?;
            } else if reader.take("${") {
                reader.parameter(is_quoted)?;
            } else if reader.take("`") {
                reader.backquoted(is_quoted)?;
            } else {
                reader.at += 1;
                let rest = &reader.line.as_bytes()[reader.at..reader.end];
                let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                reader.at += match rest.first() {
                    Some(byte) if b"0123456789@*#?$!-".contains(byte) => 1,
                    _ => rest.iter().take_while(is_name).count(),
                };
                if rest.len() == reader.end - reader.at {
                    text.push('$');
                    return Ok(());
                }
            }
            text.push(UNKNOWN);
            Ok(())
        })
    }

    /// Reads the commands of a substitution, after its `(`.
    fn substitution(&mut self) -> Read<()> {
        // The texts of here-documents of the line around it begin after the substitution.
        let outer = std::mem::take(&mut self.pending);
        self.list(&[])?;
        if !self.pending.is_empty() {
            return Err(self.problem("a here-document without text"));
        }
        self.pending = outer;
        self.expect(")", "a ( without its )")
    }

    /// Reads arithmetic, after its `((`.
    pub(super) fn arithmetic(&mut self) -> Read<()> {
        let mut open = 0_usize;
        loop {
            if open == 0 && self.take("))") {
                return Ok(());
            }
            match self.peek() {
                Some(b'(') => {
                    open += 1;
                    self.at += 1;
                }
                Some(b')') if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                None | Some(b')') => return Err(self.problem("no arithmetic")),
                Some(_) => self.inner_piece(false)?,
            }
        }
    }

    /// Reads an expansion of a parameter, after its `${`.
    fn parameter(&mut self, is_quoted: bool) -> Read<()> {
        if let None | Some(b' ' | b'\t' | b'\n' | b'|') = self.peek() {
            return Err(self.problem("no parameter"));
        }
        let rest = &self.line[self.at..self.end];
        let name_end = rest.find(|c: char| !(c.is_alphanumeric() || "_!#@*?$".contains(c)));
        let operator = rest[name_end.unwrap_or(0)..].chars().next();
        // In patterns single quotes count, even inside of double quotes.
        let is_pattern = operator.is_some_and(|operator| "#%/^,".contains(operator));
        self.at += usize::from(rest.starts_with(['#', '!', '$']));
        loop {
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.inner_piece(is_quoted && !is_pattern)?,
                None => return Err(self.problem("a ${ without its }")),
            }
        }
    }

    /// Reads a quote, an expansion or a character where blanks and operators are characters like
    /// all others.
    fn inner_piece(&mut self, are_quotes_plain: bool) -> Read<()> {
        let is_piece = match self.peek() {
            Some(b'\'') if are_quotes_plain => false,
            Some(b'<' | b'>') => false,
            _ => self.piece(&mut String::new())?,
        };
        if !is_piece {
            self.take_char();
        }
        Ok(())
    }

    /// Reads the commands between backquotes, after the first. They are read without the
    /// backslashes that the quotes need.
    fn backquoted(&mut self, is_quoted: bool) -> Read<()> {
        let (mut inner, mut places) = (String::new(), Vec::new());
        loop {
            let at = self.at;
            let mut next = self.take_char();
            if next == Some('\\') {
                let is_escaped = match self.peek() {
                    Some(b'`' | b'\\' | b'$') => true,
                    byte => is_quoted && byte == Some(b'"'),
                };
                next = if is_escaped { self.take_char() } else { next };
            } else if next == Some('`') {
                break;
            }
            let next = next.ok_or_else(|| self.problem("a ` without its end"))?;
            inner.push(next);
            places.resize(inner.len(), at);
        }
        let mut reader = Reader::new(&inner, self.depth, self.looks_left.get());
        let script = reader.script();
        self.looks_left.set(reader.looks_left.get());
        let script = script.map_err(|mut unreadable| {
            unreadable.at = places.get(unreadable.at).copied().unwrap_or(self.at);
            unreadable
        })?;
        self.found.functions.extend(script.functions);
        for mut command in script.commands {
            for word in command.words.iter_mut().chain(&mut command.assignments) {
                word.at = places[word.at];
            }
            self.found.commands.push(command);
        }
        Ok(())
    }
}
