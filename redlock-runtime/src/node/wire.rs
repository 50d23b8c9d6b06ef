//! The bytes of one connection: commands out in their order, values in. One buffer each way; what has
//! been queued goes out in one write.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use redis::{FromRedisValue, Value};
use redlock_protocol::{Why, WhyKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    carrier::Stream,
    reason::of_io,
    resp::{self, Malformed, Reader},
};
use crate::script::{self, Command, Word};

/// How much is read at once. More than any usual batch of replies, because a read that does not fill
/// its buffer spares the next one, which would find nothing.
const READ: usize = 16 << 10;

/// Room that is kept for the next batch of commands, once a large one is gone.
const LARGE: usize = 256 << 10;

/// On a connection on which nothing is watched yet a server has nearly nothing to say by itself.
const MOST_PUSHES: usize = 64;

/// Fails when the connection must not be used any more. The context is woken then.
pub(super) type Guard = Box<dyn FnMut(&mut Context<'_>) -> Result<(), Why> + Send>;

pub(super) struct Wire {
    stream: Box<dyn Stream>,
    /// Asked before each read and write, if it is not always the server that was meant.
    pub(super) guard: Option<Guard>,
    out: Vec<u8>,
    /// How much of `out` has been written.
    written: usize,
    is_flushed: bool,
    /// Received bytes are those from `start` to `end`.
    received: Vec<u8>,
    start: usize,
    end: usize,
    reader: Reader,
    /// The connection ends because a reply is larger than any that makes sense.
    pub(super) has_met_too_large: bool,
    /// What all keys begin with on the server.
    pub(super) tag: Arc<str>,
    /// What stands behind its process where the server is named, if others have named it.
    pub(super) term: String,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            guard: None,
            out: Vec::new(),
            written: 0,
            is_flushed: true,
            received: vec![0; READ],
            start: 0,
            end: 0,
            reader: Reader::default(),
            has_met_too_large: false,
            tag: "".into(),
            term: String::new(),
        }
    }

    /// Takes on a command, to be sent when the wire is polled.
    pub(super) fn put(&mut self, command: &[Word<'_>]) {
        script::write(command, &self.tag, &mut self.out);
    }

    /// Writes what can be written. `cx` is woken when more can be.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), Why> {
        while self.written < self.out.len() {
            self.check(cx)?;
            let rest = &self.out[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, rest) else {
                self.forget_written();
                return Ok(());
            };
            match written.map_err(|error| of_io(&error))? {
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
            flushed.map_err(|error| of_io(&error))?;
            self.is_flushed = true;
        }
        Ok(())
    }

    fn check(&mut self, cx: &mut Context<'_>) -> Result<(), Why> {
        self.guard.as_mut().map_or(Ok(()), |guard| guard(cx))
    }

    /// A server that reads as fast as commands are queued, and no faster, leaves some of them here at all
    /// times.
    fn forget_written(&mut self) {
        if self.written > LARGE && self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// The next value.
    pub(super) fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Why>> {
        loop {
            match self.reader.next(&self.received[self.start..self.end]) {
                Ok(Some((value, length))) => {
                    self.start += length;
                    return Poll::Ready(Ok(value));
                }
                Ok(None) => ready!(self.poll_read(cx))?,
                Err(error) => {
                    self.has_met_too_large = error == Malformed::TooLarge;
                    return Poll::Ready(Err(malformed(error)));
                }
            }
        }
    }

    /// Reads what has come, at least one byte.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Why>> {
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
        self.check(cx)?;
        let mut buffer = ReadBuf::new(&mut self.received[self.end..]);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        let length = buffer.filled().len();
        Poll::Ready(match read {
            Err(error) => Err(of_io(&error)),
            Ok(()) if length == 0 => Err(closed()),
            Ok(()) => {
                self.end += length;
                Ok(())
            }
        })
    }

    /// Sends one command, and returns what the reply says. For a wire on which no reply is owed.
    pub(super) async fn ask<T: FromRedisValue>(&mut self, command: Command<'_>) -> Result<T, Why> {
        let mut replies = self.exchange(&[command]).await?;
        resp::read(replies.pop().unwrap_or(Value::Nil))
    }

    /// Sends all at once, and returns all replies, errors among them. For a wire on which no reply is
    /// owed.
    pub(super) async fn exchange(&mut self, commands: &[Command<'_>]) -> Result<Vec<Value>, Why> {
        for command in commands {
            self.put(command);
        }
        let mut replies = Vec::with_capacity(commands.len());
        for _ in 0..commands.len() + MOST_PUSHES {
            if replies.len() == commands.len() {
                return Ok(replies);
            }
            match self.next().await? {
                Value::Push { .. } => {}
                reply => replies.push(reply),
            }
        }
        Err("the server sends what it was not asked for".into())
    }

    /// Sends what has been put, and returns the next value.
    pub(super) async fn next(&mut self) -> Result<Value, Why> {
        let value = poll_fn(|cx| {
            let written = self.poll_write(cx);
            match (self.poll_value(cx), written) {
                (Poll::Pending, Err(reason)) => Poll::Ready(Err(reason)),
                (value, _) => value,
            }
        });
        value.await
    }
}

fn closed() -> Why {
    Why::new(WhyKind::Closed, "the server closed the connection")
}

fn malformed(error: Malformed) -> Why {
    match error {
        Malformed::NoValue => Why::new(WhyKind::NotRedis, "the reply is no Redis reply"),
        Malformed::TooLarge => "the reply is too large".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;
    use crate::{
        node::scripted::{broken, once, wire},
        script::words,
    };

    /// A wire, and the server's end of it.
    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = tokio::net::TcpStream::from_std(ours).unwrap();
        (Wire::new(Box::new(ours)), theirs)
    }

    async fn next(wire: &mut Wire) -> Result<Value, Why> {
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
    async fn what_a_server_said_before_it_closed_the_connection_is_read() {
        let mut wire = wire(once(b"-ERR max number of clients reached\r\n"), broken);
        let replies = wire.exchange(&[words(["HELLO", "3"])]).await;
        assert!(
            matches!(replies.as_deref(), Ok([Value::ServerError(_)])),
            "{replies:?}"
        );
        let more = wire.exchange(&[words(["PING"])]).await;
        assert_eq!(more, Err("broken pipe".into()));
    }

    #[tokio::test]
    async fn a_server_that_talks_by_itself_gets_no_connection() {
        let (mut wire, mut server) = pair();
        let pushes = ">1\r\n+news\r\n".repeat(MOST_PUSHES + 1);
        server.write_all(pushes.as_bytes()).unwrap();
        assert!(wire.exchange(&[words(["PING"])]).await.is_err());
    }

    #[test]
    fn commands_that_are_written_take_no_room_while_others_wait() {
        const STEP: usize = LARGE / 4;
        let mut is_ready = false;
        let slow = move |bytes: &[u8]| {
            is_ready = !is_ready;
            match is_ready {
                true => Poll::Ready(Ok(bytes.len().min(STEP))),
                false => Poll::Pending,
            }
        };
        let mut wire = wire(once(b""), slow);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        wire.out.resize(2 * LARGE, 0);
        for _ in 0..100 {
            let room = wire.out.len() + STEP;
            wire.out.resize(room, 0);
            assert_eq!(wire.poll_write(&mut cx), Ok(()));
            assert_eq!(wire.out.len() - wire.written, 2 * LARGE);
            assert!(wire.out.len() <= 4 * LARGE + STEP);
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
            wire.out.extend(format!(":{number:05}\r\n").bytes());
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
