//! Bars for the figures of a run, as SVG.

use std::fmt::Write;

use serde_json::Value;

use crate::subject::Subject;

/// What a panel shows of each workload.
const FIGURES: [(&str, &str); 3] = [
    ("cycles_per_s", "cycles per second"),
    ("wait_p50_us", "wait p50, µs"),
    ("wait_p99_us", "wait p99, µs"),
];

const PANEL: usize = 460;
const LABEL: usize = 140;
const BAR: usize = 200;
const ROW: usize = 18;

/// A row of panels for each workload and number of nodes.
pub(crate) fn charts(lines: &[&Value]) -> Result<String, std::fmt::Error> {
    let mut body = String::new();
    let mut top = ROW;
    let same = |one: &&Value, other: &&Value| {
        (&one["workload"], &one["nodes"]) == (&other["workload"], &other["nodes"])
    };
    for group in lines.chunk_by(same) {
        for (place, (figure, title)) in FIGURES.iter().enumerate() {
            panel(&mut body, (place * PANEL, top), group, figure, title)?;
        }
        top += (group.len() + 3) * ROW;
    }
    let width = FIGURES.len() * PANEL;
    Ok(format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{top}' \
         font-family='sans-serif' font-size='12'>\n\
         <rect width='100%' height='100%' fill='white'/>\n{body}</svg>"
    ))
}

fn panel(
    svg: &mut String,
    (left, top): (usize, usize),
    lines: &[&Value],
    figure: &str,
    title: &str,
) -> std::fmt::Result {
    let value = |line: &Value| line[figure].as_f64().unwrap_or(0.0);
    let largest = lines
        .iter()
        .map(|line| value(line))
        .fold(f64::MIN_POSITIVE, f64::max);
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let workload = lines
        .first()
        .map(|line| text(line, "workload"))
        .unwrap_or_default();
    let nodes = lines
        .first()
        .and_then(|line| line["nodes"].as_u64())
        .unwrap_or(0);
    let x = left + 4;
    let y = top + ROW / 2;
    writeln!(
        svg,
        "<text x='{x}' y='{y}' font-weight='bold'>{workload}, {nodes} nodes: {title}</text>"
    )?;
    for (row, line) in lines.iter().enumerate() {
        let (middle, bar) = (top + (row + 2) * ROW - ROW / 2, left + LABEL);
        let (y, height) = (middle - ROW + 6, ROW - 4);
        let subject = text(line, "subject");
        let is_other = Subject::parse(&subject).is_ok_and(|of| of.way.is_other_library());
        let colour = if is_other { "#aab4bf" } else { "#2a6fbb" };
        let width = value(line) / largest * BAR as f64;
        let number = bar + width as usize + 4;
        writeln!(
            svg,
            "<text x='{x}' y='{middle}'>{subject}</text>\
             <rect x='{bar}' y='{y}' width='{width:.1}' height='{height}' fill='{colour}'/>\
             <text x='{number}' y='{middle}'>{:.0}</text>",
            value(line)
        )?;
    }
    Ok(())
}
