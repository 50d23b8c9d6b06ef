//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::{client, node};

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ask {
                round,
                proposal,
                length,
            } => write!(
                f,
                "{} asks for {length}, proposes {proposal}",
                client(round)
            ),
            Self::Vote {
                round,
                node: at,
                first,
            } => write!(f, "{} replies {first} to {}", node(at), client(round)),
            Self::Win { round, first } => {
                write!(f, "{} wins the block from {first}", client(round))
            }
            Self::End { round } => write!(f, "{} gives up", client(round)),
            Self::Raise { node: at } => write!(f, "{} raises its counter by one", node(at)),
            Self::Lose { node: at } => write!(f, "{} loses its memory", node(at)),
            Self::Wait { node: at } => write!(f, "{} has waited", node(at)),
            Self::Read { node: at, other } => {
                write!(f, "the counter of {} is read for {}", node(other), node(at))
            }
            Self::Admit { node: at, counter } => {
                write!(f, "{} is admitted with counter {counter}", node(at))
            }
        }
    }
}
