use std::fmt;

/// Columns as wide as what is in them.
#[derive(Debug)]
pub(crate) struct Table {
    title: &'static str,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: &'static str, head: &[&str]) -> Self {
        Self { title, rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.len() < 2 {
            return Ok(());
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        writeln!(f, "\n{}", self.title)?;
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, width))| match n {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}
