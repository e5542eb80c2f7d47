//! Text on a terminal: safe to show, as wide as it is, cut to fit.

/// Makes text from others safe to show: nothing in it moves the cursor or turns the
/// direction of writing.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if hidden(c) { '?' } else { c })
        .collect()
}

/// How many columns a character takes on a terminal; East Asian ones and emoji take two.
fn columns_of(c: char) -> usize {
    let wide = matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    if wide { 2 } else { 1 }
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Cuts a text to a number of columns, with a mark where something is missing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_others_cannot_steer_the_terminal() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\n"), "a?[2J?b?");
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("abc", 0), "");
    }
}
