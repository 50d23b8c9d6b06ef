//! A periodic job on many replicas, of which one at a time runs it: each tries the lock at every
//! tick without waiting, and skips the tick if another replica has it.
//!
//! ```sh
//! cargo run --release --example cron_singleton                             # needs no server
//! cargo run --release --example cron_singleton -- --replicas 5 --ticks 10
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example cron_singleton    # start it twice: they share the job
//! ```

#[path = "../shared/embedded.rs"]
mod embedded;
#[path = "../shared/stop_signal.rs"]
mod stop_signal;

use std::{pin::pin, time::Duration};

use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::{
    select,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use embedded::warn_if_embedded;
use stop_signal::stop_signal;

/// A short lease, so that a replica that dies is soon succeeded; renewed while the job runs; but
/// not for ever, should it hang. `max_hold` is also the longest time for which the end of the process
/// waits for the job, and Kubernetes sends SIGKILL 30 s after SIGTERM.
///
/// One at a time is not once a tick: a replica that ticks after the job's end would run it again.
/// `at_least` keeps the lock until all have ticked, also if the job took no time or failed.
///
/// A service calls `install` once and needs no `via`: here several replicas are one process.
#[redis_lock(key = "cron:report", expire = 1s, renew, max_hold = 20s, at_least = 1s, via = redlock)]
async fn report(redlock: &Redlock, replica: u32) -> Result<(), LockError> {
    println!("replica {replica} runs the job");
    sleep(Duration::from_millis(1_500)).await; // longer than the lease: `renew` at work
    Ok(())
}

#[derive(Default)]
struct Tally {
    ran: u32,
    skipped: u32,
    failed: u32,
}

async fn replica(number: u32, ticks: u32) -> anyhow::Result<Tally> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .build()
        .await?;
    if number == 1 {
        warn_if_embedded(&redlock);
    }

    // Replicas do not tick at the same instant. If they did, one of them would get the lock all the same.
    let start = Instant::now() + Duration::from_millis(100) * number;
    let mut interval = interval_at(start, Duration::from_secs(2));
    // A job that takes longer than a tick costs that tick; it must not be made up for.
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);

    let mut tally = Tally::default();
    let mut stop = pin!(stop_signal());
    for _ in 0..ticks {
        select! {
            biased; // or else a tick that is due as well could begin another job
            () = &mut stop => break,
            _ = interval.tick() => {}
        }
        match report(&redlock, number).await {
            Ok(()) => tally.ran += 1,
            Err(LockError::Contended(_)) => tally.skipped += 1,
            // The lock servers are down, or the job was cut off. The next tick tries again.
            Err(error) => {
                eprintln!("warning: replica {number}: {error}");
                tally.failed += 1;
            }
        }
    }
    // Sees the last release through.
    if let Err(left) = redlock.shutdown(Duration::from_secs(1)).await {
        eprintln!("warning: replica {number}: {left}");
    }
    Ok(tally)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (replicas, ticks) = options()?;
    let mut running: JoinSet<_> = (1..=replicas)
        .map(|number| replica(number, ticks))
        .collect();
    let mut sum = Tally::default();
    while let Some(tally) = running.join_next().await {
        let tally = tally??;
        sum.ran += tally.ran;
        sum.skipped += tally.skipped;
        sum.failed += tally.failed;
    }
    println!(
        "{ticks} ticks on {replicas} replicas: ran {}, skipped {}, failed {}",
        sum.ran, sum.skipped, sum.failed
    );
    Ok(())
}

fn options() -> Result<(u32, u32), lexopt::Error> {
    use lexopt::prelude::*;

    let (mut replicas, mut ticks) = (3, 3);
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Long("replicas") => replicas = args.value()?.parse()?,
            Long("ticks") => ticks = args.value()?.parse()?,
            _ => return Err(arg.unexpected()),
        }
    }
    Ok((replicas, ticks))
}
