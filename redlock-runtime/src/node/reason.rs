//! What operators read about a failure.

use std::{fmt::Display, sync::Arc};

/// So many characters of what a server, the operating system or the application says.
const LONGEST_REASON: usize = 300;

/// On one line.
pub(super) fn reason(error: &dyn Display) -> Arc<str> {
    let text = error.to_string();
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(LONGEST_REASON) {
        words.truncate(end);
        words.push('…');
    }
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        assert_eq!(&*reason(&"no\r\n way"), "no way");
        let long = reason(&"x".repeat(1 << 20));
        assert_eq!(long.chars().count(), LONGEST_REASON + 1);
    }
}
