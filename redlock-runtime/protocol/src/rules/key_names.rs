//! The names of the keys of one lock, and the group whose counter it has: part of the wire format.

use std::sync::Arc;

/// Counters are kept for this number of groups of keys: few enough that they never need to expire, and a
/// shared one leaves gaps in the tokens of a key but keeps their order.
const STRIPES: u64 = 1_024;

/// A hash of a key that all clients agree on (FNV-1a, 64 bits): part of the wire format.
fn fingerprint(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The group of a key, whose counter it shares. The slots of a lock with permits are in the group of the
/// lock, so that no two of its holders have the same token.
#[must_use]
pub fn stripe(key: &str) -> u64 {
    fingerprint(lock_of(key)) % STRIPES
}

/// A lock has no more permits.
pub const MOST_SLOTS: u32 = 1_024;

/// What is between a lock and the number of its slot. No lock has a name with this in it.
const SLOT: &str = "#__redlock:";

/// What follows a lock in the name of its gate. No number: a slot is passed on to those who wait for one.
const GATE: &str = "#__redlock:gate";

/// The key of one slot of a lock with permits: part of the wire format.
#[must_use]
pub fn slot_key(lock: &str, slot: u32) -> Arc<str> {
    format!("{lock}{SLOT}{slot}").into()
}

/// The key at which the callers of a lock with permits wait. The names of its slots begin with it.
#[must_use]
pub fn line_key(lock: &str) -> Arc<str> {
    format!("{lock}{SLOT}").into()
}

/// The key that a caller has while it collects several permits of a lock.
#[must_use]
pub fn gate_key(lock: &str) -> Arc<str> {
    format!("{lock}{GATE}").into()
}

/// If this is the key of a slot: the key at which its callers wait.
#[must_use]
pub fn line_of(key: &str) -> Option<&str> {
    let line = key.trim_end_matches(|digit: char| digit.is_ascii_digit());
    // Four digits are enough for `MOST_SLOTS`; a longer number was no slot of this library.
    let is_slot = line.ends_with(SLOT) && (1..=4).contains(&(key.len() - line.len()));
    is_slot.then_some(line)
}

/// The lock that a key belongs to, which may be one of its slots, or its gate.
fn lock_of(key: &str) -> &str {
    let line = line_of(key).unwrap_or(key);
    let without = |end| line.strip_suffix(end);
    without(SLOT).or_else(|| without(GATE)).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_the_same_for_every_client() {
        assert_eq!(stripe(""), 0xcbf2_9ce4_8422_2325 % STRIPES);
        assert_eq!(stripe("a"), 0xaf63_dc4c_8601_ec8c % STRIPES);
        assert_eq!(stripe("foobar"), 0x8594_4171_f739_67e8 % STRIPES);
    }

    #[test]
    fn slots_are_in_the_stripe_of_their_lock() {
        let line = line_key("foobar");
        for slot in [0, 9, 10, 1_023] {
            let key = slot_key("foobar", slot);
            assert_eq!(line_of(&key), Some(&*line));
            assert_eq!(*key, format!("{line}{slot}"));
            assert_eq!(stripe(&key), stripe("foobar"));
        }
        assert_eq!(stripe(&line), stripe("foobar"));
        assert_eq!(stripe(&gate_key("foobar")), stripe("foobar"));
        for other in [
            "foobar",
            "foobar#7",
            &line,
            "a#__redlock:12345",
            "17",
            "#é1",
        ] {
            assert_eq!(line_of(other), None, "{other}");
        }
    }
}
