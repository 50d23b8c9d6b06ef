//! One process of a measurement: connects, says `ready`, waits for a line, works until its time is
//! up, and says what came of it, in JSON.

use std::{
    error::Error,
    fs::File,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use redlock_tests::processor_time;
use serde_json::json;
use tokio::{runtime, task::JoinSet};

use crate::{
    client::{Client, Clients},
    hold::{Sections, Seen, Sleeper},
    subject::Subject,
    workload::Workload,
};

/// How many keys each worker goes through where keys are free.
const KEYS: usize = 4_096;

const WARM_UP: Duration = Duration::from_millis(200);

/// The arguments of a worker process, in this order.
struct Order {
    subject: Subject,
    workload: Workload,
    window: Duration,
    process: u64,
    record: String,
    urls: Vec<String>,
}

impl Order {
    fn parse(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let [subject, workload, millis, process, record, urls] = arguments else {
            return Err("a worker is started by the benchmark".into());
        };
        Ok(Self {
            subject: Subject::parse(subject)?,
            workload: Workload::parse(workload)?,
            window: Duration::from_millis(millis.parse()?),
            process: process.parse()?,
            record: record.clone(),
            urls: urls.split(',').map(str::to_owned).collect(),
        })
    }

    /// Of one of all workers.
    fn name(&self, number: usize) -> String {
        format!("{}:{number}", self.process)
    }
}

pub(crate) fn main(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let order = Order::parse(arguments)?;
    let runtime = runtime::Runtime::new()?;
    runtime.block_on(work(&order))?;
    // Not to wait for nodes that are silent.
    runtime.shutdown_background();
    Ok(())
}

async fn work(order: &Order) -> Result<(), Box<dyn Error>> {
    let record = File::options().read(true).write(true).open(&order.record)?;
    let record = Arc::new(record);
    let clients = Clients::connect(order.subject, &order.urls).await?;
    let sleeper = Sleeper::start();
    let mut workers = Vec::new();
    for number in 0..order.workload.workers() {
        let client = clients.client(order.name(number)).await?;
        workers.push(Worker::new(order, client, &record, &sleeper, number));
    }

    let warm = Instant::now() + WARM_UP;
    let way = order.subject;
    let mut workers = all(workers, way, move |worker| worker.warm_up(warm)).await?;
    println!("ready");
    tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new())).await??;

    let cpu = processor_time();
    let until = Instant::now() + order.window;
    for worker in &mut workers {
        worker.begin();
    }
    let workers = all(workers, way, move |worker| worker.work(until)).await?;
    let cpu = processor_time().saturating_sub(cpu);
    report(&workers, cpu);
    clients.finish().await;
    Ok(())
}

/// Runs all workers as tasks, or on threads that may block, and returns them.
async fn all<F>(
    workers: Vec<Worker>,
    way: Subject,
    run: impl Fn(Worker) -> F,
) -> Result<Vec<Worker>, tokio::task::JoinError>
where
    F: Future<Output = Worker> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for worker in workers {
        let run = run(worker);
        if way == Subject::Blocking {
            tasks.spawn_blocking(|| run.now_or_never().expect("blocks wherever others await"));
        } else {
            tasks.spawn(run);
        }
    }
    let mut workers = Vec::new();
    while let Some(worker) = tasks.join_next().await {
        workers.push(worker?);
    }
    Ok(workers)
}

struct Worker {
    client: Client,
    sections: Option<Sections>,
    warm_up: Vec<String>,
    keys: Vec<String>,
    next: usize,
    done: u64,
    errors: u64,
    pause: Duration,
    /// In tenths of a microsecond.
    waits: Vec<u32>,
}

impl Worker {
    fn new(
        order: &Order,
        client: Client,
        record: &Arc<File>,
        sleeper: &Sleeper,
        number: usize,
    ) -> Self {
        let name = order.name(number);
        let is_contended = order.workload.is_contended();
        let sections = || {
            Sections::new(
                Arc::clone(record),
                order.process,
                number as u64,
                order.workload.hold(),
                sleeper.clone(),
            )
        };
        let keys = match is_contended {
            true => vec!["one".to_owned()],
            false => (0..KEYS).map(|key| format!("key:{name}:{key}")).collect(),
        };
        Self {
            client,
            sections: is_contended.then(sections),
            warm_up: (0..64).map(|key| format!("warm:{name}:{key}")).collect(),
            keys,
            next: 0,
            done: 0,
            errors: 0,
            pause: order.workload.pause(),
            waits: Vec::new(),
        }
    }

    /// On keys that nobody else wants, and without a section.
    async fn warm_up(mut self, until: Instant) -> Self {
        while Instant::now() < until {
            let key = &self.warm_up[self.next % self.warm_up.len()];
            self.next += 1;
            // The measurement itself tells of errors.
            let _ = self.client.cycle(key, None).await;
        }
        self
    }

    fn begin(&mut self) {
        self.next = 0;
        self.waits.reserve(1 << 14);
    }

    /// A cycle that ends after the time is up does not count, but its wait does: the wait of one
    /// that gets nothing is the longest of all.
    async fn work(mut self, until: Instant) -> Self {
        while Instant::now() < until {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            let key = &self.keys[self.next % self.keys.len()];
            self.next += 1;
            match self.client.cycle(key, self.sections.as_mut()).await {
                Ok(wait) => {
                    self.waits.push(tenths(wait));
                    self.done += u64::from(Instant::now() < until);
                }
                Err(error) => {
                    if self.errors == 0 {
                        eprintln!("{error}");
                    }
                    self.errors += 1;
                }
            }
        }
        self
    }
}

fn tenths(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 100).unwrap_or(u32::MAX)
}

fn report(workers: &[Worker], cpu: Duration) {
    let seen = |field: fn(Seen) -> u64| -> u64 {
        let seen = workers.iter().filter_map(|worker| worker.sections.as_ref());
        seen.map(|sections| field(sections.seen)).sum()
    };
    let report = json!({
        "done": workers.iter().map(|worker| worker.done).collect::<Vec<_>>(),
        "errors": workers.iter().map(|worker| worker.errors).sum::<u64>(),
        "overlaps": seen(|seen| seen.overlaps),
        "sections": seen(|seen| seen.sections),
        "held_us": seen(|seen| seen.held.as_micros() as u64),
        "cpu_us": cpu.as_micros() as u64,
        "waits": workers.iter().flat_map(|worker| &worker.waits).collect::<Vec<_>>(),
    });
    println!("{report}");
}
