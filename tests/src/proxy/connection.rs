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
    pub(super) number: usize,
    pub(super) state: watch::Receiver<State>,
    pub(super) ledger: Ledger,
}

/// The state of the network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) mode: Mode,
    /// How often connections have lost their server. A number, because a mode that is soon followed
    /// by another is not seen by every connection.
    pub(super) half_opened: usize,
}

/// Carries bytes until the connection has ended, or its task is aborted, which resets both sides.
pub(super) async fn serve(mut client: TcpStream, server: SocketAddr, link: Link) {
    let _ = client.set_nodelay(true);
    if link.state.borrow().mode.is_unreachable() {
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
            .arrived(link.number, Direction::Request, bytes, &mut messages, false);
    }
}

/// The connection has failed, or one side could not be told how it ended.
struct Broken;

/// One direction of a connection.
struct Way {
    direction: Direction,
    link: Link,
    /// The value of [`State::half_opened`] when the connection began.
    half_opened: usize,
    messages: Messages,
    /// What has arrived and was not passed on, with the time of its arrival.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// Something was swallowed; the rest would make no sense to the other side.
    spoiled: bool,
    end: Option<End>,
    /// When the next piece may pass a narrow way.
    narrow_until: Instant,
}

/// How the sending side has ended.
#[derive(Clone, Copy)]
enum End {
    Closed,
    Failed,
}

impl Way {
    fn new(direction: Direction, link: Link) -> Self {
        let half_opened = link.state.borrow().half_opened;
        Self {
            direction,
            link,
            half_opened,
            messages: Messages::default(),
            waiting: VecDeque::new(),
            spoiled: false,
            end: None,
            narrow_until: Instant::now(),
        }
    }

    async fn carry(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let State { mode, half_opened } = *self.link.state.borrow_and_update();
            if half_opened > self.half_opened {
                return self.lose_server(from, to).await;
            }
            let gate = self.enter(mode);
            if self.has_ended(mode) {
                return self.finish(to).await;
            }
            let due = self.due(gate);
            if due.is_some_and(|due| due <= Instant::now()) {
                self.pass_on(&mut to).await?;
                continue;
            }
            tokio::select! {
                biased;
                changed = self.link.state.changed() => changed.map_err(|_| Broken)?,
                () = sleep(due) => (),
                read = from.read(&mut buffer), if self.end.is_none() => match read {
                    Ok(0) => self.end = Some(End::Closed),
                    Ok(size) => self.take(&buffer[..size], gate),
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

    fn take(&mut self, bytes: &[u8], gate: Gate) {
        self.link.ledger.arrived(
            self.link.number,
            self.direction,
            bytes,
            &mut self.messages,
            gate == Gate::Hold,
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
            (Gate::Open { delay }, Some((arrival, _))) => Some(*arrival + delay),
            (Gate::Narrow, Some((arrival, _))) => Some((*arrival).max(self.narrow_until)),
            _ => None,
        }
    }

    async fn pass_on(&mut self, to: &mut WriteHalf<'_>) -> Result<(), Broken> {
        if let Some((arrival, mut bytes)) = self.waiting.pop_front() {
            if self.link.state.borrow().mode.gate(self.direction) == Gate::Narrow {
                let rest = bytes.split_off(bytes.len().min(PIECE));
                if !rest.is_empty() {
                    self.waiting.push_front((arrival, rest));
                }
                self.narrow_until = Instant::now() + PIECE_EVERY;
            }
            // Before the other side can react to them.
            self.link.ledger.passed_on(self.direction, &bytes);
            to.write_all(&bytes).await.map_err(|_| Broken)?;
        }
        Ok(())
    }

    /// Whether the end of the sending side may now reach the other one.
    fn has_ended(&self, mode: Mode) -> bool {
        let is_open = matches!(mode.gate(self.direction), Gate::Open { .. } | Gate::Narrow);
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

    /// The server sees its side close; the client sees nothing, until it goes away by itself.
    async fn lose_server(
        mut self,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Broken> {
        if self.direction == Direction::Reply {
            return future::pending().await;
        }
        // It may have closed already.
        let _ = to.shutdown().await;
        let mut buffer = vec![0; BUFFER];
        while let Ok(size @ 1..) = from.read(&mut buffer).await {
            self.take(&buffer[..size], Gate::Swallow);
        }
        Err(Broken)
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => future::pending().await,
    }
}

/// What passes a narrow way at a time.
const PIECE: usize = 200;
const PIECE_EVERY: Duration = Duration::from_millis(10);

/// As much as one read takes. Larger than any message of a lock, so that those stay in one piece.
const BUFFER: usize = 16 * 1024;
