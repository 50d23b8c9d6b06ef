//! What was asked for on the command line.

use std::time::Duration;

use crate::{subject::Subject, workload::Workload};

pub(crate) struct Options {
    pub(crate) window: Duration,
    pub(crate) rounds: usize,
    pub(crate) json: bool,
    pub(crate) nodes: Vec<usize>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) subjects: Vec<Subject>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            window: Duration::from_secs(2),
            rounds: 3,
            json: false,
            nodes: vec![5],
            workloads: Workload::ALL.to_vec(),
            subjects: Subject::all(),
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
                "--only" => options.workloads = list(value()?, Workload::parse)?,
                "--subjects" => options.subjects = list(value()?, Subject::parse)?,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(options)
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
