//! What happened to the keys of a server, from its keyspace notifications.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use redis::{Connection, Msg, RedisResult};

use super::link::Link;
use crate::wait::Board;

/// The key events of one life of a server, recorded by a thread that ends with it.
#[derive(Clone, Debug)]
pub(super) struct History(Board<Record>);

impl History {
    /// Begins to record; nothing that happens after the return is missed.
    pub(super) fn record(link: &Link) -> Self {
        let record = Board::new(Record::default());
        let writer = record.clone();
        let connection = link
            .connect()
            .expect("a server that serves takes connections");
        let (subscribed, is_subscribed) = mpsc::channel();
        thread::spawn(move || {
            // An error is the end of the server, or a test that closes all its connections.
            let _ = listen(connection, &writer, &subscribed);
            writer.update(|record| record.ended = true);
        });
        is_subscribed
            .recv()
            .expect("the server takes subscriptions");
        Self(record)
    }

    /// Waits until everything that the server has answered so far is recorded.
    ///
    /// A published number goes through the server and back over the connection that carries the
    /// events, and so arrives after them.
    #[track_caller]
    pub(super) fn catch_up(&self, link: &Link) {
        let fence = self.0.update(|record| {
            record.fences_sent += 1;
            record.fences_sent
        });
        let published = link.query::<u64>(&["PUBLISH", FENCE, &fence.to_string()]);
        if let Err(error) = published {
            panic!("PUBLISH: {error}");
        }
        self.0.wait("the key events of the server", |record| {
            assert!(
                !record.ended,
                "the server has closed the connection for key events"
            );
            (record.fences_seen >= fence).then_some(())
        });
    }

    pub(super) fn of(&self, key: &str) -> Vec<String> {
        self.0.read(|record| record.of(key).cloned().collect())
    }

    /// Waits until `key` has more than `seen` events; whether that happened before `deadline`.
    pub(super) fn wait_more(&self, key: &str, seen: usize, deadline: Instant) -> bool {
        let more = self.0.wait_until(deadline, |record| {
            (record.of(key).count() > seen || record.ended).then_some(())
        });
        more.is_ok()
    }

    #[track_caller]
    pub(super) fn wait_event(&self, key: &str, event: &str, count: usize) {
        self.0.wait(&describe(key, event, count), |record| {
            record.has(key, event, count).then_some(())
        });
    }

    #[track_caller]
    pub(super) fn await_event(
        &self,
        key: &str,
        event: &str,
        count: usize,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (key, event) = (key.to_owned(), event.to_owned());
        self.0
            .wait_async(describe(&key, &event, count), move |record| {
                record.has(&key, &event, count).then_some(())
            })
    }
}

#[derive(Debug, Default)]
struct Record {
    /// Key and event, oldest first.
    events: Vec<(String, String)>,
    fences_sent: u64,
    fences_seen: u64,
    ended: bool,
}

impl Record {
    fn of(&self, key: &str) -> impl Iterator<Item = &String> {
        self.events
            .iter()
            .filter(move |(of, _)| of == key)
            .map(|(_, event)| event)
    }

    fn has(&self, key: &str, event: &str, count: usize) -> bool {
        self.of(key).filter(|seen| *seen == event).count() >= count
    }

    fn add(&mut self, message: &Msg) {
        let payload = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
        match message.get_channel_name().split_once("__:") {
            Some((_, event)) => self.events.push((payload, event.to_owned())),
            // Several threads may publish, and not in the order of their numbers.
            None => {
                let fence = payload.parse().unwrap_or(0);
                self.fences_seen = self.fences_seen.max(fence);
            }
        }
    }
}

fn listen(
    mut connection: Connection,
    record: &Board<Record>,
    subscribed: &mpsc::Sender<()>,
) -> RedisResult<()> {
    let mut events = connection.as_pubsub();
    events.psubscribe("__keyevent@*__:*")?;
    events.subscribe(FENCE)?;
    // Nothing may happen for a long time.
    events.set_read_timeout(None::<Duration>)?;
    let _ = subscribed.send(());
    loop {
        let message = events.get_message()?;
        record.update(|record| record.add(&message));
    }
}

fn describe(key: &str, event: &str, count: usize) -> String {
    format!("{count} times {event} of {key}")
}

const FENCE: &str = "redlock-tests:fence";
