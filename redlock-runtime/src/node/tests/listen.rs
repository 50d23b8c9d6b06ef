//! Whether a server is silent, or its client late.

use std::{
    future::poll_fn,
    io::Write,
    os::unix::net::UnixStream,
    task::{Context, Poll, Waker},
};

use redlock_protocol::{ConnectionId, Event, NodeId, Order, Request, RequestId};

use crate::node::{
    Endpoint, Server, State,
    session::{MOST_AT_ONCE, Refused, Session},
    wire::Wire,
};

const NODE: NodeId = NodeId(0);
const CONNECTION: ConnectionId = ConnectionId(1);

const SILENT: Event = Event::Silent {
    node: NODE,
    connection: CONNECTION,
};

/// A server to which this many requests have been sent, and its end of the connection. The runtime has
/// seen that nothing has come from there.
async fn asked(requests: usize) -> (Server, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = tokio::net::UnixStream::from_std(ours).unwrap();
    let info = redis::IntoConnectionInfo::into_connection_info("redis://127.0.0.1:1");
    let endpoint = Endpoint::from(info.unwrap());
    let mut server = Server::new(NODE, Box::new(endpoint), "listener".into(), None);
    let session = Session::new(
        Wire::new(Box::new(ours)),
        NODE,
        String::new(),
        Refused::new(),
    );
    server.connection = CONNECTION;
    server.state = State::Open(Box::new(session));
    for request in 0..requests {
        server.send(Order {
            node: NODE,
            request: RequestId(request as u64),
            body: Request::Probe,
        });
    }
    let mut events = Vec::new();
    server.poll(&mut Context::from_waker(Waker::noop()), &mut events);
    tokio::task::yield_now().await;
    server.poll(&mut Context::from_waker(Waker::noop()), &mut events);
    assert_eq!(events, []);
    (server, theirs)
}

/// What has happened when the server has been found silent.
async fn listen(server: &mut Server) -> Vec<Event> {
    let mut events = Vec::new();
    server.listen();
    poll_fn(|cx| {
        server.poll(cx, &mut events);
        match events.contains(&SILENT) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    events
}

#[tokio::test]
async fn a_server_that_has_said_nothing_is_silent() {
    let (mut server, _theirs) = asked(1).await;
    assert_eq!(listen(&mut server).await, [SILENT]);
    assert!(!server.needs_runtime() && !server.has_work());
}

#[tokio::test]
async fn what_came_while_nobody_looked_at_the_socket_is_read_first() {
    let (mut server, mut theirs) = asked(1).await;
    theirs.write_all(b"$-1\r\n").unwrap();
    let events = listen(&mut server).await;
    assert!(
        matches!(&events[..], [Event::Reply { .. }, SILENT]),
        "{events:?}"
    );
}

#[tokio::test]
async fn however_much_it_is() {
    let count = 3 * MOST_AT_ONCE;
    let (mut server, mut theirs) = asked(count).await;
    let replies = "$-1\r\n".repeat(count);
    theirs.write_all(replies.as_bytes()).unwrap();
    let events = listen(&mut server).await;
    assert_eq!(events.len(), count + 1);
    assert_eq!(events.last(), Some(&SILENT));
}

#[test]
fn without_the_runtime_nobody_can_tell() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (mut server, _theirs) = runtime.block_on(asked(1));
    server.listen();
    assert!(server.needs_runtime());
    let mut events = Vec::new();
    server.poll_outside(&mut Context::from_waker(Waker::noop()), &mut events);
    assert_eq!(events, []);
    assert!(server.has_work() && server.needs_runtime());
    server.disconnect();
    assert!(!server.needs_runtime());
}
