//! One node: requests out in their order, answers in as events. Decides nothing, and has no
//! clock: what takes too long is given up by the protocol.
//!
//! A node is no task of its own, and neither is its connection. The engine polls them: a request is
//! written in the very step in which the protocol wanted it, and a reply is read in the one that hands it
//! to the protocol.

mod connection;
mod endpoint;
#[cfg(feature = "test-util")]
mod faulty;
mod memory;
mod reason;
mod reply;
mod resp;
mod stream;
#[cfg(all(test, unix))]
mod tests;
mod wire;

use std::{
    collections::VecDeque,
    mem::{self, Discriminant},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use redis::Value;
use redlock_protocol::{ConnectionId, Event, NodeId, Order, Reply, Request, RequestId};

pub use self::endpoint::Credentials;
#[cfg(feature = "tls")]
pub(crate) use self::endpoint::TlsClient;
#[cfg(feature = "test-util")]
pub(crate) use self::faulty::{Behavior, Faulty, FaultyLink};
use self::{connection::Connection, wire::Wire};
pub(crate) use self::{
    endpoint::{Endpoint, Login, Provider, address_text},
    memory::Memory,
};
use crate::script;

/// So many values of one server are read before it is the turn of the others and of callers: the
/// runtime lets one poll read only so much from all sockets together, and a server may write without
/// end.
const MOST_AT_ONCE: usize = 1_024;

/// From so many replies that a server owes, requests of callers wait for each other and go out together:
/// a write costs more than what is in it.
const BUSY: usize = 8;

/// Where a node is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Redis(Box<Endpoint>),
    Memory(Arc<Memory>),
    #[cfg(feature = "test-util")]
    Faulty(Arc<Faulty>),
}

impl Target {
    /// Whether any thread can speak to it, and not only one of the engine's runtime.
    pub(crate) const fn works_anywhere(&self) -> bool {
        match self {
            Self::Redis(_) | Self::Memory(_) => true,
            #[cfg(feature = "test-util")]
            Self::Faulty(_) => false,
        }
    }
}

/// A Redis server.
pub(crate) struct Server {
    node: NodeId,
    endpoint: Arc<Endpoint>,
    /// The name of what the library keeps there beside the locks.
    hash: String,
    state: State,
    has_work: bool,
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
    wire: Wire,
    /// What the next replies are for, in their order: nothing, where a command only goes before
    /// another.
    owed: VecDeque<Option<(RequestId, Request)>>,
    /// The scripts that the server did not know when it was asked last. The next request of that kind
    /// brings the text, and from then on the server knows it.
    unknown: Vec<Discriminant<Request>>,
}

impl Server {
    pub(crate) fn new(node: NodeId, endpoint: Box<Endpoint>) -> Self {
        Self {
            node,
            hash: script::node_hash(endpoint.database),
            endpoint: Arc::from(endpoint),
            state: State::Idle,
            has_work: false,
        }
    }

    /// Makes a connection, which comes out of [`poll`](Self::poll).
    pub(crate) fn connect(&mut self, connection: ConnectionId) {
        let endpoint = Arc::clone(&self.endpoint);
        let opening = async move { Connection::open(&endpoint).await };
        self.state = State::Opening(connection, Box::pin(opening));
        self.has_work = true;
    }

    /// Gives up the connection, or the attempt to make one.
    pub(crate) fn disconnect(&mut self) {
        self.state = State::Idle;
    }

    /// Takes a request on, to be sent once the node is polled. Without a connection it is passed over:
    /// the protocol learns of the broken connection and counts whatever was on it as unanswered.
    pub(crate) fn send(&mut self, order: Order) {
        if let State::Open(_, session) = &mut self.state {
            session.send(order.request, order.body, &self.hash);
            self.has_work = true;
        }
    }

    /// It is to be polled although nothing has woken it.
    pub(crate) const fn has_work(&self) -> bool {
        self.has_work
    }

    /// Sends what has been taken on, and collects what has happened. Where nothing more has, `cx` is
    /// woken by the next thing.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        self.has_work = false;
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
                        facts: opened.facts,
                    });
                    self.state = State::Open(connection, Session::new(opened.wire));
                }
                Err(reason) => return self.break_off(connection, reason, events),
            }
        }
        if let State::Open(connection, session) = &mut self.state {
            let connection = *connection;
            if let Err(reason) = session.poll(node, &self.hash, cx, events) {
                self.break_off(connection, reason, events);
            }
        }
    }

    /// It is to be polled within the runtime of the engine: a connection is made there, and can be used
    /// anywhere.
    pub(crate) const fn needs_runtime(&self) -> bool {
        matches!(self.state, State::Opening(..))
    }

    /// The same outside the runtime of the engine. What needs that is left for later.
    pub(crate) fn poll_outside(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        match self.needs_runtime() {
            true => self.has_work = true,
            false => self.poll(cx, events),
        }
    }

    /// It has so much to answer that what is asked now can wait for more.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(&self.state, State::Open(_, session) if session.owed.len() >= BUSY)
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
    const fn new(wire: Wire) -> Self {
        Self {
            wire,
            owed: VecDeque::new(),
            unknown: Vec::new(),
        }
    }

    fn send(&mut self, request: RequestId, body: Request, hash: &str) {
        let kind = mem::discriminant(&body);
        let unknown = self.unknown.iter().position(|&unknown| unknown == kind);
        if let Some(place) = unknown {
            self.unknown.swap_remove(place);
        }
        let out = self.wire.out();
        for preface in script::preface(&body) {
            script::write(&preface, out);
            self.owed.push_back(None);
        }
        let command = script::command(&body, hash, unknown.is_some());
        script::write(&command, out);
        self.owed.push_back(Some((request, body)));
    }

    /// Takes in the answer to a request. If the server did not know the script, a vote is left to the
    /// protocol, which first asks who the server is, and may not want it any more. Anything else is sent
    /// again: a release does no harm whenever it comes, and what is read later is no older for that.
    fn on_answer(
        &mut self,
        (request, body): (RequestId, Request),
        answer: Value,
        hash: &str,
    ) -> Option<(RequestId, Reply)> {
        if reply::lacks_script(&answer) {
            self.unknown.push(mem::discriminant(&body));
            if !script::is_vote(&body) {
                self.send(request, body, hash);
                return None;
            }
        }
        Some((request, reply::parse(&body, answer)))
    }

    /// Fails with a reason when the connection has broken.
    fn poll(
        &mut self,
        node: NodeId,
        hash: &str,
        cx: &mut Context<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Arc<str>> {
        let written = self.wire.poll_write(cx);
        for _ in 0..MOST_AT_ONCE {
            let Poll::Ready(value) = self.wire.poll_value(cx) else {
                // What the server said before the connection broke has been read.
                return written;
            };
            match value? {
                Value::Push { kind, data } => {
                    let keys = connection::changed_keys(&kind, data).into_iter();
                    events.extend(keys.map(|key| Event::Changed { node, key }));
                }
                answer => match self.owed.pop_front() {
                    Some(Some(owed)) => match self.on_answer(owed, answer, hash) {
                        Some((request, reply)) => events.push(Event::Reply {
                            node,
                            request,
                            reply,
                        }),
                        // It is written in the next step.
                        None => cx.waker().wake_by_ref(),
                    },
                    Some(None) => {}
                    None => return Err(connection::unasked(&answer)),
                },
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }
}
