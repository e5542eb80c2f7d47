//! Tables for people: as wide as their contents, and no wider than the terminal if there is one.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use crate::output;
use crate::people::{columns, cut, visible};
use crate::report::Failure;

/// The smallest width to which a column is cut to fit a terminal.
const CUT_MIN: usize = 8;

/// Returns the control sequence that gives a cell its colour.
type Colour = fn(&str) -> &'static str;

/// A table with headings.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The column that has colours.
    colour: Option<(usize, Colour)>,
}

impl Table {
    pub fn new(headings: Vec<&'static str>) -> Self {
        Self {
            headings,
            rows: Vec::new(),
            colour: None,
        }
    }

    /// Gives the cells of a column colours, where people see them. The text is then printed as it is.
    pub fn with_colours(mut self, column: usize, colour: Colour) -> Self {
        self.colour = Some((column, colour)).filter(|_| is_coloured());
        self
    }

    /// Prints it, no wider than the terminal if there is one.
    pub fn print(&self, cuttable: &[&str]) -> Result<(), Failure> {
        // Every cell was made visible when it was added.
        output::exact(self.text(width(), cuttable))
    }

    /// Adds a row, with a cell for each heading. Control characters are escaped.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        let row: Vec<String> = row.into_iter().map(|cell| visible(&cell)).collect();
        debug_assert_eq!(row.len(), self.headings.len());
        self.rows.push(row);
    }

    /// The text. What is too wide is taken from the columns under the headings named in
    /// `cuttable`, from the first of them first.
    pub fn text(&self, width: Option<usize>, cuttable: &[&str]) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let headings: Vec<String> = self.headings.iter().map(|h| (*h).to_owned()).collect();
        let rows = || [&headings].into_iter().chain(&self.rows);
        let mut widths = vec![0; headings.len()];
        for row in rows() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = columns(cell).max(*width);
            }
        }
        if let Some(width) = width {
            self.fit(&mut widths, width, cuttable);
        }
        let mut text = String::new();
        for row in rows() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let cell = cut(cell, *width);
                let blanks = width - columns(&cell) + 2;
                let colour = self.colour.filter(|(coloured, _)| *coloured == column);
                let (begin, end) = match colour.map(|(_, colour)| colour(&cell)) {
                    Some(begin) if !begin.is_empty() => (begin, "\u{1b}[0m"),
                    _ => ("", ""),
                };
                let _ = write!(line, "{begin}{cell}{end}{:blanks$}", "");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn fit(&self, widths: &mut [usize], width_max: usize, cuttable: &[&str]) {
        for heading in cuttable {
            let Some(column) = self.headings.iter().position(|h| h == heading) else {
                continue;
            };
            let all = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            let too_much = all.saturating_sub(width_max);
            let least = CUT_MIN.min(widths[column]);
            widths[column] = widths[column].saturating_sub(too_much).max(least);
        }
    }
}

/// Returns true if standard output is a terminal that shows colours, and nobody minds them.
fn is_coloured() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns how wide the terminal on standard output is, if there is one.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_the_terminal_and_is_whole_elsewhere() {
        let mut table = Table::new(vec!["A", "B", "C"]);
        table.push(["x".into(), "because ".repeat(10), "make ".repeat(50)]);
        table.push(["yy".into(), String::new(), "\u{1b}[2J".into()]);
        let narrow = table.text(Some(40), &["C", "B"]);
        assert!(narrow.lines().all(|line| columns(line) <= 40), "{narrow}");
        assert!(narrow.contains('…'));
        let whole = table.text(None, &["C", "B"]);
        assert!(!whole.contains('…') && whole.contains(&"make ".repeat(40)));
        assert!(whole.starts_with("A   B") && !whole.contains('\u{1b}'));
    }

    #[test]
    fn nothing_is_no_table() {
        assert_eq!(Table::new(vec!["A"]).text(None, &[]), "");
    }
}
