//! One node: requests out in their order, answers in as events. Decides nothing, and has no
//! clock: what takes too long is given up by the protocol.
//!
//! A node is no task of its own, and neither is its connection. The engine polls them: a request is
//! written in the very step in which the protocol wanted it, and a reply is read in the one that hands it
//! to the protocol.

mod address;
mod carrier;
mod client_name;
mod connection;
mod discovery;
mod endpoint;
mod follow_lock;
mod info;
mod inquiry;
mod login;
mod memory;
mod reason;
mod reply;
#[cfg(test)]
mod requests;
mod resp;
#[cfg(test)]
mod scripted;
mod session;
mod sign_in;
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    path = "no_sockets.rs"
)]
mod sockets;
mod stream;
#[cfg(all(test, unix))]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod wire;

use std::{
    mem,
    sync::{Arc, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_protocol::{ConnectionId, Event, Facts, NodeId, Order, Why};

#[cfg(feature = "test-util")]
pub(crate) use self::memory::Behavior;
#[cfg(feature = "tls")]
pub(crate) use self::tls::{TlsClient, server_name};
pub(crate) use self::{
    address::address_text,
    client_name::service,
    discovery::{Discovery, Source, slot_of},
    endpoint::Endpoint,
    follow_lock::Shown,
    inquiry::{inquire, read_clocks},
    login::{Login, Provider},
    memory::{Memory, MemoryLink, Parts},
    resp::read as read_reply,
    sockets::{Seat, Sockets, Watch},
};
pub use self::{
    client_name::ClientProcess,
    inquiry::ClockReading,
    login::Credentials,
    reason::{of_server, rejection},
};
use self::{
    session::{Refused, Session},
    wire::Wire,
};
use crate::{clock::Clock, limitation::Limitation, script};

/// Where a node is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Redis(Box<Endpoint>),
    Memory(Arc<Memory>),
}

impl Target {
    /// Reports what it shows of the lock, for ever: `Some(None)` for a lock that is free, and `None` if it cannot be
    /// read.
    pub(crate) async fn follow(
        &self,
        key: &str,
        (clock, limit): (&Clock, Duration),
        report: impl Fn(Option<Option<Shown>>),
    ) {
        match self {
            Self::Redis(endpoint) => follow_lock::server(endpoint, key, limit, report).await,
            Self::Memory(memory) => {
                follow_lock::memory(|| memory.parts(key, clock.now()), report).await;
            }
        }
    }

    /// The server, if it is one.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Redis(endpoint) => Some(endpoint),
            Self::Memory(_) => None,
        }
    }

    /// What the server refuses, if it is one.
    pub(crate) fn limitations(&self) -> Vec<Limitation> {
        let lacking = self.endpoint().map(|server| server.lacking.lock());
        let lacking = lacking.map(|it| it.unwrap_or_else(PoisonError::into_inner).clone());
        lacking.unwrap_or_default()
    }

    /// True if it is a store that fails on demand. Only the engine's runtime can speak to it.
    pub(crate) fn is_for_a_test(&self) -> bool {
        matches!(self, Self::Memory(memory) if memory.is_for_a_test)
    }
}

/// A Redis server.
pub(crate) struct Server {
    node: NodeId,
    endpoint: Arc<Endpoint>,
    /// Of each connection.
    client_name: Arc<str>,
    /// Of its socket, unless the socket belongs to the engine's runtime.
    seat: Option<Seat>,
    state: State,
    /// The last one that was asked for.
    connection: ConnectionId,
    /// Of the last session.
    refused: Refused,
    has_work: bool,
    /// It is being found out whether something has come. Done once the runtime has looked at the sockets,
    /// which it does after tasks that let others run.
    listening: Option<BoxFuture<'static, ()>>,
}

enum State {
    Idle,
    Opening(BoxFuture<'static, Result<(Wire, Facts), Why>>),
    Open(Box<Session>),
}

impl Server {
    pub(crate) fn new(
        node: NodeId,
        endpoint: Box<Endpoint>,
        client_name: Arc<str>,
        seat: Option<Seat>,
    ) -> Self {
        Self {
            node,
            endpoint: Arc::from(endpoint),
            client_name,
            seat,
            state: State::Idle,
            connection: ConnectionId(0),
            refused: Refused::new(),
            has_work: false,
            listening: None,
        }
    }

