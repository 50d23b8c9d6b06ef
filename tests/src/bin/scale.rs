//! What many locks cost one process: time and memory for each that is held and renewed, and for
//! each caller that waits.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin scale -- [counts, by default 1 100 10000 100000]
//! ```
//!
//! Five real servers. One JSON line for each count.

use std::{
    error::Error,
    fs,
    time::{Duration, Instant},
};

use redlock_runtime::{Guard, Redlock};
use redlock_tests::{Cluster, processor_time};
use serde_json::json;
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(30);

/// How many callers ask at a time.
const CONCURRENT: usize = 256;

/// How long renewals are watched: more than one interval of them.
const WATCHED: Duration = Duration::from_secs(12);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counts: Vec<usize> = std::env::args()
        .skip(1)
        .map(|count| count.parse())
        .collect::<Result<_, _>>()?;
    let counts = if counts.is_empty() {
        vec![1, 100, 10_000, 100_000]
    } else {
        counts
    };
    let cluster = Cluster::start(5);
    for count in counts {
        let redlock = Redlock::builder()
            .nodes(cluster.urls())
            .assume_fresh(true)
            .build()
            .await?;
        println!("{}", measure(&redlock, count).await?);
        redlock.shutdown(LEASE).await?;
    }
    Ok(())
}

async fn measure(redlock: &Redlock, count: usize) -> Result<serde_json::Value, Box<dyn Error>> {
    let (memory, began) = (resident()?, Instant::now());
    let held = hold_many(redlock, count).await?;
    let acquired = began.elapsed();
    let held_memory = resident()?.saturating_sub(memory);

    let processor = processor_time();
    tokio::time::sleep(WATCHED).await;
    let renewing = processor_time() - processor;
    let still_held = held.iter().filter(|guard| guard.is_held()).count();

    let memory = resident()?;
    let mut waiting = JoinSet::new();
    let key = held[0].key().to_owned();
    for _ in 0..count {
        waiting.spawn(redlock.lock(key.as_str()).wait(2 * LEASE).acquire());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waiting_memory = resident()?.saturating_sub(memory);
    let began = Instant::now();
    waiting.shutdown().await;
    let left = began.elapsed();

    let began = Instant::now();
    for guard in held {
        drop(guard);
    }
    redlock.lock("last").acquire().await?.release().await;
    let released = began.elapsed();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    Ok(json!({
        "locks": count,
        "acquire_us_each": each(acquired),
        "held_bytes_each": held_memory / count as u64,
        "still_held_after_renewals": still_held,
        "processor_share_of_renewals": renewing.as_secs_f64() / WATCHED.as_secs_f64(),
        "waiting_bytes_each": waiting_memory / count as u64,
        "cancel_us_each": each(left),
        "release_us_each": each(released),
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
        let lock = redlock.lock(format!("scale:{lock}")).expire(LEASE).renew();
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
