//! What one node shows of one lock, now and after each change, over a connection of its own.

use std::{convert::Infallible, time::Duration};

use redis::Value;
use redlock_protocol::Why;
use tokio::time::{Instant, sleep, timeout};

use super::{connection, endpoint::Endpoint, memory::Parts, resp, wire::Wire};
use crate::script::{self, Word, words};

/// A server that notifies of changes is read this often nevertheless: an expired key is no change before the server
/// has found it.
const NOTIFIED: Duration = Duration::from_secs(1);

/// How often any other server is read.
const POLLED: Duration = Duration::from_millis(250);

/// No server is read more often, however often the lock changes.
const SHORTEST: Duration = Duration::from_millis(50);

/// How often a store in memory is read.
const IN_MEMORY: Duration = Duration::from_millis(20);

/// The pause after a connection has failed.
const RETRY: Duration = Duration::from_secs(1);

/// What stands under the key of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) owner: String,
    /// What the owner says beside it.
    pub(crate) note: Option<String>,
}

/// What a store in memory shows.
pub(super) async fn memory(read: impl Fn() -> Parts, report: impl Fn(Option<Option<Shown>>)) {
    loop {
        report(Some(shown_in_memory(read())));
        sleep(IN_MEMORY).await;
    }
}

/// What a server shows.
pub(super) async fn server(
    endpoint: &Endpoint,
    key: &str,
    limit: Duration,
    report: impl Fn(Option<Option<Shown>>),
) {
    loop {
        let Err(_) = follow_server(endpoint, key, limit, &report).await;
        report(None);
        sleep(RETRY).await;
    }
}

fn shown_in_memory(Parts { parts, note, .. }: Parts) -> Option<Shown> {
    let part = parts.first()?;
    let owner = part.owner.map(script::owner_text).unwrap_or_default();
    let note = note.map(|note| note.to_string());
    Some(Shown { owner, note })
}

/// Until the connection breaks.
async fn follow_server(
    endpoint: &Endpoint,
    key: &str,
    limit: Duration,
    report: &impl Fn(Option<Option<Shown>>),
) -> Result<Infallible, Why> {
    let late = |_| Why::from("no reply in time");
    let (mut wire, _) = timeout(limit, connection::enter(endpoint, None))
        .await
        .map_err(late)??;
    let tracking = words(["CLIENT", "TRACKING", "ON"]);
    let tracking = timeout(limit, wire.ask::<String>(tracking));
    // A user without the right is served, too.
    let pause = match tracking.await.map_err(late)? {
        Ok(_) => NOTIFIED,
        Err(_) => POLLED,
    };
    loop {
        let began = Instant::now();
        let shown = timeout(limit, read(&mut wire, key)).await.map_err(late)??;
        report(Some(shown));
        if let Ok(value) = timeout(pause, wire.next()).await {
            match value? {
                Value::Push { .. } => {}
                reply => return Err(connection::unasked(&reply)),
            }
            sleep(SHORTEST.saturating_sub(began.elapsed())).await;
        }
    }
}

async fn read(wire: &mut Wire, key: &str) -> Result<Option<Shown>, Why> {
    let both = [Word::Key(key), Word::Note(key)].map(|name| vec![Word::Text("GET"), name]);
    let mut replies = wire.exchange(&both).await?.into_iter();
    let mut text = || -> Result<Option<String>, Why> {
        let bytes: Option<Vec<u8>> = resp::read(replies.next().unwrap_or(Value::Nil))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (owner, kept) = (text()?, text()?);
    Ok(owner.map(|owner| {
        let note = kept.and_then(|kept| script::note_of(&owner, &kept).map(str::to_owned));
        Shown { owner, note }
    }))
}
