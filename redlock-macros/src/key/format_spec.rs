//! What follows the colon of a placeholder: `:>5`, `:?`, `:0width$.3`.

/// The names of the arguments that give a width or a precision; `None` if rustc would not accept
/// the specification.
pub(super) fn named_counts(spec: &str) -> Option<Vec<&str>> {
    let mut rest = Rest(spec.strip_prefix(':').unwrap_or(spec).trim_end());
    rest.take_alignment();
    rest.take(&["+", "-"]);
    rest.take(&["#"]);
    if !rest.0.starts_with("0$") {
        rest.take(&["0"]);
    }
    let mut names: Vec<&str> = rest.take_count().into_iter().collect();
    if rest.take(&["."]) {
        let before = rest.0.len();
        names.extend(rest.take_count());
        if rest.0.len() == before {
            return None;
        }
    }
    let is_trait = ["", "?", "x?", "X?", "o", "x", "X", "p", "b", "e", "E"].contains(&rest.0);
    is_trait.then_some(names)
}

/// `:1$` and `:.*` take their number from an argument by its position; the key has no positions.
pub(super) fn counts_positions(spec: &str) -> bool {
    let by_position = |before: &str| {
        let last = before.rsplit(|c| !unicode_ident::is_xid_continue(c)).next();
        last.is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()))
    };
    spec.contains(".*")
        || spec
            .match_indices('$')
            .any(|(end, _)| by_position(&spec[..end]))
}

struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, prefixes: &[&str]) -> bool {
        let rest = prefixes
            .iter()
            .find_map(|prefix| self.0.strip_prefix(prefix));
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// `<`, or any character to fill with and then `<`.
    fn take_alignment(&mut self) {
        let mut after_fill = self.0.chars();
        after_fill.next();
        let mut filled = Rest(after_fill.as_str());
        if filled.take(&["<", "^", ">"]) {
            *self = filled;
        } else {
            self.take(&["<", "^", ">"]);
        }
    }

    /// `5` or `width$`, which gives its name.
    fn take_count(&mut self) -> Option<&'a str> {
        let end = |is_in: fn(char) -> bool| self.0.find(|c| !is_in(c)).unwrap_or(self.0.len());
        let (name, after) = self.0.split_at(end(unicode_ident::is_xid_continue));
        if let Some(after) = after.strip_prefix('$') {
            self.0 = after;
            return Some(name);
        }
        self.0 = &self.0[end(|c| c.is_ascii_digit())..];
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_that_rustc_accepts() {
        for spec in [
            "",
            ":",
            ":?",
            ":x",
            ":#X?",
            ":>5",
            ":*^+#010.3e",
            ":05",
            ":<",
            ":-",
            ":.2",
            ":? ",
            ":>>5",
            ":é<5",
        ] {
            assert_eq!(named_counts(spec), Some(Vec::new()), "{spec}");
        }
        assert_eq!(named_counts(":>width$"), Some(vec!["width"]));
        assert_eq!(named_counts(":0w$.p$?"), Some(vec!["w", "p"]));
    }

    #[test]
    fn specifications_that_it_refuses() {
        for spec in [":y", ":>5y", ":.", ":é5", ":??", "::", ":width"] {
            assert_eq!(named_counts(spec), None, "{spec}");
        }
    }
}
