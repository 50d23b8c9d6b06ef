//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::{client as name, node as of};

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tick => write!(f, "a tick passes"),
            Self::Acquire { client, ttl } => {
                write!(f, "{} begins to acquire for {ttl}", name(client))
            }
            Self::Extend { client, ttl } => write!(f, "{} begins to extend by {ttl}", name(client)),
            Self::Vote { client, node } => write!(f, "{} votes for {}", of(node), name(client)),
            Self::Unheard { client, node } => {
                write!(
                    f,
                    "{} votes for {}, and the reply is lost",
                    of(node),
                    name(client)
                )
            }
            Self::PutBack { client, node } => {
                write!(f, "{} puts its key back on {}", name(client), of(node))
            }
            Self::Release { client } => write!(f, "{} releases or gives up", name(client)),
            Self::Lose { node } => write!(f, "{} loses its memory", of(node)),
            Self::Save { node } => write!(f, "{} writes a snapshot", of(node)),
            Self::Restore { node } => write!(f, "{} is restarted from its snapshot", of(node)),
            Self::Note { node } => write!(f, "the loss of {} is noted", of(node)),
            Self::NoteAlone { node } => write!(
                f,
                "the loss of {} is noted by a client that reaches no other node",
                of(node)
            ),
            Self::NoteBeside { node } => write!(
                f,
                "a client that knows another node's marker adds that to the loss of {}",
                of(node)
            ),
            Self::Admit { node } => write!(f, "{} is admitted", of(node)),
            Self::AdmitFirst { node } => write!(f, "{} is admitted by the first start", of(node)),
            Self::Look { reader, node } => {
                write!(f, "reader {} looks after {}", reader + 1, of(node))
            }
            Self::Read { reader, node } => write!(f, "reader {} reads {}", reader + 1, of(node)),
            Self::AdmitBy { reader, node } => {
                write!(f, "reader {} admits {}", reader + 1, of(node))
            }
            Self::Forget { reader } => write!(f, "reader {} begins anew", reader + 1),
        }
    }
}
