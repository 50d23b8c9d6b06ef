//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::{client as name, node as of};

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tick => write!(f, "a tick passes"),
            Self::Acquire { client } => write!(f, "{} begins to acquire", name(client)),
            Self::Extend { client } => write!(f, "{} begins to extend", name(client)),
            Self::Join { client } => write!(f, "a second section of {} begins", name(client)),
            Self::Leave { client } => {
                write!(f, "a section of {} ends, another goes on", name(client))
            }
            Self::Vote { client, node } => write!(f, "{} votes for {}", of(node), name(client)),
            Self::Unheard { client, node } => {
                let (node, client) = (of(node), name(client));
                write!(f, "{node} votes for {client}, and the reply is lost")
            }
            Self::PutBack { client, node } => {
                write!(f, "{} puts its key back on {}", name(client), of(node))
            }
            Self::Release { client } => write!(f, "{} releases or gives up", name(client)),
            Self::Lose { node } => write!(f, "{} loses its memory", of(node)),
            Self::Admit { node } => write!(f, "{} is admitted", of(node)),
        }
    }
}
