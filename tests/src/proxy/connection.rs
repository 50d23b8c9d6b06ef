//! One connection through a proxy, and the two ways of its bytes.

use std::{collections::VecDeque, future, net::SocketAddr, time::Duration};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    mode::{Direction, Gate, Mode},
    traffic::Ledger,
};
use crate::resp::Messages;

/// How a connection hears of the network's state and reports its bytes.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) mode: watch::Receiver<Mode>,
    pub(super) ledger: Ledger,
}

/// Carries bytes until the connection has ended, or its task is aborted, which resets both sides.
pub(super) async fn serve(mut client: TcpStream, server: SocketAddr, link: Link) {
    let _ = client.set_nodelay(true);
    if *link.mode.borrow() == Mode::BlackHole {
        return swallow(client, link).await;
    }
    // When the server is down, its client is reset.
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    reset_on_drop(&server);
    let _ = server.set_nodelay(true);

    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let result = tokio::try_join!(
        Way::new(Direction::Request, link.clone()).carry(from_client, to_server),
        Way::new(Direction::Reply, link).carry(from_server, to_client),
    );
    if result.is_ok() {
        let _ = SockRef::from(&client).set_linger(None);
        let _ = SockRef::from(&server).set_linger(None);
    }
}

/// From now on `stream` ends with RST, unless both ways came to a proper end.
pub(super) fn reset_on_drop(stream: &TcpStream) {
    // It fails for a connection that has ended already.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Takes what a client sends, for ever.
async fn swallow(mut client: TcpStream, link: Link) {
    let mut messages = Messages::default();
    let mut buffer = vec![0; BUFFER];
    while let Ok(size @ 1..) = client.read(&mut buffer).await {
        let bytes = &buffer[..size];
        link.ledger
            .arrived(Direction::Request, bytes, &mut messages, false);
    }
}

/// The connection has failed, or one side could not be told how it ended.
struct Broken;

/// One direction of a connection.
struct Way {
    direction: Direction,
    link: Link,
    messages: Messages,
    /// What has arrived and was not passed on, with the time of its arrival.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// Something was swallowed; the rest would make no sense to the other side.
    spoiled: bool,
    last: Instant,
    end: Option<End>,
}

/// How the sending side has ended.
#[derive(Clone, Copy)]
enum End {
    Closed,
    Failed,
}

impl Way {
    fn new(direction: Direction, link: Link) -> Self {
        Self {
            direction,
            link,
            messages: Messages::default(),
            waiting: VecDeque::new(),
            spoiled: false,
            last: Instant::now(),
            end: None,
        }
    }

    async fn carry(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let mode = *self.link.mode.borrow_and_update();
            let gate = self.enter(mode);
            if self.has_ended(mode) {
                return self.finish(to).await;
            }
            let due = self.due(gate);
            if due.is_some_and(|due| due <= Instant::now()) {
                self.pass_on(&mut to, mode).await?;
                continue;
            }
            tokio::select! {
                biased;
                changed = self.link.mode.changed() => changed.map_err(|_| Broken)?,
                () = sleep(due) => (),
                read = from.read(&mut buffer), if self.end.is_none() => match read {
                    Ok(0) => self.end = Some(End::Closed),
                    Ok(size) => self.take(&buffer[..size], self.remember(mode, gate)),
                    Err(_) => self.end = Some(End::Failed),
                },
            }
        }
    }

    /// What `mode` means for the bytes of this way.
    fn enter(&mut self, mode: Mode) -> Gate {
        let gate = mode.gate(self.direction);
        if gate == Gate::Swallow && !self.waiting.is_empty() {
            self.waiting.clear();
            self.spoiled = true;
        }
        if self.spoiled { Gate::Swallow } else { gate }
    }

    /// The gate for what has just arrived.
    fn remember(&self, mode: Mode, gate: Gate) -> Gate {
        match mode {
            Mode::Forget(idle) if self.last.elapsed() >= idle => Gate::Swallow,
            _ => gate,
        }
    }

    fn take(&mut self, bytes: &[u8], gate: Gate) {
        self.last = Instant::now();
        self.link.ledger.arrived(
            self.direction,
            bytes,
            &mut self.messages,
            !matches!(gate, Gate::Open { .. }),
        );
        if gate == Gate::Swallow {
            self.spoiled = true;
        } else {
            self.waiting.push_back((Instant::now(), bytes.to_vec()));
        }
    }

    /// When the oldest bytes may pass.
    fn due(&self, gate: Gate) -> Option<Instant> {
        match (gate, self.waiting.front()) {
            (Gate::Open { delay, .. }, Some((arrival, _))) => Some(*arrival + delay),
            _ => None,
        }
    }

    async fn pass_on(&mut self, to: &mut WriteHalf<'_>, mode: Mode) -> Result<(), Broken> {
        let Some((_, mut bytes)) = self.waiting.pop_front() else {
            return Ok(());
        };
        let is_cut = mode == Mode::CutReplies && self.direction == Direction::Reply;
        if is_cut {
            bytes.truncate(bytes.len() / 2);
        }
        if let Gate::Open { chunk, .. } = mode.gate(self.direction)
            && bytes.len() > chunk
        {
            let rest = bytes.split_off(chunk);
            self.waiting.push_front((Instant::now(), rest));
        }
        to.write_all(&bytes).await.map_err(|_| Broken)?;
        if is_cut { Err(Broken) } else { Ok(()) }
    }

    /// Whether the end of the sending side may now reach the other one.
    fn has_ended(&self, mode: Mode) -> bool {
        let is_open = matches!(mode.gate(self.direction), Gate::Open { .. });
        is_open && self.end.is_some() && self.waiting.is_empty()
    }

    async fn finish(self, mut to: WriteHalf<'_>) -> Result<(), Broken> {
        match (self.end, self.direction) {
            (Some(End::Failed), _) => Err(Broken),
            // The server would wait for the rest of what was swallowed.
            (_, Direction::Request) if self.spoiled => Err(Broken),
            _ => to.shutdown().await.map_err(|_| Broken),
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => future::pending().await,
    }
}

/// As much as one read takes. Larger than any message of a lock, so that those stay in one piece.
const BUFFER: usize = 16 * 1024;
