//! Several requests in one command. Its reply has for each of them what its own command would have
//! brought.

use redlock_protocol::{Act, AdmissionId, Mode, Request, Vote};

use super::{
    source::{EXTEND_MANY, run},
    word::{
        Command,
        Word::{Key, Number, Owner},
        millis, words,
    },
};

/// What requests have in common that can go to a node in one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Extensions without tokens and notes, of locks that are not shared.
    Extend(AdmissionId),
    /// Reads of keys that should be there, of locks that are not shared. A key that is gone has to be read once more: `MGET` does not
    /// tell it from one of another type.
    Watch,
}

/// The kind of a request that can go out with others.
pub(crate) const fn kind(request: &Request) -> Option<Kind> {
    match request {
        Request::Vote(
            Vote {
                mode: Mode::Exclusive,
                block: None,
                admission,
                ..
            },
            Act::Extend { note: None, .. },
        ) => Some(Kind::Extend(*admission)),
        Request::Watch {
            owner: Some(_),
            mode: Mode::Exclusive,
            ..
        } => Some(Kind::Watch),
        _ => None,
    }
}

/// What carries out these requests of one kind.
pub(crate) fn command_for_many<'a>(
    kind: Kind,
    requests: impl Iterator<Item = &'a Request> + Clone,
    hash: &'a str,
    with_source: bool,
) -> Command<'a> {
    let keys = requests
        .clone()
        .filter_map(Request::key)
        .map(|key| Key(key));
    let mut command = match kind {
        Kind::Watch => {
            let mut command = words(["MGET"]);
            command.extend(keys);
            return command;
        }
        Kind::Extend(admission) => {
            let keys: Vec<_> = keys.chain([Key(hash)]).collect();
            let mut command = run(&EXTEND_MANY, with_source, &keys);
            command.push(Number(admission.0));
            command
        }
    };
    for request in requests {
        if let Request::Vote(vote, Act::Extend { spare, .. }) = request {
            let written = vote.ttl.saturating_add(*spare);
            command.extend([Owner(vote.owner), millis(vote.ttl), millis(written)]);
        }
    }
    command
}
