//! One node: requests out in their order, answers in as events. Decides nothing, and has no
//! clock: what takes too long is given up by the protocol.

mod connection;
mod memory;
mod reply;

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{ConnectionInfo, Pipeline, PushInfo, RedisError, Value};
use tokio::sync::mpsc;

use self::connection::Connection;
pub(crate) use self::{connection::with_protocol, memory::Memory};
use crate::{
    protocol::{ConnectionId, Event, NodeId, Request, RequestId},
    script,
};

/// How many requests go out as one pipeline at the most, so that the first answers are read
/// while the last requests are still being written.
const LARGEST_BATCH: usize = 256;

/// Where a node is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Redis(Box<ConnectionInfo>),
    Memory(Arc<Memory>),
}

/// What a Redis node is told.
#[derive(Debug)]
pub(crate) enum Order {
    Connect(ConnectionId),
    /// Give up the connection, or the attempt to make one.
    Disconnect,
    Send {
        request: RequestId,
        body: Request,
        server: Option<Arc<str>>,
        with_source: bool,
    },
}

/// Serves one Redis node until nobody can give it orders any more. Needs a tokio runtime around
/// it, because the connection runs as a task of its own.
pub(crate) async fn serve(
    node: NodeId,
    info: Box<ConnectionInfo>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    events: impl Fn(Vec<Event>),
) {
    // Orders to send without a connection are passed over: the protocol learns of the broken
    // connection and counts whatever was on it as unanswered.
    while let Some(order) = orders.recv().await {
        let Order::Connect(connection) = order else {
            continue;
        };
        let mut session = Session {
            node,
            connection,
            orders: &mut orders,
            events: &events,
        };
        if let Err(reason) = session.run(&info).await {
            events(vec![Event::Disconnected {
                node,
                connection,
                reason,
            }]);
        }
    }
}

/// The life of one connection.
struct Session<'a, E> {
    node: NodeId,
    connection: ConnectionId,
    orders: &'a mut mpsc::UnboundedReceiver<Order>,
    events: &'a E,
}

impl<E: Fn(Vec<Event>)> Session<'_, E> {
    /// Ends well when it is told to, and with a reason when the connection breaks.
    async fn run(&mut self, info: &ConnectionInfo) -> Result<(), Arc<str>> {
        let connection = tokio::select! {
            opened = Connection::open(info) => opened?,
            () = told_to_stop(self.orders) => return Ok(()),
        };
        (self.events)(vec![Event::Connected {
            node: self.node,
            connection: self.connection,
            facts: connection.facts.clone(),
        }]);
        self.exchange(connection).await
    }

    async fn exchange(&mut self, mut connection: Connection) -> Result<(), Arc<str>> {
        let mut in_flight = FuturesUnordered::new();
        let mut orders = Vec::with_capacity(LARGEST_BATCH);
        loop {
            // Futures in flight are polled first, and in the order in which they were added:
            // so a batch is on its way before the next one is made.
            tokio::select! {
                biased;
                Some((requests, answers)) = in_flight.next() => {
                    self.report(requests, answers)?;
                }
                Some(push) = connection.pushes.recv() => {
                    if connection::is_disconnection(&push) {
                        return Err("the server closed the connection".into());
                    }
                    self.report_changes(push);
                }
                count = self.orders.recv_many(&mut orders, LARGEST_BATCH) => {
                    let (pipeline, requests, stop) = batch(&mut orders);
                    if !requests.is_empty() {
                        let mut wire = connection.wire.clone();
                        in_flight.push(async move {
                            let sent = wire.send_packed_commands(&pipeline, 0, requests.len());
                            let answers = sent.await;
                            (requests, answers)
                        });
                    }
                    if stop || count == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn report_changes(&self, push: PushInfo) {
        let keys = connection::changed_keys(push).unwrap_or_default();
        let node = self.node;
        let events: Vec<Event> = keys
            .into_iter()
            .map(|key| Event::Changed { node, key })
            .collect();
        if !events.is_empty() {
            (self.events)(events);
        }
    }

    fn report(
        &self,
        requests: Vec<Option<(RequestId, Request)>>,
        answers: Result<Vec<Value>, RedisError>,
    ) -> Result<(), Arc<str>> {
        let answers = answers.map_err(|error| connection::reason(&error))?;
        let replies = requests.into_iter().zip(answers);
        let events = replies.filter_map(|(request, answer)| {
            let (request, body) = request?;
            Some(Event::Reply {
                node: self.node,
                request,
                reply: reply::parse(&body, answer),
            })
        });
        (self.events)(events.collect());
        Ok(())
    }
}

/// Makes one pipeline of all that has queued up, with what each answer is for: nothing, where a
/// command only goes before another.
fn batch(orders: &mut Vec<Order>) -> (Pipeline, Vec<Option<(RequestId, Request)>>, bool) {
    let mut pipeline = Pipeline::with_capacity(orders.len());
    let mut requests = Vec::with_capacity(orders.len());
    let mut stop = false;
    for order in orders.drain(..) {
        match order {
            Order::Send {
                request,
                body,
                server,
                with_source,
            } => {
                if let Some(preface) = script::preface(&body) {
                    pipeline.add_command(preface);
                    requests.push(None);
                }
                pipeline.add_command(script::command(&body, server.as_deref(), with_source));
                requests.push(Some((request, body)));
            }
            Order::Disconnect => stop = true,
            // The protocol connects only after a disconnection.
            Order::Connect(_) => {}
        }
    }
    (pipeline, requests, stop)
}

/// Waits, while a connection is made, for the order to give it up.
async fn told_to_stop(orders: &mut mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        if matches!(order, Order::Disconnect) {
            return;
        }
    }
}
