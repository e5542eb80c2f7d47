//! Tables for people: as wide as their contents, and no wider than the terminal if there is one.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use crate::output;
use crate::people::{columns, cut_in_the_middle, visible};
use crate::report::Failure;

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

    /// Gives the cells of a column colours, if the output is for a terminal. The text is then
    /// printed as it is.
    pub fn with_colours(mut self, column: usize, colour: Colour) -> Self {
        self.colour = Some((column, colour)).filter(|_| is_coloured());
        self
    }

    /// Prints the table, no wider than the terminal if there is one; see [`text`](Self::text).
    pub fn print(&self, free: &[&str]) -> Result<(), Failure> {
        // Every cell was made visible when it was added.
        output::exact(self.text(width(), free))
    }

    /// Leaves out these columns if all their cells are empty.
    pub fn without_empty(mut self, headings: &[&str]) -> Self {
        for heading in headings {
            let column = self.headings.iter().position(|it| it == heading);
            let column =
                column.filter(|column| self.rows.iter().all(|row| row[*column].is_empty()));
            if let Some(column) = column {
                self.headings.remove(column);
                self.rows
                    .iter_mut()
                    .for_each(|row| drop(row.remove(column)));
            }
        }
        self
    }

    /// Adds a row, with a cell for each heading. Control characters are escaped.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        let row: Vec<String> = row.into_iter().map(|cell| visible(&cell)).collect();
        debug_assert_eq!(row.len(), self.headings.len());
        self.rows.push(row);
    }

    /// Returns the text. The cells under the headings in `free` may have any length: if a line is
    /// too wide, the middle of the widest of these is cut out.
    pub fn text(&self, width: Option<usize>, free: &[&str]) -> String {
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
            self.fit(&mut widths, width, free);
        }
        let mut text = String::new();
        for row in rows() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let cell = cut_in_the_middle(cell, *width);
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

    /// Cuts all wide free columns to one width, the greatest that fits.
    fn fit(&self, widths: &mut [usize], width_max: usize, free: &[&str]) {
        let is_free: Vec<bool> = self.headings.iter().map(|it| free.contains(it)).collect();
        let cut_to = |level: usize| {
            let columns = widths.iter().zip(&is_free);
            columns.map(move |(width, is_free)| match is_free {
                true => level.min(*width),
                false => *width,
            })
        };
        let gaps = 2 * (widths.len() - 1);
        let fits = |level: &usize| cut_to(*level).sum::<usize>() + gaps <= width_max;
        let level = (1..=width_max).rev().find(fits);
        let cut: Vec<usize> = cut_to(level.unwrap_or(1)).collect();
        widths.copy_from_slice(&cut);
    }
}

/// Returns true if standard output is a terminal that shows colours, and no variable forbids them.
fn is_coloured() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns the width of the terminal on standard output, if there is one.
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
    fn the_widest_of_the_free_columns_is_cut_in_the_middle_and_short_ones_stay_whole() {
        let mut table = Table::new(vec!["A", "B", "C"]);
        let path = format!("file:/{}/main.rs", "deep/".repeat(100));
        table.push([path, "ana@desk".into(), "5m 03s".into()]);
        let narrow = table.text(Some(40), &["A", "B"]);
        assert!(narrow.lines().all(|line| columns(line) <= 40), "{narrow}");
        let row = narrow.lines().nth(1).unwrap();
        assert!(row.starts_with("file:/deep/"), "{row}");
        assert!(row.ends_with("main.rs  ana@desk  5m 03s"), "{row}");
    }

    #[test]
    fn nothing_is_no_table() {
        assert_eq!(Table::new(vec!["A"]).text(None, &[]), "");
    }
}
