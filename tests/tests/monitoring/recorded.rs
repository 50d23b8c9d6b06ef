//! A recorder of the whole process, and what it would tell Prometheus.

use std::{collections::BTreeSet, sync::LazyLock};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

#[derive(Clone)]
pub(crate) struct Recorded(PrometheusHandle);

impl Recorded {
    pub(crate) fn install() -> Self {
        static ONE: LazyLock<Recorded> = LazyLock::new(|| {
            let builder = PrometheusBuilder::new().set_buckets(&[0.001, 0.1, 1.0]);
            Recorded(builder.unwrap().install_recorder().unwrap())
        });
        ONE.clone()
    }

    /// `name{label,label} kind` of each metric of the library.
    pub(crate) fn kinds(&self) -> BTreeSet<String> {
        let text = self.0.render();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let kind = |line: &str| {
            let (name, kind) = line.split_once(' ').unwrap();
            let of_it = |line: &&str| {
                let rest = line.strip_prefix(name);
                let rest = rest.and_then(|rest| rest.strip_prefix("_bucket").or(Some(rest)));
                rest.is_some_and(|rest| rest.starts_with('{'))
            };
            let labels = text.lines().filter(of_it).flat_map(labels);
            let names: BTreeSet<&str> = labels
                .map(|(name, _)| name)
                .filter(|it| *it != "le")
                .collect();
            let names = Vec::from_iter(names).join(",");
            format!("{name}{{{names}}} {kind}")
        };
        types.map(kind).collect()
    }

    /// Of a kind.
    pub(crate) fn is_described(&self, kind: &str) -> bool {
        let name = kind.split('{').next().unwrap();
        self.0.render().contains(&format!("# HELP {name} "))
    }

    pub(crate) fn values_of(&self, label: &str) -> BTreeSet<String> {
        let text = self.0.render();
        let labels = text.lines().flat_map(labels);
        let values = labels.filter(|(name, _)| *name == label);
        values.map(|(_, value)| value.to_owned()).collect()
    }

    /// The sum over all series of this metric with this label.
    pub(crate) fn total(&self, metric: &str, label: &str) -> f64 {
        self.values(metric, label).iter().sum()
    }

    /// How many series of this metric have this label.
    pub(crate) fn series(&self, metric: &str, label: &str) -> usize {
        self.values(metric, label).len()
    }

    fn values(&self, metric: &str, label: &str) -> Vec<f64> {
        let text = self.0.render();
        let of_it = |line: &&str| line.starts_with(&format!("{metric}{{")) && line.contains(label);
        let values = text
            .lines()
            .filter(of_it)
            .filter_map(|line| line.rsplit(' ').next());
        values.map(|value| value.parse().unwrap()).collect()
    }
}

fn labels(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let labels = line
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    let labels = labels
        .filter(|_| !line.starts_with('#'))
        .map_or("", |(labels, _)| labels);
    // Values contain no quotes; addresses of a node set contain commas.
    let pairs = labels.split_inclusive('"').collect::<Vec<_>>();
    let pairs = pairs.chunks_exact(2).map(|pair| {
        let name = pair[0].trim_start_matches(',').trim_end_matches("=\"");
        (name, pair[1].trim_end_matches('"'))
    });
    pairs.collect::<Vec<_>>().into_iter()
}