    /// Makes a connection, which comes out of [`poll`](Self::poll).
    pub(crate) fn connect(&mut self, connection: ConnectionId) {
        let (endpoint, seat) = (Arc::clone(&self.endpoint), self.seat.clone());
        let opening = async move { connection::open(&endpoint, seat.as_ref()).await };
        self.state = State::Opening(Box::pin(opening));
        self.connection = connection;
        self.has_work = true;
    }

    /// Gives up the connection, or the attempt to make one.
    pub(crate) fn disconnect(&mut self) {
        self.state = State::Idle;
        self.listening = None;
    }

    /// Takes in all that has come by now, and then says so.
    pub(crate) fn listen(&mut self) {
        self.listening = Some(Box::pin(tokio::task::yield_now()));
        self.has_work = true;
    }

    /// Takes a request on, to be sent once the node is polled. Without a connection it is passed over:
    /// the protocol learns of the broken connection and counts whatever was on it as unanswered.
    pub(crate) fn send(&mut self, order: Order) {
        if let State::Open(session) = &mut self.state {
            session.send(order.request, order.body);
            self.has_work = true;
        }
    }

    /// Something has come to its seat.
    pub(crate) fn is_unread(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::is_unread)
    }

    /// Polls it on the next occasion, although nothing has woken it.
    pub(crate) const fn has_work(&self) -> bool {
        self.has_work
    }

    /// Sends what has been taken on, and collects what has happened. Where nothing more has, `cx` is
    /// woken by the next thing.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        self.has_work = false;
        let (node, connection) = (self.node, self.connection);
        let looked = self
            .listening
            .take_if(|looks| looks.poll_unpin(cx).is_ready());
        if let Some(seat) = self.seat.as_ref().filter(|_| looked.is_some()) {
            // Whoever waits for it may not have looked yet.
            seat.try_reading();
        }
        let is_left = self.poll_state(cx, events).unwrap_or_else(|reason| {
            self.disconnect();
            events.push(Event::Disconnected {
                node,
                connection,
                reason,
            });
            false
        });
        if looked.is_none() {
            return;
        }
        match self.state {
            State::Open(..) if is_left => self.listen(),
            State::Opening(_) | State::Open(_) => events.push(Event::Silent { node, connection }),
            State::Idle => {}
        }
    }

    /// True if something may have come that was not taken in. Fails with a reason when there is no connection
    /// any more.
    fn poll_state(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) -> Result<bool, Why> {
        let (node, connection) = (self.node, self.connection);
        if let State::Opening(opening) = &mut self.state {
            let Poll::Ready(opened) = opening.poll_unpin(cx) else {
                return Ok(false);
            };
            let (wire, facts) = opened?;
            events.push(Event::Connected {
                node,
                connection,
                facts,
            });
            let hash = script::node_hash(self.endpoint.database);
            let mut session = Session::new(wire, node, hash, mem::take(&mut self.refused));
            session.introduce(&self.client_name);
            self.state = State::Open(Box::new(session));
        }
        let State::Open(session) = &mut self.state else {
            return Ok(false);
        };
        let polled = session.poll(cx, events);
        polled.inspect_err(|_| self.refused = mem::take(&mut session.refused))
    }

    /// Polls it within the runtime of the engine: a connection is made there, and can be used
    /// anywhere; and sockets are looked at there.
    pub(crate) const fn needs_runtime(&self) -> bool {
        matches!(self.state, State::Opening(..)) || self.listening.is_some()
    }

    /// Polls it outside the runtime of the engine. What needs that runtime is left for later.
    pub(crate) fn poll_outside(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) {
        match self.needs_runtime() {
            true => self.has_work = true,
            false => self.poll(cx, events),
        }
    }

    /// It has so much to answer that what is asked now can wait for more.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(&self.state, State::Open(session) if session.is_busy())
    }
}
