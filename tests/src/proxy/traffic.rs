//! What has come by a proxy.

use super::mode::Direction;
use crate::{
    resp::{Message, Messages},
    wait::Board,
};

/// What has come by a [`Proxy`](super::Proxy) since its start or its last
/// [`clear`](super::Proxy::clear).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections that were accepted.
    pub accepted: usize,
    /// Connections that are open now.
    pub open: usize,
    /// Bytes that clients have sent.
    pub from_clients: u64,
    /// Bytes of those that were passed on to the server.
    pub to_server: u64,
    /// Bytes that the server has sent.
    pub from_server: u64,
    /// Bytes of those that were passed on to clients.
    pub to_clients: u64,
    /// Commands that have arrived from clients, also those that the server did not get.
    pub commands: Vec<Command>,
    /// Replies that have arrived from the server, also those that the client did not get. Pushes
    /// such as invalidations are not replies.
    pub replies: usize,
    /// Commands that have arrived in the present mode and wait in the proxy.
    pub held_requests: usize,
    /// Replies that have arrived in the present mode and wait in the proxy.
    pub held_replies: usize,
}

impl Traffic {
    /// How many of the commands are named `name`, in any case.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| command.name().eq_ignore_ascii_case(name))
            .count()
    }

    /// How many of the commands have `word` among their arguments, for example a key.
    #[must_use]
    pub fn count_with(&self, word: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| command.words.iter().any(|of| of == word))
            .count()
    }

    fn add(&mut self, connection: usize, direction: Direction, message: &Message) {
        match direction {
            Direction::Request => self.commands.push(Command {
                connection,
                words: message.words(),
            }),
            Direction::Reply if message.is_push() => (),
            Direction::Reply => self.replies += 1,
        }
    }
}

/// A command that a client has sent.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Command {
    /// Which connection it came by, counted from 0 in the order of acceptance.
    pub connection: usize,
    /// The name and the arguments.
    pub words: Vec<String>,
}

impl Command {
    /// The first word, as the client wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// The traffic of one proxy, written by its thread and read by the test.
#[derive(Clone, Debug)]
pub(super) struct Ledger(Board<Traffic>);

impl Ledger {
    pub(super) fn read<R>(&self, look: impl FnOnce(&Traffic) -> R) -> R {
        self.0.read(look)
    }

    #[track_caller]
    pub(super) fn wait(&self, what: &str, check: impl Fn(&Traffic) -> bool) {
        self.0.wait(what, |traffic| check(traffic).then_some(()));
    }

    #[track_caller]
    pub(super) fn wait_async<F>(
        &self,
        what: &str,
        check: F,
    ) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Fn(&Traffic) -> bool + Send + 'static,
    {
        self.0
            .wait_async(what.to_owned(), move |traffic| check(traffic).then_some(()))
    }

    pub(super) fn clear(&self) {
        self.0.update(|traffic| {
            *traffic = Traffic {
                open: traffic.open,
                ..Traffic::default()
            };
        });
    }

    /// A new mode begins: nothing has been held in it.
    pub(super) fn mode_changed(&self) {
        self.0.update(|traffic| {
            traffic.held_requests = 0;
            traffic.held_replies = 0;
        });
    }

    /// Counts a connection, which is open until the returned value is dropped.
    pub(super) fn accepted(&self) -> OpenConnection {
        self.0.update(|traffic| {
            traffic.accepted += 1;
            traffic.open += 1;
        });
        OpenConnection(self.clone())
    }

    pub(super) fn arrived(
        &self,
        connection: usize,
        direction: Direction,
        bytes: &[u8],
        messages: &mut Messages,
        held: bool,
    ) {
        messages.push(bytes);
        self.0.update(|traffic| {
            let size = bytes.len() as u64;
            match direction {
                Direction::Request => traffic.from_clients += size,
                Direction::Reply => traffic.from_server += size,
            }
            while let Some(message) = messages.pop() {
                traffic.add(connection, direction, &message);
                match direction {
                    Direction::Request if held => traffic.held_requests += 1,
                    Direction::Reply if held && !message.is_push() => traffic.held_replies += 1,
                    Direction::Request | Direction::Reply => (),
                }
            }
        });
    }

    pub(super) fn passed_on(&self, direction: Direction, bytes: &[u8]) {
        let size = bytes.len() as u64;
        self.0.update(|traffic| match direction {
            Direction::Request => traffic.to_server += size,
            Direction::Reply => traffic.to_clients += size,
        });
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self(Board::new(Traffic::default()))
    }
}

/// A connection while it is open.
#[derive(Debug)]
pub(super) struct OpenConnection(Ledger);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.update(|traffic| traffic.open -= 1);
    }
}
