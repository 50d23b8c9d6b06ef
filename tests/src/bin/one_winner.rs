//! Processes ask for one lock at the same instant, once and without waiting: one of them gets it,
//! each time.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin one_winner -- [times, by default 1000]
//! ```
//!
//! Five processes, five real servers. Fails unless every time had exactly one winner.

use std::{
    env,
    error::Error,
    io::{self, BufRead, Lines, StdinLock},
    process::ExitCode,
    thread,
    time::Duration,
};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, Worker};
use rustix::time::{ClockId, clock_gettime};

const PROCESSES: usize = 5;

/// From the order to the instant: all have read it by then.
const NOTICE: Duration = Duration::from_millis(5);

/// Outlasts the wait for the answers of all. Its rounds wait for a second, too long for a busy machine
/// to make a healthy node look silent.
const LEASE: Duration = Duration::from_secs(60);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("ask") => ask_in_turn().map(|()| ExitCode::SUCCESS),
        Some(times) => coordinate(times.parse()?),
        None => coordinate(1_000),
    }
}

fn coordinate(times: usize) -> Result<ExitCode, Box<dyn Error>> {
    let cluster = Cluster::start(5);
    let nodes = cluster.url_list();
    let start = |_| Worker::of_this_program(&["ask"], &[("REDLOCK_NODES", &nodes)]);
    let workers: Vec<Worker> = (0..PROCESSES).map(start).collect();
    for worker in &workers {
        worker.expect_line("ready");
    }
    let mut wins = [0; PROCESSES];
    let mut failures = 0;
    for time in 0..times {
        let instant = (now() + NOTICE).as_nanos().to_string();
        for worker in &workers {
            worker.send_line(&instant);
        }
        let answers: Vec<String> = workers.iter().map(|of| of.wait_line(|_| true)).collect();
        let mut winners = 0;
        for (answer, wins) in answers.iter().zip(&mut wins) {
            winners += usize::from(answer == WON);
            *wins += usize::from(answer == WON);
        }
        if winners != 1 {
            failures += 1;
            println!("time {time}: {winners} winners: {answers:#?}");
        }
        for worker in &workers {
            worker.send_line("end");
        }
        for worker in &workers {
            worker.expect_line("ended");
        }
    }
    for worker in &workers {
        worker.wait_success();
    }
    println!(
        "{times} times, {failures} of them without exactly one winner; each process won {wins:?}"
    );
    Ok(ExitCode::from(u8::from(failures > 0)))
}

const WON: &str = "won";

/// One process: reads an instant, asks at that instant, tells, and ends its section when told.
#[tokio::main(flavor = "current_thread")]
async fn ask_in_turn() -> Result<(), Box<dyn Error>> {
    let redlock = Redlock::builder().assume_fresh(true).build().await?;
    let mut orders = io::stdin().lock().lines();
    println!("ready");
    while let Some(instant) = orders.next().transpose()? {
        let instant = Duration::from_nanos(instant.parse()?);
        // The engine has a thread of its own.
        thread::sleep(instant.saturating_sub(now()));
        let asked = redlock.lock("one").expire(LEASE).acquire().await;
        match &asked {
            Ok(_) => println!("{WON}"),
            Err(error) => println!("{error}"),
        }
        expect(&mut orders, "end")?;
        if let Ok(guard) = asked {
            guard.release().await;
        }
        println!("ended");
    }
    Ok(())
}

fn expect(orders: &mut Lines<StdinLock<'_>>, order: &str) -> Result<(), Box<dyn Error>> {
    match orders.next().transpose()? {
        Some(line) if line == order => Ok(()),
        other => Err(format!("{other:?} instead of {order}").into()),
    }
}

/// The same clock for all processes.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
