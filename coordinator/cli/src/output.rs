//! What people see: aligned tables, colour on terminals only, nothing that could drive the terminal.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use rewind_model::RunStatus;

/// Colours text, if colours are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For stdout: only on a terminal, and not where NO_COLOR (no-color.org) is set.
    pub(crate) fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: io::stdout().is_terminal() && !refused && !dumb }
    }

    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self { on: false }
    }

    fn wrap(self, sgr: &str, text: &str) -> String {
        if self.on { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn status(self, status: RunStatus) -> String {
        match status {
            RunStatus::Completed => self.good(status.as_str()),
            RunStatus::Failed | RunStatus::Cancelled => self.bad(status.as_str()),
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => status.to_string(),
        }
    }
}

/// The text with every control character but newline and tab made visible. Scripts, tools and
/// servers wrote it: an escape sequence in it must not reach the user's terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    // Neither controls, nor what changes the direction of text.
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmless = |c: char| !(c.is_control() || turns(c)) || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return text.into();
    }
    text.chars()
        .map(|c| if harmless(c) { Cow::from(String::from(c)) } else { c.escape_unicode().to_string().into() })
        .collect::<String>()
        .into()
}

/// [`printable`], and on one line.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows in aligned columns. Nothing is cut: an id is only of use when it is complete.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<Cell>,
    /// Lines that stand below it, whatever their width.
    below: Vec<String>,
}

/// Text, and how it looks on a terminal (the same width).
#[derive(Debug)]
pub(crate) struct Cell {
    plain: String,
    painted: Option<String>,
}

impl Cell {
    pub(crate) fn painted(plain: &str, painted: String) -> Self {
        Self { plain: plain.to_owned(), painted: Some(painted) }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { plain: one_line(text.as_ref()), painted: None }
    }
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell for each column");
        self.rows.push(Row { cells: cells.into(), below: Vec::new() });
    }

    /// Text that stands below the last row, indented.
    pub(crate) fn below(&mut self, text: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.below.extend(printable(text).lines().map(|line| format!("    {line}")));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// # Errors
    /// When `out` cannot be written to.
    pub(crate) fn write(&self, out: &mut dyn Write, paint: Paint) -> io::Result<()> {
        let width_of = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, _))| {
                let cells = self.rows.iter().map(|row| width_of(&row.cells[at].plain));
                cells.chain([width_of(name)]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &mut dyn Iterator<Item = (&str, String)>| {
            let mut line = String::new();
            for ((plain, shown), (width, (_, align))) in cells.zip(widths.iter().zip(&self.columns)) {
                let blanks = " ".repeat(width - width_of(plain));
                match align {
                    Align::Left => line.extend([shown.as_str(), &blanks, "  "]),
                    Align::Right => line.extend([blanks.as_str(), &shown, "  "]),
                }
            }
            line.trim_end().to_owned()
        };
        let mut names = self.columns.iter().map(|(name, _)| (*name, paint.heading(name)));
        writeln!(out, "{}", line(&mut names))?;
        for row in &self.rows {
            let shown = |cell: &Cell| cell.painted.clone().unwrap_or_else(|| cell.plain.clone());
            let mut cells = row.cells.iter().map(|cell| (cell.plain.as_str(), shown(cell)));
            writeln!(out, "{}", line(&mut cells))?;
            row.below.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(())
    }
}

/// Writes `json` and a newline: the API's own text, not a rendering of it.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn write_json(json: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json.trim_end())?;
    out.flush()
}

/// Progress in one line of stderr that is written over, if stderr is a terminal; else nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    on: bool,
    shown: String,
}

impl Progress {
    pub(crate) fn on_terminal() -> Self {
        Self { on: io::stderr().is_terminal(), shown: String::new() }
    }

    /// Whether anyone sees it.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.on && self.shown != text {
            // Progress is a courtesy: a terminal that went away must not end the command.
            let _ = write!(io::stderr(), "\r\x1b[K{}", one_line(text));
            text.clone_into(&mut self.shown);
        }
    }
}

impl Progress {
    /// A line that stays, above what is written over.
    ///
    /// # Errors
    /// When stderr cannot be written to.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stderr().lock();
        if !std::mem::take(&mut self.shown).is_empty() {
            write!(out, "\r\x1b[K")?;
        }
        writeln!(out, "{}", one_line(text))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(&[("TOOL", Align::Left), ("MS", Align::Right), ("", Align::Left)]);
        table.row(["docs.é".into(), "7".into(), "".into()]);
        table.below("why:\n  that");
        table.row(["a".into(), "1200".into(), "x".into()]);
        let mut out = Vec::new();
        table.write(&mut out, Paint::never()).expect("written");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "TOOL      MS\ndocs.é     7\n    why:\n      that\na       1200  x\n"
        );
    }

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c\nd"), "a\\u{1b}[2Jb\\u{9b}c\nd");
        assert_eq!(one_line("a\nb\tc\r"), "a b c\\u{d}");
    }
}
