//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::client as name;

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tick => write!(f, "a tick passes"),
            Self::Begin { process } => write!(f, "{} comes and asks", name(process)),
            Self::Ask { process } => write!(f, "{} asks again", name(process)),
            Self::Release { process } => write!(f, "{} releases the lock", name(process)),
            Self::Die { process } => write!(f, "{} is killed", name(process)),
            Self::Expire => write!(f, "the key of a process that was killed expires"),
            Self::Forget => write!(f, "the node forgets its queue"),
        }
    }
}
