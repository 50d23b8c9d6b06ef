//! The bytes of one connection: commands out in their order, values in. One buffer each way; what has
//! been queued goes out in one write.

use std::{
    fmt::Display,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    resp::{self, Malformed, Scan},
    stream::Stream,
};
use crate::script::{self, Command};

/// How much is read at once. More than any usual batch of replies, because a read that does not fill
/// its buffer spares the next one, which would find nothing.
const READ: usize = 16 << 10;

/// Room that is kept for the next batch of commands, once a large one is gone.
const LARGE: usize = 256 << 10;

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
            match written.map_err(|error| reason(&error))? {
                0 => return Err(closed()),
                written => self.written += written,
            }
            self.is_flushed = false;
        }
        self.out.clear();
        self.out.shrink_to(LARGE);
        self.written = 0;
        if !self.is_flushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            flushed.map_err(|error| reason(&error))?;
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
            Err(error) => Err(reason(&error)),
            Ok(()) if length == 0 => Err(closed()),
            Ok(()) => {
                self.end += length;
                Ok(())
            }
        })
    }

    /// Sends all at once, and returns all replies, errors among them. For a wire on which no reply is
    /// owed.
    pub(super) async fn exchange(
        &mut self,
        commands: &[Command<'_>],
    ) -> Result<Vec<Value>, Arc<str>> {
        for command in commands {
            script::write(command, &mut self.out);
        }
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

/// What operators read about a failure, on one line.
pub(super) fn reason(error: &dyn Display) -> Arc<str> {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").into()
}

fn closed() -> Arc<str> {
    "the server closed the connection".into()
}

fn malformed(error: Malformed) -> Arc<str> {
    let reason = match error {
        Malformed::NoValue => "the reply is no Redis reply",
        Malformed::TooLarge => "the reply is too large",
    };
    reason.into()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;

    /// A wire, and the server's end of it.
    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = tokio::net::TcpStream::from_std(ours).unwrap();
        (Wire::new(Box::new(ours)), theirs)
    }

    async fn next(wire: &mut Wire) -> Result<Value, Arc<str>> {
        poll_fn(|cx| wire.poll_value(cx)).await
    }

    #[tokio::test]
    async fn values_are_read_however_slowly_they_come_and_however_large_they_are() {
        let (mut wire, mut server) = pair();
        let large = "x".repeat(5 * READ);
        let text = format!(
            ":1\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n${}\r\n{large}\r\n+OK\r\n",
            large.len()
        );
        let writer = thread::spawn(move || {
            for byte in text.bytes() {
                server.write_all(&[byte]).unwrap();
            }
            server
        });
        assert_eq!(next(&mut wire).await, Ok(Value::Int(1)));
        assert!(matches!(next(&mut wire).await, Ok(Value::Push { .. })));
        let value = Value::BulkString(large.into());
        assert_eq!(next(&mut wire).await, Ok(value));
        assert_eq!(next(&mut wire).await, Ok(Value::Okay));
        drop(writer.join().unwrap());
        assert_eq!(next(&mut wire).await, Err(closed()));
        assert_eq!(
            wire.received.capacity(),
            READ,
            "what was large is given back"
        );
    }

    #[tokio::test]
    async fn what_is_no_value_ends_the_connection_and_what_came_before_is_read() {
        for (lie, error) in [
            ("HTTP/1.1 400 Bad Request\r\n", Malformed::NoValue),
            ("*9223372036854775807\r\n", Malformed::TooLarge),
            ("$99999999999\r\n", Malformed::TooLarge),
            (":1x\r\n", Malformed::NoValue),
            ("\r\n", Malformed::NoValue),
        ] {
            let (mut wire, mut server) = pair();
            server.write_all(format!(":7\r\n{lie}").as_bytes()).unwrap();
            assert_eq!(next(&mut wire).await, Ok(Value::Int(7)));
            assert_eq!(next(&mut wire).await, Err(malformed(error)), "{lie:?}");
        }
    }

    #[tokio::test]
    async fn commands_go_out_in_their_order_while_replies_come_in() {
        const COMMANDS: usize = 20_000;
        let (mut wire, mut server) = pair();
        let echo = thread::spawn(move || {
            let mut received = vec![0; COMMANDS * 8];
            for chunk in received.chunks_mut(64) {
                server.read_exact(chunk).unwrap();
                server.write_all(chunk).unwrap();
            }
        });
        for number in 0..COMMANDS {
            wire.out().extend(format!(":{number:05}\r\n").bytes());
        }
        for number in 0..COMMANDS {
            let value = poll_fn(|cx| {
                wire.poll_write(cx)?;
                wire.poll_value(cx)
            });
            assert_eq!(value.await, Ok(Value::Int(number as i64)));
        }
        echo.join().unwrap();
    }
}
