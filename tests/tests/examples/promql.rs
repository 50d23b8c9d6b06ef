//! As much of the language of Prometheus as the dashboard and its alerts use, to see whether a query finds
//! anything in what the exporter writes.

use std::collections::BTreeMap;

/// Labels that Prometheus adds.
const OF_TARGETS: [&str; 2] = ["job", "instance"];

#[derive(Debug)]
pub(crate) struct Query(String);

type Labels<'a> = BTreeMap<&'a str, &'a str>;

pub(crate) fn of_panels(json: &str) -> impl Iterator<Item = Query> {
    let dashboard: serde_json::Value = serde_json::from_str(json).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let targets = panels.into_iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().clone();
        assert!(!targets.is_empty(), "{panel}");
        targets
    });
    targets.map(|target| Query(target["expr"].as_str().unwrap().to_owned()))
}

pub(crate) fn of_alerts(yaml: &str) -> impl Iterator<Item = Query> {
    let queries = yaml.lines().filter_map(|line| line.split_once("expr: "));
    queries.map(|(_, query)| Query(query.to_owned()))
}

impl Query {
    /// Whether each of its parts finds a series: with the value that it is compared with, if that is a state, or
    /// one above zero, if it counts events. Fails if there is no such metric, or if what is found lacks a label
    /// by which it is grouped.
    pub(crate) fn check(&self, served: &str) -> Result<bool, String> {
        let mut finds = true;
        for part in self.0.split(" / ") {
            finds &= self.check_part(part, served)?;
        }
        Ok(finds)
    }

    fn check_part(&self, part: &str, served: &str) -> Result<bool, String> {
        let (_, rest) = part.split_once("redlock_").ok_or("no metric")?;
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (name, rest) = (format!("redlock_{}", &rest[..end]), &rest[end..]);
        let matchers = rest.strip_prefix('{').and_then(|it| it.split_once('}'));
        let all = series(&name, served);
        if all.is_empty() {
            return Err(format!("no {name}"));
        }
        for label in grouped_by(part) {
            let has = |(labels, _): &(Labels<'_>, f64)| labels.contains_key(label);
            if !OF_TARGETS.contains(&label) && !all.iter().all(has) {
                return Err(format!("{name} has no {label}"));
            }
        }
        let matchers = matchers.map_or("", |(matchers, _)| matchers);
        let found = all
            .iter()
            .filter(|(labels, _)| matchers.split(',').all(|it| fits(it, labels)));
        let wanted = [" == 0", " == 1", " > 0"]
            .into_iter()
            .find(|it| part.contains(it));
        let is_wanted = |value: f64| match wanted {
            Some(" == 0") => value == 0.0,
            Some(" == 1") => value == 1.0,
            Some(_) => value > 0.0,
            None => true,
        };
        Ok(found.into_iter().any(|(_, value)| is_wanted(*value)))
    }
}

fn series<'a>(name: &str, served: &'a str) -> Vec<(Labels<'a>, f64)> {
    let lines = served.lines().filter_map(|line| line.strip_prefix(name));
    let of_line = |line: &'a str| {
        let (labels, value) = line.strip_prefix('{')?.split_once('}')?;
        let pairs = labels.split("\",").map(|pair| pair.trim_end_matches('"'));
        let labels = pairs.filter_map(|pair| pair.split_once("=\"")).collect();
        Some((labels, value.trim().parse().ok()?))
    };
    lines.filter_map(of_line).collect()
}

fn grouped_by(part: &str) -> impl Iterator<Item = &str> {
    let by = part
        .split(" by (")
        .skip(1)
        .filter_map(|it| it.split(')').next());
    by.flat_map(|labels| labels.split(", "))
}

/// `state="down"` or `state!~"up|down"`
fn fits(matcher: &str, labels: &Labels<'_>) -> bool {
    let value = |label: &str| labels.get(label).copied().unwrap_or_default();
    if let Some((label, values)) = matcher.split_once("!~") {
        !values
            .trim_matches('"')
            .split('|')
            .any(|it| it == value(label))
    } else if let Some((label, unwanted)) = matcher.split_once("!=") {
        unwanted.trim_matches('"') != value(label)
    } else if let Some((label, wanted)) = matcher.split_once('=') {
        wanted.trim_matches('"') == value(label)
    } else {
        matcher.is_empty()
    }
}
