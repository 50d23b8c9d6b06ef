//! `"order:{}", id` of those who write a key like the arguments of `format!`.

use syn::LitStr;

use super::Template;

/// How many values the places `{}` and `{0}` of a literal need.
pub(crate) fn positions(text: &str) -> usize {
    let mut count = 0;
    fill(text, |index| {
        count = count.max(index + 1);
        None
    });
    count
}

/// The literal with `values` in those places, quoted, if it is a key then. Each value has its place,
/// and each place its value.
pub(crate) fn inlined(text: &str, values: &[String]) -> Option<String> {
    if values.is_empty() || positions(text) != values.len() {
        return None;
    }
    let key = fill(text, |index| values.get(index).cloned());
    let literal = LitStr::new(&key, proc_macro2::Span::call_site());
    let quoted = literal.token().to_string();
    Template::parse(literal).ok().map(|_| quoted)
}

fn fill(text: &str, mut value: impl FnMut(usize) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut next = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        filled.push('{');
        rest = after;
        if let Some(after) = after.strip_prefix('{') {
            filled.push('{');
            rest = after;
            continue;
        }
        let end = after.find(['}', ':']).unwrap_or(after.len());
        let index = match after[..end].trim() {
            _ if end == after.len() => continue,
            "" => {
                next += 1;
                next - 1
            }
            written => match written.parse::<u8>() {
                Ok(index) => usize::from(index),
                Err(_) => continue,
            },
        };
        if let Some(value) = value(index) {
            filled.push_str(&value);
            rest = &after[end..];
        }
    }
    filled + rest
}
