//! Steps in words.

use std::fmt;

use super::{Kind, Move};
use crate::words::{client, node, nodes};

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Acquire { turn, .. } | Self::Refresh { turn, .. } => {
                write!(f, "{} {}", client(turn), self.question())
            }
            Self::Again { turn, heard, .. } | Self::Confirm { turn, heard, .. } => write!(
                f,
                "{} hears {} and {}",
                client(turn),
                nodes(heard),
                self.question()
            ),
            Self::Vote {
                turn,
                node: at,
                first,
            } => write!(f, "{} replies {first} to {}", node(at), client(turn)),
            Self::Key { turn, node: at } => write!(
                f,
                "{} has the key of {} without a reply",
                node(at),
                client(turn)
            ),
            Self::Win { turn, first, .. } => {
                write!(f, "{} wins the block from {first}", client(turn))
            }
            Self::WinOlder { turn, first } => write!(
                f,
                "{} wins the block from {first} by the older refresh",
                client(turn)
            ),
            Self::Keep { turn } => write!(f, "{} gives up its refresh", client(turn)),
            Self::HandOut { turn, token } => write!(f, "{} hands out {token}", client(turn)),
            Self::End { turn } => write!(f, "the turn of {} is over", client(turn)),
            Self::Raise { node: at } => write!(f, "{} raises its counter by one", node(at)),
            Self::Expire { turn, node: at } => {
                write!(f, "the key of {} on {} expires", client(turn), node(at))
            }
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

impl Move {
    /// What a round asks, if one begins.
    fn question(&self) -> String {
        match *self {
            Self::Acquire {
                kind,
                proposal,
                length,
                ..
            } => {
                let what = match kind {
                    Kind::Alone => "",
                    Kind::Shared => " that is shared",
                    Kind::OtherSlot => " with the other slot",
                };
                format!("begins a turn{what} and asks for {length}, proposes {proposal}")
            }
            Self::Refresh {
                proposal, length, ..
            } => format!("asks for {length} more, proposes {proposal}"),
            Self::Again { proposal, .. } => format!("asks again, proposes {proposal}"),
            Self::Confirm { number, .. } => format!("asks them to confirm {number}"),
            _ => String::new(),
        }
    }
}
