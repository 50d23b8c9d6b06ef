//! What has come by a proxy.

use super::mode::Direction;
use crate::{resp::Messages, wait::Board};

/// What has come by a [`Proxy`](super::Proxy) since its start or its last
/// [`clear`](super::Proxy::clear).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections that were accepted.
    pub accepted: usize,
    /// Commands that have arrived from clients, also those that the server did not get.
    pub commands: Vec<Command>,
    /// Replies that have arrived in the present mode and were not passed on: they wait in the proxy, or are swallowed.
    pub held_replies: usize,
}

impl Traffic {
    /// How many of the commands are named `name`, in any case.
    pub fn count(&self, name: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| command.name().eq_ignore_ascii_case(name))
            .count()
    }
}

/// A command that a client has sent.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Command {
    /// The name and the arguments.
    pub words: Vec<String>,
}

impl Command {
    /// The first word, as the client wrote it.
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
        self.0.update(|traffic| *traffic = Traffic::default());
    }

    /// A new mode begins: nothing has been held in it.
    pub(super) fn mode_changed(&self) {
        self.0.update(|traffic| traffic.held_replies = 0);
    }

    pub(super) fn accepted(&self) {
        self.0.update(|traffic| traffic.accepted += 1);
    }

    pub(super) fn arrived(
        &self,
        direction: Direction,
        bytes: &[u8],
        messages: &mut Messages,
        held: bool,
    ) {
        messages.push(bytes);
        self.0.update(|traffic| {
            while let Some(message) = messages.pop() {
                match direction {
                    Direction::Request => traffic.commands.push(Command {
                        words: message.words(),
                    }),
                    Direction::Reply if held && !message.is_push() => traffic.held_replies += 1,
                    Direction::Reply => (),
                }
            }
        });
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self(Board::new(Traffic::default()))
    }
}
