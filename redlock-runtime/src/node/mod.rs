//! One node: requests out in their order, answers in as events. Decides nothing, and has no
//! clock: what takes too long is given up by the protocol.
//!
//! A node is no task of its own. The engine polls it, so that a request takes one wake-up less on
//! its way out, and an answer one less on its way back.

mod connection;
#[cfg(feature = "test-util")]
mod faulty;
mod memory;
mod reply;
#[cfg(all(test, unix))]
mod tests;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{ConnectionInfo, Pipeline, PushInfo, RedisError, Value};
use redlock_protocol::{ConnectionId, Event, NodeId, Order, Request, RequestId};

use self::connection::Connection;
#[cfg(feature = "test-util")]
pub(crate) use self::faulty::{Behavior, Faulty, FaultyLink};
pub(crate) use self::{connection::with_protocol, memory::Memory};
use crate::script;

/// How many requests go out as one pipeline at the most, so that the first answers are read
/// while the last requests are still being written.
const LARGEST_BATCH: usize = 256;

/// Where a node is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Redis(Box<ConnectionInfo>),
    Memory(Arc<Memory>),
    #[cfg(feature = "test-util")]
    Faulty(Arc<Faulty>),
}

/// A Redis server.
pub(crate) struct Server {
    node: NodeId,
    info: Box<ConnectionInfo>,
    /// The name of what the library keeps there beside the locks.
    hash: String,
    state: State,
    /// Goes out with the next [`flush`](Self::flush).
    queue: Vec<Order>,
}

enum State {
    Idle,
    Opening(
        ConnectionId,
        BoxFuture<'static, Result<Connection, Arc<str>>>,
    ),
    Open(ConnectionId, Session),
}

/// The life of one connection.
struct Session {
    connection: Connection,
    in_flight: FuturesUnordered<BoxFuture<'static, Answered>>,
}

/// What each answer is for: nothing, where a command only goes before another.
type Asked = Vec<Option<(RequestId, Request)>>;

type Answered = (Asked, Result<Vec<Value>, RedisError>);

impl Server {
    pub(crate) fn new(node: NodeId, info: Box<ConnectionInfo>) -> Self {
        Self {
            node,
            hash: script::node_hash(info.redis_settings().db()),
            info,
            state: State::Idle,
            queue: Vec::new(),
        }
    }

    /// Makes a connection, which comes out of [`poll`](Self::poll).
    pub(crate) fn connect(&mut self, connection: ConnectionId) {
        let info = self.info.clone();
        let opening = async move { Connection::open(&info).await };
        self.state = State::Opening(connection, Box::pin(opening));
    }

    /// Gives up the connection, or the attempt to make one.
    pub(crate) fn disconnect(&mut self) {
        self.state = State::Idle;
        self.queue.clear();
    }

    /// Takes a request on. Without a connection it is passed over: the protocol learns of the
    /// broken connection and counts whatever was on it as unanswered.
    pub(crate) fn send(&mut self, order: Order) {
        if matches!(self.state, State::Open(..)) {
            self.queue.push(order);
        }
    }

    /// Sends all that has been taken on, once the node is polled.
    pub(crate) fn flush(&mut self) {
        let State::Open(_, session) = &mut self.state else {
            return;
        };
        while !self.queue.is_empty() {
            let count = self.queue.len().min(LARGEST_BATCH);
            let (pipeline, asked) = batch(self.queue.drain(..count), &self.hash);
            let mut wire = session.connection.wire.clone();
            session.in_flight.push(Box::pin(async move {
                let answers = wire.send_packed_commands(&pipeline, 0, asked.len()).await;
                (asked, answers)
            }));
        }
    }

    /// Collects what has happened. Where nothing more has, `cx` is woken by the next thing.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        let node = self.node;
        if let State::Opening(connection, opening) = &mut self.state {
            let connection = *connection;
            let Poll::Ready(opened) = opening.poll_unpin(cx) else {
                return;
            };
            match opened {
                Ok(opened) => {
                    events.push(Event::Connected {
                        node,
                        connection,
                        facts: opened.facts.clone(),
                    });
                    self.state = State::Open(connection, Session::new(opened));
                }
                Err(reason) => return self.break_off(connection, reason, events),
            }
        }
        if let State::Open(connection, session) = &mut self.state {
            let connection = *connection;
            if let Err(reason) = session.poll(node, cx, events) {
                self.break_off(connection, reason, events);
            }
        }
    }

    fn break_off(&mut self, connection: ConnectionId, reason: Arc<str>, events: &mut Vec<Event>) {
        self.disconnect();
        events.push(Event::Disconnected {
            node: self.node,
            connection,
            reason,
        });
    }
}

impl Session {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            in_flight: FuturesUnordered::new(),
        }
    }

    /// Fails with a reason when the connection has broken. Futures in flight are polled in the
    /// order in which they were added, and so are the requests sent.
    fn poll(
        &mut self,
        node: NodeId,
        cx: &mut Context<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Arc<str>> {
        while let Poll::Ready(Some((asked, answers))) = self.in_flight.poll_next_unpin(cx) {
            let answers = answers.map_err(|error| connection::reason(&error))?;
            let replies = asked.into_iter().zip(answers);
            events.extend(replies.filter_map(|(asked, answer)| {
                let (request, body) = asked?;
                let reply = reply::parse(&body, answer);
                Some(Event::Reply {
                    node,
                    request,
                    reply,
                })
            }));
        }
        while let Poll::Ready(Some(push)) = self.connection.pushes.poll_recv(cx) {
            if connection::is_disconnection(&push) {
                return Err("the server closed the connection".into());
            }
            events.extend(changes(node, push));
        }
        Ok(())
    }
}

fn changes(node: NodeId, push: PushInfo) -> impl Iterator<Item = Event> {
    let keys = connection::changed_keys(push).unwrap_or_default();
    keys.into_iter()
        .map(move |key| Event::Changed { node, key })
}

/// Makes one pipeline, with what each answer is for.
fn batch(orders: impl ExactSizeIterator<Item = Order>, hash: &str) -> (Pipeline, Asked) {
    let mut pipeline = Pipeline::with_capacity(orders.len());
    let mut asked = Vec::with_capacity(orders.len());
    for order in orders {
        for preface in script::preface(&order.body) {
            pipeline.add_command(preface);
            asked.push(None);
        }
        pipeline.add_command(script::command(&order.body, hash, order.with_source));
        asked.push(Some((order.request, order.body)));
    }
    (pipeline, asked)
}
