//! The bytes of one connection: commands out in their order, values in. One buffer each way; what has
//! been queued goes out in one write.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use redis::{Pipeline, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    resp::{self, Malformed, Scan},
    stream::Stream,
};

/// How much is read at once. More than any usual batch of replies, because a read that does not fill
/// its buffer spares the next one, which would find nothing.
const READ: usize = 16 << 10;

pub(super) struct Wire {
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    /// How much of `out` has been written.
    written: usize,
    is_flushed: bool,
    /// Received bytes are those from `start` to `end`.
    received: Vec<u8>,
    start: usize,
    end: usize,
    scan: Scan,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            out: Vec::new(),
            written: 0,
            is_flushed: true,
            received: vec![0; READ],
            start: 0,
            end: 0,
            scan: Scan::default(),
        }
    }

    /// Where to put commands. They go out when the wire is polled.
    pub(super) const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Writes what can be written. `cx` is woken when more can be.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), Arc<str>> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, rest) else {
                return Ok(());
            };
            match written.map_err(broken)? {
                0 => return Err(closed()),
                written => self.written += written,
            }
            self.is_flushed = false;
        }
        self.out.clear();
        self.written = 0;
        if !self.is_flushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            flushed.map_err(broken)?;
            self.is_flushed = true;
        }
        Ok(())
    }

    /// The next value.
    pub(super) fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Arc<str>>> {
        loop {
            match self.scan.end(&self.received[self.start..self.end]) {
                Ok(Some(length)) => {
                    let bytes = &self.received[self.start..self.start + length];
                    let value = resp::value(bytes).map_err(malformed);
                    self.start += length;
                    return Poll::Ready(value);
                }
                Ok(None) => ready!(self.poll_read(cx))?,
                Err(error) => return Poll::Ready(Err(malformed(error))),
            }
        }
    }

    /// Reads what has come, at least one byte.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Arc<str>>> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.received.truncate(READ);
            self.received.shrink_to(READ);
        } else if self.end == self.received.len() {
            self.received.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end > self.received.len() / 2 {
                self.received.resize(2 * self.received.len(), 0);
            }
        }
        let mut buffer = ReadBuf::new(&mut self.received[self.end..]);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        let length = buffer.filled().len();
        Poll::Ready(match read {
            Err(error) => Err(broken(error)),
            Ok(()) if length == 0 => Err(closed()),
            Ok(()) => {
                self.end += length;
                Ok(())
            }
        })
    }

    /// Sends all at once, and returns all replies, errors among them. For a wire on which no reply is
    /// owed.
    pub(super) async fn exchange(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Arc<str>> {
        self.out.extend(commands.get_packed_pipeline());
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            let value = poll_fn(|cx| {
                self.poll_write(cx)?;
                self.poll_value(cx)
            });
            match value.await? {
                Value::Push { .. } => {}
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }
}

fn broken(error: io::Error) -> Arc<str> {
    error.to_string().into()
}

fn closed() -> Arc<str> {
    "the server closed the connection".into()
}

fn malformed(_: Malformed) -> Arc<str> {
    "the server sent something that is no reply, or one that is too large".into()
}
