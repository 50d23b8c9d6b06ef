//! The names of keys.

use std::sync::{Arc, LazyLock};

use redlock_protocol::{gate_key, slot_key, stripe};

/// The most locks that a history has, or the most permits.
pub(crate) const LOCKS: usize = 3;

/// The gate before several permits. No caller has it for long, so the books count those here that have them.
pub(crate) const GATE: usize = LOCKS;

/// What some ask for beside permits.
pub(crate) const BESIDE: usize = LOCKS + 1;

/// All that a history counts.
pub(crate) const KEYS: usize = LOCKS + 2;

/// The second shares the stripe of the first, and so its counters. The last two are of no use without permits.
static NAMES: LazyLock<[String; KEYS]> = LazyLock::new(|| {
    let collides = |name: &String| stripe(name) == stripe("a");
    let second = (0..).map(|number| format!("b{number}")).find(collides);
    ["a", &second.unwrap_or_default(), "c", "d", "e"].map(str::to_owned)
});

/// The lock of histories with permits.
pub(crate) const POOL: &str = "p";

/// The names for one history: threads that share them would wait for each other's counts.
pub(crate) fn names(are_slots: bool) -> [Arc<str>; KEYS] {
    match are_slots {
        true => {
            let [first, second, third] = [0, 1, 2].map(|slot| slot_key(POOL, slot));
            [first, second, third, gate_key(POOL), "q".into()]
        }
        false => NAMES.each_ref().map(|name| Arc::from(name.as_str())),
    }
}

/// Keys are named `a`, `b..` and `c`, or are those of slots of `p`, and `q`. Who waits for slots is counted with the
/// first.
pub(crate) fn index_of(key: &str) -> usize {
    let key = key.as_bytes();
    usize::from(match key {
        [b'p', .., b':'] => 0,
        [b'p', .., b'e'] => GATE as u8,
        [b'p', .., slot] => slot - b'0',
        [b'q'] => BESIDE as u8,
        _ => key[0] - b'a',
    })
}
