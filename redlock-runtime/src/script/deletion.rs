//! Releases without a script, by servers that delete a key if it has a certain value.
//!
//! For a lock that one owner has alone and that is not to stay, and a process that keeps its place in the queue or
//! has none, `release.lua` does no more than that.

use redis::Value;
use redlock_protocol::{Mode, Request};

use super::word::{
    Command, Word,
    Word::{Key, Owner, Text},
};

/// The command of such a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// Of Valkey since 9.0: key, value.
    DelIfEq,
    /// Of Redis since 8.4: key, condition, value.
    DelEx,
}

/// No key has this name.
const NOTHING: &str = "__redlock:nothing";

impl Deletion {
    const ALL: [Self; 2] = [Self::DelIfEq, Self::DelEx];

    /// What is to be asked to find out which one a server has, and the user may use.
    pub(crate) fn probes() -> [Command<'static>; Self::ALL.len()] {
        Self::ALL.map(|command| command.words(NOTHING, Text("")))
    }

    /// What the replies to the probes say.
    pub(crate) fn known(replies: impl Iterator<Item = Value>) -> Option<Self> {
        let mut known = Self::ALL.into_iter().zip(replies);
        let found = known.find(|(_, reply)| *reply == Value::Int(0));
        found.map(|(command, _)| command)
    }

    /// The command that carries out a request, if it can.
    pub(crate) fn command(self, request: &Request) -> Option<Command<'_>> {
        match request {
            Request::Release {
                key,
                owner,
                mode: Mode::Exclusive,
                keep: None,
                leaves: false,
            } => Some(self.words(key, Owner(*owner))),
            _ => None,
        }
    }

    fn words<'a>(self, key: &'a str, value: Word<'a>) -> Command<'a> {
        match self {
            Self::DelIfEq => vec![Text("DELIFEQ"), Key(key), value],
            Self::DelEx => vec![Text("DELEX"), Key(key), Text("IFEQ"), value],
        }
    }
}
