//! What was asked for on the command line.

use std::time::Duration;

use crate::{
    subject::Subject,
    workload::{NODES, Workload},
};

pub(crate) struct Options {
    pub(crate) window: Duration,
    pub(crate) rounds: usize,
    pub(crate) json: bool,
    pub(crate) nodes: Vec<usize>,
    /// `None` means those that are usual for the number of nodes.
    pub(crate) workloads: Option<Vec<Workload>>,
    pub(crate) subjects: Vec<Subject>,
    /// How many are held at once in the workload that is about that.
    pub(crate) leases: usize,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            window: Duration::from_secs(1),
            rounds: 3,
            json: false,
            nodes: vec![NODES, 3, 1],
            workloads: None,
            subjects: Subject::ALL.to_vec(),
            leases: 100_000,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--json" => options.json = true,
                "--seconds" => options.window = seconds(value()?)?,
                "--rounds" => options.rounds = number(value()?)?,
                "--nodes" => options.nodes = list(value()?, number)?,
                "--only" => options.workloads = Some(list(value()?, Workload::parse)?),
                "--subjects" => options.subjects = list(value()?, Subject::parse)?,
                "--leases" => options.leases = number(value()?)?,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(options)
    }

    pub(crate) fn workloads(&self, nodes: usize) -> Vec<Workload> {
        match &self.workloads {
            Some(workloads) => workloads.clone(),
            None => Workload::ALL
                .into_iter()
                .filter(|workload| workload.is_usual(nodes))
                .collect(),
        }
    }
}

/// At most as long as the harness waits for a worker to say something.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| (0.05..=20.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text}: seconds must be from 0.05 to 20"))
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text} is not a positive number"))
}

fn list<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(parse).collect()
}
