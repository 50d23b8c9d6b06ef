//! The tables of the page.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../redlock-runtime/src/guide/monitoring.md");

/// One kind of event or span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) level: String,
    pub(crate) fields: BTreeSet<String>,
}

/// As an exporter writes it: `name{label,label} kind`, sorted.
pub(crate) fn metrics() -> BTreeSet<String> {
    let rows = rows().filter(|row| row.len() == 4 && row[0].starts_with("`redlock_"));
    let text = |row: Vec<&str>| {
        let labels: BTreeSet<&str> = code(row[2]).collect();
        let labels = Vec::from_iter(labels).join(",");
        format!("{}{{{labels}}} {}", row[0].trim_matches('`'), row[1])
    };
    rows.map(text).collect()
}

/// The code in the rest of the page from this word on, to the end of the item of the list.
pub(crate) fn list_of(label: &str) -> BTreeSet<String> {
    let (_, list) = PAGE.split_once(&format!("\n- `{label}` is")).unwrap();
    let list = list.split("\n- ").next().unwrap();
    code(list.split(';').next().unwrap())
        .map(str::to_owned)
        .collect()
}

pub(crate) fn events() -> BTreeSet<Kind> {
    let rows = rows().filter(|row| row.len() == 4 && row[0].starts_with("`redlock."));
    let kinds = rows.map(|row| kind(row[0], row[1], row[2]));
    kinds.collect()
}

pub(crate) fn spans() -> BTreeSet<Kind> {
    let rows = rows().filter(|row| row.len() == 3 && row[0].starts_with("`redlock."));
    let kinds = rows.map(|row| kind(row[0], "DEBUG", row[1]));
    kinds.collect()
}

/// In the words of the section on spans.
pub(crate) fn outcomes() -> BTreeSet<String> {
    let (_, section) = PAGE.split_once("# Spans").unwrap();
    let section = section.split("\n# ").next().unwrap();
    code(section).map(str::to_owned).collect()
}

fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    PAGE.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
}

fn kind(name: &str, level: &str, fields: &str) -> Kind {
    Kind {
        name: name.trim_matches('`').to_owned(),
        level: level.trim_matches('`').to_owned(),
        fields: code(fields).map(str::to_owned).collect(),
    }
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
