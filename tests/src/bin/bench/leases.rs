//! What many locks cost one process: time and memory for each that is held and renewed, and for
//! each caller that waits.

use std::{
    error::Error,
    fs, thread,
    time::{Duration, Instant},
};

use redlock_runtime::{Guard, Redlock};
use redlock_tests::processor_time;
use serde_json::{Value, json};
use tokio::{runtime, task::JoinSet};

use crate::client::redlock;

const LEASE: Duration = Duration::from_secs(30);

/// How many callers ask at a time.
const CONCURRENT: usize = 256;

/// How long renewals are watched: more than one interval of them.
const WATCHED: Duration = Duration::from_secs(12);

/// How often the process says that it works: the harness gives up one that says nothing for longer.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// A process that measures `count` locks, and says what came of it, in JSON.
pub(crate) fn main(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [count, urls] = arguments else {
        return Err("this process is started by the benchmark".into());
    };
    let count = count.parse()?;
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    thread::spawn(|| {
        loop {
            thread::sleep(SIGN_OF_LIFE);
            println!("works");
        }
    });
    runtime::Runtime::new()?.block_on(async {
        let redlock = redlock(&urls).await?;
        let report = measure(&redlock, count).await;
        let _ = redlock.shutdown(LEASE).await;
        // A machine that is too slow for so many must not cost the run its other figures.
        println!("{}", report.unwrap_or_else(|error| failed(error.as_ref())));
        Ok(())
    })
}

fn failed(error: &dyn Error) -> Value {
    eprintln!("{error}");
    json!({})
}

async fn measure(redlock: &Redlock, count: usize) -> Result<Value, Box<dyn Error>> {
    let (memory, began) = (resident()?, Instant::now());
    let held = hold_many(redlock, count).await?;
    let acquired = began.elapsed();
    let held_memory = resident()?.saturating_sub(memory);

    let processor = processor_time();
    tokio::time::sleep(WATCHED).await;
    let renewing = processor_time() - processor;
    let lost = held.iter().filter(|guard| !guard.is_held()).count();

    let memory = resident()?;
    let mut waiting = JoinSet::new();
    let key = held[0].key().to_owned();
    for _ in 0..count {
        waiting.spawn(redlock.lock(key.as_str()).wait(2 * LEASE).acquire());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting_memory = resident()?.saturating_sub(memory);
    waiting.shutdown().await;
    Ok(json!({
        "leases": count,
        "acquire_us_each": acquired.as_secs_f64() * 1e6 / count as f64,
        "held_bytes_each": held_memory / count as u64,
        "errors": lost,
        "renewal_cpu_share": renewing.as_secs_f64() / WATCHED.as_secs_f64(),
        "waiting_bytes_each": waiting_memory / count as u64,
    }))
}

async fn hold_many(redlock: &Redlock, count: usize) -> Result<Vec<Guard>, Box<dyn Error>> {
    let mut asking = JoinSet::new();
    let mut held = Vec::with_capacity(count);
    for lock in 0..count {
        if asking.len() == CONCURRENT
            && let Some(guard) = asking.join_next().await
        {
            held.push(guard??);
        }
        let lock = redlock.lock(format!("lease:{lock}")).expire(LEASE).renew();
        // A node that is too busy to answer in time is asked again.
        let lock = lock.wait(LEASE);
        asking.spawn(lock.acquire());
    }
    while let Some(guard) = asking.join_next().await {
        held.push(guard??);
    }
    Ok(held)
}

/// Memory of this process, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
