//! One server, and how much of the engine it gets.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use redlock_protocol::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::node::{MOST_AT_ONCE, Session, wire::Wire};

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
    let owed = VecDeque::new();
    let mut session = Session { wire, owed };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut events = Vec::new();
    for round in 1..=3 {
        assert_eq!(session.poll(NodeId(0), &mut cx, &mut events), Ok(()));
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
    let owed = VecDeque::new();
    let mut session = Session { wire, owed };
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    let _ = session.poll(NodeId(0), &mut cx, &mut events);
    assert_eq!(events.len(), MOST_AT_ONCE);
}
