//! How long a call takes, on one node in memory: what is left is this library, and the way to its
//! engine's thread and back.

use std::{
    cell::Cell, error::Error, future::poll_fn, hint::black_box, pin::pin, task::Poll, time::Instant,
};

use redlock_runtime::{Installed, LockError};
use tokio::runtime::Runtime;

use crate::{functions::yielding, install, median, one_node, polls::Yields};

const ROUNDS: usize = 31;
const CALLS: u64 = 1000;
const YIELDS: u32 = 100_000;

pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let runtime = crate::current_thread()?;
    let installed = runtime.block_on(install())?;
    print("a call, engine on its own thread, µs", calls(&runtime)?);
    print("a poll of a body that only yields, ns", polls(&runtime)?);
    drop(installed);
    let installed = runtime.block_on(install_here(&runtime))?;
    print("a call, engine on the caller's, µs", calls(&runtime)?);
    drop(installed);
    Ok(())
}

async fn install_here(runtime: &Runtime) -> Result<Installed, redlock_runtime::ConfigError> {
    one_node().runtime(runtime.handle().clone()).install().await
}

/// Microseconds per call, by round and function.
fn calls(runtime: &Runtime) -> Result<[Vec<f64>; 3], LockError> {
    let polls = Cell::new(0);
    let yields = || Yields::new(0, &polls);
    let per_call = 1e6 / CALLS as f64;
    rounds(
        per_call,
        || runtime.block_on(repeat(|key| yielding::annotated(key, yields()))),
        || runtime.block_on(repeat(|key| yielding::hold(key, yields()))),
        || runtime.block_on(repeat(|key| yielding::plain(key, yields()))),
    )
}

/// Nanoseconds per poll, by round and function. The one call among all the polls is lost in them.
fn polls(runtime: &Runtime) -> Result<[Vec<f64>; 3], LockError> {
    let polls = Cell::new(0);
    let yields = || Yields::new(YIELDS, &polls);
    let per_poll = 1e9 / f64::from(YIELDS);
    rounds(
        per_poll,
        || runtime.block_on(busy(yielding::annotated(0, yields()), &polls)),
        || runtime.block_on(busy(yielding::hold(0, yields()), &polls)),
        || runtime.block_on(busy(yielding::plain(0, yields()), &polls)),
    )
}

/// Polls again at once where the body was reached, so that the runtime's own time is not in it.
async fn busy(
    call: impl Future<Output = Result<u64, LockError>>,
    polls: &Cell<u32>,
) -> Result<(), LockError> {
    let mut call = pin!(call);
    poll_fn(|context| {
        loop {
            let before = polls.get();
            match call.as_mut().poll(context) {
                Poll::Pending if polls.get() != before => (),
                polled => return polled,
            }
        }
    })
    .await
    .map(drop)
}

async fn repeat<F>(call: impl Fn(u64) -> F) -> Result<(), LockError>
where
    F: Future<Output = Result<u64, LockError>>,
{
    for key in 0..CALLS {
        black_box(call(black_box(key)).await?);
    }
    Ok(())
}

/// Takes turns, and begins each round with another one; a first round that does not count warms
/// everything up.
fn rounds(
    unit: f64,
    mut annotated: impl FnMut() -> Result<(), LockError>,
    mut hold: impl FnMut() -> Result<(), LockError>,
    mut plain: impl FnMut() -> Result<(), LockError>,
) -> Result<[Vec<f64>; 3], LockError> {
    let runs: [&mut dyn FnMut() -> Result<(), LockError>; 3] =
        [&mut annotated, &mut hold, &mut plain];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        for turn in 0..runs.len() {
            let which = (round + turn) % runs.len();
            let start = Instant::now();
            runs[which]()?;
            let time = start.elapsed().as_secs_f64() * unit;
            if round > 0 {
                times[which].push(time);
            }
        }
    }
    Ok(times)
}

/// The ratio is that within each round, so that what slows down a whole round is not in it.
fn print(name: &str, [annotated, hold, plain]: [Vec<f64>; 3]) {
    let ratios = annotated.iter().zip(&hold).map(|(this, that)| this / that);
    let ratio = median(ratios.collect());
    let [annotated, hold, plain] = [annotated, hold, plain].map(median);
    println!(
        "{name}: annotated {annotated:.2}, hold {hold:.2}, plain {plain:.2}; annotated / hold {ratio:.2}"
    );
}
