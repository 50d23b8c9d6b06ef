//! Starts servers and worker processes, lets subjects take turns, and gathers their figures.

use std::{error::Error, fs::File, io, thread, time::Duration};

use redlock_tests::{Cluster, Postgres, Server, Worker};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{
    delay,
    figures::{Figures, Result as Measured},
    options::Options,
    subject::Subject,
    workload::{NODES, Workload},
};

pub(crate) struct Bench<'a> {
    cluster: Cluster,
    /// The same servers over a slow network.
    delayed: Vec<String>,
    postgres: Option<Postgres>,
    options: &'a Options,
}

impl<'a> Bench<'a> {
    pub(crate) fn start(nodes: usize, options: &'a Options) -> io::Result<Self> {
        // The harness records what happens to keys, which costs more than the lock does.
        let quiet = Server::builder().args(["--notify-keyspace-events", ""]);
        let cluster = Cluster::start_with(nodes, &quiet);
        Ok(Self {
            delayed: delay::in_front_of(&cluster)?,
            postgres: (options.subjects.contains(&Subject::Postgres) && nodes == NODES)
                .then(Postgres::start),
            cluster,
            options,
        })
    }

    /// All workloads and subjects take turns, so that what else the machine does falls on all.
    pub(crate) fn measure(&self) -> Result<Vec<Measured>, Box<dyn Error>> {
        let mut results = self.plan();
        for round in 1..=self.options.rounds {
            for result in &mut results {
                let (subject, workload) = (result.subject, result.workload);
                // It takes half a minute, and measures a hundred thousand times.
                if workload == Workload::Leases && round > 1 {
                    continue;
                }
                eprint!(
                    "\r\x1b[Kround {round}: {} {}",
                    workload.name(),
                    subject.name()
                );
                result.rounds.push(match workload {
                    Workload::Leases => self.run_leases()?,
                    _ => self.run(subject, workload)?,
                });
                result.load = load();
            }
        }
        eprint!("\r\x1b[K");
        Ok(results)
    }

    fn plan(&self) -> Vec<Measured> {
        let nodes = self.cluster.len();
        let mut plan = Vec::new();
        for workload in self.options.workloads(nodes) {
            for &subject in &self.options.subjects {
                if subject.takes_part(workload, nodes) && workload.is_possible(nodes) {
                    plan.push(Measured::new(subject, workload, nodes));
                }
            }
        }
        plan
    }

    /// All processes of one subject, side by side.
    fn run(&self, subject: Subject, workload: Workload) -> Result<Figures, Box<dyn Error>> {
        for node in &self.cluster {
            node.command(&["FLUSHALL"]);
        }
        if workload == Workload::FreePersistent {
            self.cluster.iter().for_each(persist);
        }
        let record = NamedTempFile::new()?;
        record.as_file().set_len(8)?;
        let path = record.path().to_string_lossy();
        let workers: Vec<Worker> = (0..workload.processes())
            .map(|process| self.spawn(subject, workload, process, &path))
            .collect();
        for worker in &workers {
            worker.expect_line("ready");
        }

        let before = self.node_cpu_us(subject, workload);
        let spoilt = &self.cluster[self.cluster.len() - 1];
        match workload {
            Workload::FreeOneDead => spoilt.kill(),
            Workload::FreeOneSilent => spoilt.stop(),
            _ => {}
        }
        for worker in &workers {
            worker.send_line("go");
        }
        let reports: Vec<Value> = workers
            .iter()
            .map(|worker| serde_json::from_str(&worker.wait_line(|_| true)))
            .collect::<Result<_, _>>()?;
        let node_cpu_us = self.node_cpu_us(subject, workload) - before;
        for worker in &workers {
            worker.wait_success();
        }
        match workload {
            Workload::FreeOneDead => spoilt.restart(),
            Workload::FreeOneSilent => spoilt.cont(),
            Workload::FreePersistent => {
                for node in &self.cluster {
                    node.command(&["CONFIG", "SET", "appendonly", "no"]);
                }
            }
            _ => {}
        }
        Figures::of(&reports, node_cpu_us, self.options.window)
    }

    /// One process with many locks.
    fn run_leases(&self) -> Result<Figures, Box<dyn Error>> {
        for node in &self.cluster {
            node.command(&["FLUSHALL"]);
        }
        let (leases, urls) = (self.options.leases.to_string(), self.cluster.url_list());
        let worker = Worker::of_this_program(&["leases", &leases, &urls], &[]);
        let report = loop {
            let line = worker.wait_line(|_| true);
            if line.starts_with('{') {
                break serde_json::from_str(&line)?;
            }
        };
        worker.wait_success();
        Ok(Figures::of_leases(&report))
    }

    /// Processor time of all nodes so far, in microseconds; unknown where one of them cannot be asked.
    fn node_cpu_us(&self, subject: Subject, workload: Workload) -> f64 {
        let is_spoilt = matches!(workload, Workload::FreeOneDead | Workload::FreeOneSilent);
        if is_spoilt || subject == Subject::Postgres {
            return f64::NAN;
        }
        let mut sum = 0.0;
        for node in &self.cluster {
            let cpu = node.info("cpu");
            for field in ["used_cpu_user", "used_cpu_sys"] {
                let seconds = cpu.get(field).and_then(|value| value.trim().parse().ok());
                sum += seconds.unwrap_or(f64::NAN) * 1e6;
            }
        }
        sum
    }

    fn spawn(&self, subject: Subject, workload: Workload, process: usize, record: &str) -> Worker {
        let urls = match (subject, workload, &self.postgres) {
            (Subject::Postgres, _, Some(postgres)) => postgres.url(),
            (Subject::Distkit, ..) => self.cluster[0].url(),
            (_, Workload::FreeDelayed, _) => self.delayed.join(","),
            _ => self.cluster.url_list(),
        };
        let [window, process] =
            [self.options.window.as_millis(), process as u128].map(|number| number.to_string());
        let (subject, workload) = (subject.name(), workload.name());
        let args = [
            "worker", subject, workload, &window, &process, record, &urls,
        ];
        Worker::of_this_program(&args, &[])
    }
}

/// Makes a server confirm nothing that is not on its disk.
fn persist(node: &Server) {
    node.command(&["CONFIG", "SET", "appendfsync", "always"]);
    node.command(&["CONFIG", "SET", "appendonly", "yes"]);
    let is_written = || {
        let persistence = node.info("persistence");
        let is_over = |field| {
            persistence
                .get(field)
                .is_some_and(|value| value.trim() == "0")
        };
        is_over("aof_rewrite_in_progress") && is_over("aof_rewrite_scheduled")
    };
    while !is_written() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What else the machine has been doing: its load over one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let load = io::read_to_string(File::open("/proc/loadavg").expect("this is Linux"));
    let load = load.unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
