//! The run as a page that needs nothing else.

use serde_json::{Value, json};

use crate::{
    client::KINDS,
    judge::Violation,
    plan::{CLIENTS, NODES},
    record::{History, word},
};

pub(crate) fn html(
    history: &History,
    violations: &[Violation],
    phases: &[(u64, &str)],
    verdict: &Value,
) -> String {
    // Tenths of milliseconds keep the page small.
    let time = |at: u64| at.saturating_sub(history.begun) / 100;
    let sections = history.sections.iter().map(|it| {
        let kind = KINDS.iter().position(|kind| *kind == it.kind);
        let end = it.ended.or(it.told).unwrap_or(it.last);
        json!([
            it.client,
            kind,
            time(it.asked),
            it.entered.map(time),
            time(it.last),
            it.told.map(time),
            time(end),
            it.outcome,
            it.keys.join(", "),
            it.token,
        ])
    });
    let faults = history.faults.iter().map(|it| {
        json!([
            word(it.target),
            it.kind,
            time(it.from),
            time(it.until),
            it.is_effective,
            it.met
        ])
    });
    let states = history
        .states
        .iter()
        .map(|(at, client, node, state)| json!([time(*at), client, node, state]));
    let violations = violations
        .iter()
        .map(|it| json!([it.rule, time(it.from), time(it.until), it.text]));
    let phases = phases.iter().map(|(at, name)| json!([at * 10, name]));
    let data = json!({
        "clients": CLIENTS, "nodes": NODES, "kinds": KINDS, "verdict": verdict,
        "sections": sections.collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
        "states": states.collect::<Vec<_>>(),
        "violations": violations.collect::<Vec<_>>(),
        "phases": phases.collect::<Vec<_>>(),
    });
    // Nothing in it may end the script.
    let data = data.to_string().replace("</", "<\\/");
    include_str!("picture.html").replace("\"DATA\"", &data)
}
