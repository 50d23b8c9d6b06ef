//! How the program ends.

use std::fmt::Display;

/// `doctor` has found a mistake.
pub(crate) const FOUND: u8 = 1;
/// The arguments make no sense.
pub(crate) const USAGE: u8 = 64;
/// No majority of servers can be used.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Something failed that is neither the servers' fault nor the caller's.
pub(crate) const INTERNAL: u8 = 70;
/// Another client has the lock.
pub(crate) const HELD: u8 = 75;
/// The lock was lost, or its time was up, and the command was ended.
pub(crate) const LOST: u8 = 76;
/// The node set is described wrongly, or the servers refuse it.
pub(crate) const CONFIG: u8 = 78;

/// Says what is wrong, and how the program ends.
pub(crate) fn fail(code: u8, error: &dyn Display) -> u8 {
    eprintln!("redlock: {error}");
    code
}
