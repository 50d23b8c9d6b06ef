//! Questions of operators, over connections of their own: nothing of them is between the requests of
//! callers, and a node set need not be at work.

use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::join_all;
use redis::Value;
use redlock_protocol::Why;
use tokio::{sync::oneshot, time::timeout};

use super::{connection, endpoint::Endpoint};
use crate::script::{Command, Word, words};

/// How often a clock is read. The reading with the shortest way counts.
const READINGS: usize = 5;

/// Where to, and what.
pub(crate) type Question = (Endpoint, Vec<Vec<String>>);

/// A server's clock beside the one of this machine.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// How long the server takes to reply.
    pub round_trip: Duration,
    /// Its time, and the time here when it was read; both since 1970. Exact to half a round trip.
    pub times: [Duration; 2],
}

/// Asks each server what stands beside it; all replies of a server in order, errors among them, or why it
/// has given none within `limit`.
pub(crate) async fn inquire(
    questions: Vec<Question>,
    limit: Duration,
) -> Vec<Result<Vec<Value>, Why>> {
    let ask = async |(endpoint, commands): &Question| {
        let commands: Vec<Command<'_>> = commands.iter().map(|words| texts(words)).collect();
        let (mut wire, _) = connection::enter(endpoint, None).await?;
        wire.exchange(&commands).await
    };
    of_all(questions, limit, ask).await
}

fn texts(words: &[String]) -> Command<'_> {
    words.iter().map(|word| Word::Text(word)).collect()
}

/// Reads the clocks of servers, or why one does not tell its time.
pub(crate) async fn read_clocks(
    endpoints: Vec<Endpoint>,
    limit: Duration,
) -> Vec<Result<ClockReading, Why>> {
    let read = async |endpoint: &Endpoint| {
        let (mut wire, _) = connection::enter(endpoint, None).await?;
        let mut readings = Vec::new();
        for _ in 0..READINGS {
            let (began, clock) = (Instant::now(), SystemTime::now());
            let (seconds, micros): (u64, u64) = wire.ask(words(["TIME"])).await?;
            let round_trip = began.elapsed();
            let ours = clock.duration_since(SystemTime::UNIX_EPOCH);
            let theirs = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
            readings.push(ClockReading {
                round_trip,
                times: [theirs, ours.unwrap_or_default() + round_trip / 2],
            });
        }
        let best = readings
            .into_iter()
            .min_by_key(|reading| reading.round_trip);
        best.ok_or_else(|| "the clock was not read".into())
    };
    of_all(endpoints, limit, read).await
}

/// Does it for all at once, on a thread of its own, so that it can be awaited anywhere.
async fn of_all<I: Send + 'static, T: Send + 'static>(
    all: Vec<I>,
    limit: Duration,
    ask: impl AsyncFn(&I) -> Result<T, Why> + Send + 'static,
) -> Vec<Result<T, Why>> {
    let count = all.len();
    if count == 0 {
        return Vec::new();
    }
    let (answer, answered) = oneshot::channel();
    let ask_all = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else {
            return;
        };
        let in_time = async |one: &I| match timeout(limit, ask(one)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no reply within {limit:.1?}").into()),
        };
        let _ = answer.send(runtime.block_on(join_all(all.iter().map(in_time))));
    };
    let thread = thread::Builder::new().name("redlock-inquiry".to_owned());
    // Or a provider of credentials has panicked.
    let cannot_run = || (0..count).map(|_| Err("the question was not asked".into()));
    match thread.spawn(ask_all) {
        Ok(_) => answered.await.unwrap_or_else(|_| cannot_run().collect()),
        Err(_) => cannot_run().collect(),
    }
}
