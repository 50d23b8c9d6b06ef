//! The names of keys.

use std::sync::{Arc, LazyLock};

use redlock_protocol::stripe;

/// The most keys that a history has.
pub(crate) const KEYS: usize = 3;

/// The second shares the stripe of the first, and so its counters and its waiter hints.
static NAMES: LazyLock<[String; KEYS]> = LazyLock::new(|| {
    let collides = |name: &String| stripe(name) == stripe("a");
    let second = (0..).map(|number| format!("b{number}")).find(collides);
    ["a".to_owned(), second.unwrap_or_default(), "c".to_owned()]
});

/// The names for one history: threads that share them would wait for each other's counts.
pub(crate) fn names() -> [Arc<str>; KEYS] {
    NAMES.each_ref().map(|name| Arc::from(name.as_str()))
}

/// Keys are named `a`, `b..` and `c`.
pub(crate) fn index_of(key: &str) -> usize {
    usize::from(key.as_bytes()[0] - b'a')
}
