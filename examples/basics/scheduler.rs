//! A scheduler on three replicas, of which one at a time leads. The leader starts a job at every tick; the others
//! wait until it resigns or dies.
//!
//! ```sh
//! cargo run --release --example scheduler                             # needs no server
//! cargo run --release --example scheduler -- --replicas 5 --ticks 10
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example scheduler    # start it twice, and kill the one that leads
//! ```

#[path = "../shared/embedded.rs"]
mod embedded;
#[path = "../shared/stop_signal.rs"]
mod stop_signal;

use std::time::Duration;

use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::{
    select,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use embedded::warn_if_embedded;
use stop_signal::stop_signal;

/// After the leader's process has died, the next replica leads when this lease has run out.
const LEASE: Duration = Duration::from_secs(2);

/// The loop of the leader. It is dropped at its `.await` if the leadership is lost, and begins again with the next
/// one. Others see the value: `redlock inspect scheduler`, or `redlock.leader("scheduler").observe()`.
#[redis_lock(
    key = "scheduler",
    leader,
    expire = LEASE,
    value = format!("replica {replica}"),
    lease = lease,
    via = redlock
)]
async fn schedule(redlock: &Redlock, replica: u32, ticks: u32) -> Result<(), LockError> {
    println!("replica {replica} leads");
    let mut interval = interval(Duration::from_millis(100));
    // The ticks that a long job has missed are not made up for.
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for _ in 0..ticks {
        interval.tick().await;
        // A real job sends the token with its writes, so that the store refuses those of an earlier leader.
        let token = lease.fencing_token()?;
        println!("replica {replica} starts a job with token {token}");
    }
    Ok(())
}

/// Leads for this many ticks, and then leaves the leadership to the next replica.
async fn replica(number: u32, ticks: u32) -> anyhow::Result<bool> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .build()
        .await?;
    if number == 1 {
        warn_if_embedded(&redlock);
    }
    let has_led = select! {
        led = schedule(&redlock, number, ticks) => {
            led?;
            true
        }
        // Dropping its future resigns.
        () = stop_signal() => false,
    };
    // Sees the resignation through.
    redlock.shutdown(Duration::from_secs(1)).await?;
    Ok(has_led)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (replicas, ticks) = options()?;
    let mut running: JoinSet<_> = (1..=replicas)
        .map(|number| replica(number, ticks))
        .collect();
    let mut led = 0;
    while let Some(has_led) = running.join_next().await {
        led += u32::from(has_led??);
    }
    println!("{led} of {replicas} replicas led, one after the other");
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
