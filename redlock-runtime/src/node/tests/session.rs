//! One server, and how much of the engine it gets.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use redlock_protocol::{AdmissionId, Event, Mode, NodeId, Owner, Reply, Request, RequestId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::node::{MOST_AT_ONCE, Session, wire::Wire};

const HASH: &str = "hash";

/// A stream on which a server tells of changes without end.
struct Endless {
    takes_commands: bool,
}

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        const NEWS: &[u8] = b">2\r\n+invalidate\r\n_\r\n";
        while buffer.remaining() >= NEWS.len() {
            buffer.put_slice(NEWS);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match self.takes_commands {
            true => Ok(bytes.len()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_server_that_writes_without_end_leaves_the_others_their_turn() {
    let wire = Wire::new(Box::new(Endless {
        takes_commands: true,
    }));
    let mut session = Session::new(wire);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut events = Vec::new();
    for round in 1..=3 {
        assert_eq!(session.poll(NodeId(0), HASH, &mut cx, &mut events), Ok(()));
        assert_eq!(events.len(), round * MOST_AT_ONCE);
        assert_eq!(woken.0.load(Ordering::Relaxed), round);
    }
}

#[test]
fn what_has_come_in_counts_though_nothing_can_be_written_any_more() {
    let mut wire = Wire::new(Box::new(Endless {
        takes_commands: false,
    }));
    wire.out().push(b'*');
    let mut session = Session::new(wire);
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    let _ = session.poll(NodeId(0), HASH, &mut cx, &mut events);
    assert_eq!(events.len(), MOST_AT_ONCE);
}

/// A stream on which a server says what it is told to.
struct Said {
    replies: &'static [u8],
    written: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Said {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.replies.is_empty() {
            return Poll::Pending;
        }
        buffer.put_slice(std::mem::take(&mut self.replies));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Said {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.lock().unwrap().extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Sends a request to a server that does not know its script. The commands that were sent, and what
/// the protocol was told.
fn send_without_script(request: Request) -> (usize, usize, Vec<Event>) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let mut session = Session::new(Wire::new(Box::new(Said {
        replies: b"-NOSCRIPT No matching script.\r\n",
        written: Arc::clone(&written),
    })));
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    session.send(RequestId(1), request, HASH);
    for _ in 0..2 {
        assert_eq!(session.poll(NodeId(0), HASH, &mut cx, &mut events), Ok(()));
    }
    let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    let count = |command: &str| written.matches(&format!("{command}\r\n")).count();
    (count("EVALSHA"), count("EVAL"), events)
}

#[test]
fn a_release_whose_script_is_missing_is_sent_again_with_its_text() {
    let release = Request::Release {
        key: "k".into(),
        owner: Owner(1),
        mode: Mode::Exclusive,
        keep: None,
    };
    assert_eq!(send_without_script(release), (1, 1, Vec::new()));
}

#[test]
fn a_vote_whose_script_is_missing_is_left_to_the_protocol() {
    let put_back = Request::PutBack {
        key: "k".into(),
        owner: Owner(1),
        mode: Mode::Exclusive,
        ttl: Duration::from_secs(1),
        admission: AdmissionId(1),
    };
    let not_admitted = Event::Reply {
        node: NodeId(0),
        request: RequestId(1),
        reply: Reply::NotAdmitted,
    };
    assert_eq!(send_without_script(put_back), (1, 0, vec![not_admitted]));
}
