//! Steps in words.

use std::fmt;

use super::Move;
use crate::words::{client as name, node as of, nodes};

fn key_name(key: u8) -> char {
    char::from(b'a' + key)
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_key = |process, key| format!("{} of key {}", name(process), key_name(key));
        match *self {
            Self::Begin { process } => write!(f, "{} asks for all of its keys", name(process)),
            Self::Grant {
                process,
                key,
                by,
                far,
            } => {
                let far = if far {
                    ", with a number of a clock"
                } else {
                    ""
                };
                write!(
                    f,
                    "{} grant key {} to {}{far}",
                    nodes(by),
                    key_name(key),
                    name(process)
                )
            }
            Self::GrantInTurn { process, key } => {
                write!(f, "{} has key {} in its turn", name(process), key_name(key))
            }
            Self::Refuse { process, key } => {
                write!(f, "key {} is refused to {}", key_name(key), name(process))
            }
            Self::TimesOut { process, key } => {
                write!(
                    f,
                    "{} has waited for key {} for long enough",
                    name(process),
                    key_name(key)
                )
            }
            Self::Extend { process } => write!(f, "{} wants to extend", name(process)),
            Self::Extended { process, key, by } => {
                write!(f, "{} extend what {} has", nodes(by), of_key(process, key))
            }
            Self::NotExtended { process, key } => {
                write!(f, "what {} has is not extended", of_key(process, key))
            }
            Self::Over { process, key } => write!(f, "the lease of {} ends", of_key(process, key)),
            Self::End {
                process,
                report: false,
            } => write!(f, "{} lets go, or gives up", name(process)),
            Self::End { process, .. } => {
                write!(f, "{} lets go, and waits to hear of it", name(process))
            }
            Self::Reported { process, key } => {
                write!(f, "the release of {} is told", of_key(process, key))
            }
            Self::HandOut { process, key } => {
                write!(
                    f,
                    "{} has key {} alone, in its turn",
                    name(process),
                    key_name(key)
                )
            }
            Self::LetGo { process, key } => write!(f, "the turn of {} ends", of_key(process, key)),
            Self::PutBack { process, key, node } => {
                write!(
                    f,
                    "{} puts key {} back on {}",
                    name(process),
                    key_name(key),
                    of(node)
                )
            }
            Self::Forget { node } => write!(f, "{} loses its memory", of(node)),
            Self::Admit { node } => write!(f, "{} is admitted", of(node)),
            Self::Stuck { process } => write!(f, "{} asks in vain", name(process)),
        }
    }
}
