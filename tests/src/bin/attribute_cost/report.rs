//! Tables of figures, for people and as JSON, and what was found wrong with them.

use std::fmt;

#[derive(Default)]
pub(crate) struct Report {
    tables: Vec<Table>,
    complaints: Vec<String>,
}

/// Rows of figures. All rows have the same columns.
pub(crate) struct Table {
    /// The name in JSON.
    name: &'static str,
    title: String,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    figures: Vec<(&'static str, f64)>,
}

impl Report {
    pub(crate) fn add(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Makes the command fail if `holds` is false.
    pub(crate) fn check(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            self.complaints.push(complaint());
        }
    }

    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// `{"table": {"row": {"column": figure}}}`
    pub(crate) fn json(&self) -> String {
        object(self.tables.iter().map(|table| {
            let rows = table.rows.iter().map(|row| {
                let figures = row.figures.iter();
                (
                    &*row.name,
                    object(figures.map(|(column, figure)| (*column, rounded(*figure)))),
                )
            });
            (table.name, object(rows))
        }))
    }
}

impl Table {
    pub(crate) fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self {
            name,
            title: title.into(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(
        &mut self,
        name: impl Into<String>,
        figures: [(&'static str, f64); N],
    ) {
        self.rows.push(Row {
            name: name.into(),
            figures: figures.into(),
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| row.name.len());
        let width = names.max().unwrap_or_default();
        writeln!(f, "{}\n", self.title)?;
        if let Some(row) = self.rows.first() {
            write!(f, "{:width$}", "")?;
            for (column, _) in &row.figures {
                write!(f, "  {column:>9}")?;
            }
            writeln!(f)?;
        }
        for row in &self.rows {
            write!(f, "{:width$}", row.name)?;
            for (column, figure) in &row.figures {
                let width = column.len().max(9);
                write!(f, "  {:>width$}", rounded(*figure))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Three digits are more than a time deserves; bytes and polls are whole numbers.
fn rounded(figure: f64) -> String {
    if figure.fract() == 0.0 || figure.abs() >= 100.0 {
        format!("{figure:.0}")
    } else {
        format!("{figure:.2}")
    }
}
