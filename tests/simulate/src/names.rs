//! The names of keys.

use std::sync::{Arc, LazyLock};

use redlock_protocol::{slot_key, stripe};

/// The most keys that a history has.
pub(crate) const KEYS: usize = 3;

/// The second shares the stripe of the first, and so its counters.
static NAMES: LazyLock<[String; KEYS]> = LazyLock::new(|| {
    let collides = |name: &String| stripe(name) == stripe("a");
    let second = (0..).map(|number| format!("b{number}")).find(collides);
    ["a".to_owned(), second.unwrap_or_default(), "c".to_owned()]
});

/// The lock of histories with permits.
pub(crate) const POOL: &str = "p";

/// The names for one history: threads that share them would wait for each other's counts.
pub(crate) fn names(are_slots: bool) -> [Arc<str>; KEYS] {
    match are_slots {
        true => [0, 1, 2].map(|slot| slot_key(POOL, slot)),
        false => NAMES.each_ref().map(|name| Arc::from(name.as_str())),
    }
}

/// Keys are named `a`, `b..` and `c`, or are those of slots of `p`. Who waits for those is counted with the first.
pub(crate) fn index_of(key: &str) -> usize {
    let key = key.as_bytes();
    usize::from(match key {
        [b'p', .., b':'] => 0,
        [b'p', .., slot] => slot - b'0',
        _ => key[0] - b'a',
    })
}
