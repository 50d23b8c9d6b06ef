//! A connection that is used only for as long as its server is known to be the master.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use redlock_protocol::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{login::AbortOnDrop, stream::Stream};
use crate::clock;

/// Until when a server is known to be the master.
pub(super) struct Trust {
    state: Mutex<State>,
    reader: AtomicWaker,
}

struct State {
    until: Instant,
    /// Why it is not any more.
    end: Option<Arc<str>>,
}

impl Trust {
    pub(super) const fn until(until: Instant) -> Self {
        Self {
            state: Mutex::new(State { until, end: None }),
            reader: AtomicWaker::new(),
        }
    }

    pub(super) fn prolong(&self, until: Instant) {
        self.state().until = until;
    }

    pub(super) fn end(&self, reason: Arc<str>) {
        self.state().end = Some(reason);
        self.reader.wake();
    }

    /// For how long it can still be relied on, if nothing is heard any more.
    pub(super) fn left(&self) -> Duration {
        self.state().until.since(clock::now())
    }

    fn check(&self) -> io::Result<()> {
        let state = self.state();
        match &state.end {
            Some(reason) => Err(io::Error::other(reason.to_string())),
            None if clock::now() < state.until => Ok(()),
            None => Err(io::Error::other(
                "no majority says any more that it is the master",
            )),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches over a connection to the master.
pub(super) struct Watch {
    trust: Arc<Trust>,
    _task: AbortOnDrop<()>,
}

impl Watch {
    pub(super) const fn new(trust: Arc<Trust>, task: AbortOnDrop<()>) -> Self {
        Self { trust, _task: task }
    }
}

/// The stream to the master.
pub(super) struct Guarded {
    stream: Box<dyn Stream>,
    watch: Watch,
}

impl Guarded {
    pub(super) const fn new(stream: Box<dyn Stream>, watch: Watch) -> Self {
        Self { stream, watch }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.watch.trust.reader.register(cx.waker());
        self.watch.trust.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watch.trust.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
