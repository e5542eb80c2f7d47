//! Text on a terminal: made safe, measured in columns, and cut to fit.

use std::borrow::Cow;

/// Makes text from others safe to show, in one line. Characters are escaped if they move the
/// cursor, turn the direction of writing, or cannot be seen.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Makes text of several lines safe to show; newlines are kept.
pub fn visible_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

/// Returns the number of columns of a character on a terminal; East Asian ones and emoji take two.
fn columns_of(c: char) -> usize {
    let wide = matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    if wide { 2 } else { 1 }
}

/// Returns the number of columns of a text on a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Cuts a text to a number of columns, with a mark at the cut.
pub fn cut(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += columns_of(c);
        if used >= columns_max {
            break;
        }
        cut.push(c);
    }
    if columns_max > 0 {
        cut.push('…');
    }
    cut
}

/// Cuts a text to a number of columns, with a mark in its middle, as the end of a path says most.
pub fn cut_in_the_middle(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max || columns_max == 0 {
        return cut(text, columns_max);
    }
    let end_max = (columns_max - 1) / 2;
    let mut used = 0;
    let end = text.char_indices().rev().take_while(|(_, c)| {
        used += columns_of(*c);
        used <= end_max
    });
    let end = end.last().map_or(text.len(), |(start, _)| start);
    let end = &text[end..];
    format!("{}{end}", cut(text, columns_max - columns(end)))
}

/// The longest word, in bytes, that a message shows whole; no path is longer.
const WORD_BYTES_MAX: usize = 4096;
/// The number of characters that are kept of a longer word.
const WORD_CHARS_KEPT: usize = 80;

/// Returns a message in which overlong words are cut, such as an argument of 100 kB that is
/// refused.
pub fn without_long_words(text: &str) -> Cow<'_, str> {
    if text.len() <= WORD_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let words = text.split_inclusive(char::is_whitespace);
    let shortened = words.map(|word| match word.len() <= WORD_BYTES_MAX {
        true => Cow::Borrowed(word),
        false => {
            let kept: String = word.chars().take(WORD_CHARS_KEPT).collect();
            let end = &word[word.trim_end().len()..];
            Cow::Owned(format!("{kept}… ({} bytes){end}", word.trim_end().len()))
        }
    });
    Cow::Owned(shortened.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_others_cannot_steer_the_terminal() {
        let hostile = "a\u{1b}[2J\u{202e}b\u{9b}\n";
        assert_eq!(visible(hostile), "a\\u{1b}[2J\\u{202e}b\\u{9b}\\n");
        assert_eq!(visible(&visible(hostile)), visible(hostile));
        assert_eq!(visible_lines("a\r\nü\n"), "a\\r\nü\n");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut_in_the_middle("abcdef", 6), "abcdef");
        assert_eq!(cut_in_the_middle("abcdefgh", 6), "abc…gh");
        assert_eq!(cut_in_the_middle("漢字漢字", 6), "漢…字");
        assert_eq!(cut_in_the_middle("abc", 1), "…");
        assert_eq!(cut_in_the_middle("abc", 0), "");
    }
}
