//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::{client as name, node as of};

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { process } => write!(f, "a caller of {} comes and asks", name(process)),
            Self::AskAgain { process } => write!(f, "{} asks again", name(process)),
            Self::Arrive { process, node } => {
                write!(
                    f,
                    "the next message of {} arrives at {}",
                    name(process),
                    of(node)
                )
            }
            Self::Fail { process } => write!(f, "the attempt of {} fails", name(process)),
            Self::End { process } => write!(f, "{} releases the lock", name(process)),
            Self::Expire { process } => write!(f, "the place of {} expires", name(process)),
            Self::Vanish { process } => write!(f, "{} is killed", name(process)),
            Self::GiveUp { process } => write!(f, "the caller of {} gives up", name(process)),
        }
    }
}
