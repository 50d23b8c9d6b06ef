//! A connection that is used only for as long as its server is known to be the master.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use futures_util::FutureExt;
use redlock_protocol::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::{login::AbortOnDrop, stream::Stream};
use crate::clock;

/// Until when a server is known to be the master.
pub(super) struct Until(AtomicU64);

impl Until {
    pub(super) const fn new(until: Instant) -> Self {
        Self(AtomicU64::new(until.as_nanos()))
    }

    pub(super) fn prolong(&self, until: Instant) {
        self.0.store(until.as_nanos(), Relaxed);
    }

    pub(super) fn get(&self) -> Instant {
        Instant::from_nanos(self.0.load(Relaxed))
    }
}

/// The stream to the master.
pub(super) struct Guarded {
    stream: Box<dyn Stream>,
    until: Arc<Until>,
    /// Says why it is not the master any more.
    watch: AbortOnDrop<Arc<str>>,
    end: Option<Arc<str>>,
}

impl Guarded {
    pub(super) const fn new(
        stream: Box<dyn Stream>,
        until: Arc<Until>,
        watch: AbortOnDrop<Arc<str>>,
    ) -> Self {
        Self {
            stream,
            until,
            watch,
            end: None,
        }
    }

    /// `cx` is woken when it is the master no more.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.end.is_none()
            && let Poll::Ready(end) = self.watch.0.poll_unpin(cx)
        {
            self.end = Some(end.unwrap_or_else(|_| "the runtime has ended".into()));
        }
        let reason = match &self.end {
            Some(reason) => reason,
            None if clock::now() < self.until.get() => return Ok(()),
            None => "no majority says any more that it is the master",
        };
        Err(io::Error::other(reason.to_owned()))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
