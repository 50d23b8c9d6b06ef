//! One placeholder: `{order.lines.0:>5}`, `{user.name()}`, `{path!raw}`.

use proc_macro2::{Ident, Punct, Spacing, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Index, LitStr};

use super::format_spec::{counts_positions, named_counts};

pub(crate) struct Placeholder {
    /// `item`, with the steps from there: `.size()`.
    root: String,
    steps: Vec<Step>,
    /// `{path!raw}`: the value goes into the key as it is.
    pub(super) is_raw: bool,
    /// With its colon; empty if there is none.
    pub(super) spec: String,
    /// As written, with the braces.
    pub(crate) text: String,
}

enum Step {
    Field(String),
    Tuple(u32),
    Method(String),
}

impl Placeholder {
    /// Reads the placeholder that `rest` starts with.
    pub(super) fn parse(inside: &str, text: &str) -> Result<Self, String> {
        let colon = inside.find(':').unwrap_or(inside.len());
        let (path, spec) = inside.split_at(colon);
        let (path, mode) = match path.split_once('!') {
            Some((path, mode)) => (path, Some(mode.trim())),
            None => (path, None),
        };
        // `{config::SHARD}` is a path, not an argument with a strange fill.
        let is_path = spec
            .strip_prefix("::")
            .is_some_and(|name| name.starts_with(|c| c == '_' || unicode_ident::is_xid_start(c)));
        let parsed = parse_path(path).filter(|_| !is_path && !counts_positions(spec));
        let Some((root, steps)) = parsed else {
            return Err(format!(
                "`{text}` is not a placeholder; write an argument, its fields and its methods without arguments, \
                 or use `redlock.lock(key).hold(..)` instead of the attribute"
            ));
        };
        if let Some(mode) = mode.filter(|mode| *mode != "raw") {
            return Err(format!(
                "unknown `!{mode}` in `{text}`; there is only `!raw`"
            ));
        }
        Ok(Self {
            root,
            steps,
            is_raw: mode.is_some(),
            spec: spec.to_owned(),
            text: text.to_owned(),
        })
    }

    /// The argument that it begins with, without `r#`.
    pub(crate) fn root(&self) -> &str {
        self.root.strip_prefix("r#").unwrap_or(&self.root)
    }

    /// Whether `format!` knows it as it is written.
    pub(crate) fn is_plain(&self) -> bool {
        self.steps.is_empty() && !self.is_raw
    }

    /// Whether `format!` also takes its name for that of a named argument.
    pub(super) fn can_be_named(&self) -> bool {
        // `format!` does not take `{ id}`.
        let starts_at_once = !self.text[1..].starts_with(char::is_whitespace);
        let is_identifier = syn::parse_str::<Ident>(&self.root).is_ok();
        self.is_plain() && starts_at_once && is_identifier && self.root() == self.root
    }

    /// The names that are not `variables`, without what looks like a constant or a static.
    pub(crate) fn unknown_names(&self, variables: &[String]) -> Vec<&str> {
        let mut names = vec![self.root()];
        names.extend(self.named_counts().unwrap_or_default());
        let is_variable = |name: &str| variables.iter().any(|variable| variable == name);
        names.retain(|name| !is_variable(name) && name.contains(char::is_lowercase));
        names
    }

    /// What follows its name, if rustc does not accept that.
    pub(crate) fn wrong_spec(&self) -> Option<&str> {
        self.named_counts().is_none().then_some(&self.spec)
    }

    /// The arguments that its specification names; `None` if rustc will not accept it.
    pub(super) fn named_counts(&self) -> Option<Vec<&str>> {
        named_counts(&self.spec)
    }

    /// The name of a named argument, at `span`.
    pub(super) fn name(&self, span: Span) -> Ident {
        name(&self.root, span)
    }

    /// The value, formatted and encoded: an expression of type `Value`.
    pub(super) fn value(&self, literal: &LitStr) -> TokenStream {
        let mixed = Span::mixed_site();
        let written = &self.text[1..self.text.len() - 1 - self.spec.len()];
        let written = written.split('!').next().unwrap_or(written).trim();
        let format = LitStr::new(&format!("{{{}}}", self.spec), literal.span());
        let value = self.place(literal.span());
        let how = Ident::new(if self.is_raw { "raw" } else { "encoded" }, mixed);
        quote_spanned! {mixed=>
            __redis_lock::Values::#how(
                &__values,
                #written,
                __redis_lock::std::format_args!(#format, #value)
            )
        }
    }

    /// The place or value to format. The argument has the literal's span, because the literal is
    /// where it was written, and whose scope it belongs to. The rest only has its place: rustc would
    /// suggest to replace the whole literal by a field's name.
    fn place(&self, literal: Span) -> TokenStream {
        let mut tokens = self.name(literal).into_token_stream();
        let span = literal.resolved_at(Span::mixed_site());
        for step in &self.steps {
            let mut dot = Punct::new('.', Spacing::Alone);
            dot.set_span(span);
            dot.to_tokens(&mut tokens);
            match step {
                Step::Field(field) => name(field, span).to_tokens(&mut tokens),
                Step::Tuple(index) => Index {
                    index: *index,
                    span,
                }
                .to_tokens(&mut tokens),
                Step::Method(method) => {
                    let method = name(method, span);
                    tokens.extend(quote_spanned!(span=> #method()));
                }
            }
        }
        tokens
    }
}

fn parse_path(path: &str) -> Option<(String, Vec<Step>)> {
    let mut parts = path.trim().split('.');
    let root = parts.next().filter(|root| is_name(root))?;
    let steps = parts.map(step).collect::<Option<_>>()?;
    Some((root.to_owned(), steps))
}

fn step(part: &str) -> Option<Step> {
    if let Some(method) = part.strip_suffix("()") {
        return is_name(method).then(|| Step::Method(method.to_owned()));
    }
    if is_name(part) && !["self", "await"].contains(&part) {
        return Some(Step::Field(part.to_owned()));
    }
    let plain = part.chars().all(|c| c.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    plain.then(|| part.parse().ok().map(Step::Tuple)).flatten()
}

fn is_name(text: &str) -> bool {
    let text = text.strip_prefix("r#").unwrap_or(text);
    let mut chars = text.chars();
    let starts = chars
        .next()
        .is_some_and(|c| c == '_' || unicode_ident::is_xid_start(c));
    // The keywords that cannot be made an identifier by `r#`.
    let reserved = ["_", "crate", "super", "Self"].contains(&text);
    starts && !reserved && chars.all(unicode_ident::is_xid_continue)
}

/// An identifier, raw if it has to be: `{type.len()}` is the argument `r#type`.
fn name(text: &str, span: Span) -> Ident {
    let plain = text.strip_prefix("r#").unwrap_or(text);
    let is_keyword = syn::parse_str::<Ident>(plain).is_err();
    if is_keyword && plain != "self" {
        Ident::new_raw(plain, span)
    } else {
        Ident::new(plain, span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Placeholder, String> {
        Placeholder::parse(&text[1..text.len() - 1], text)
    }

    #[test]
    fn plain_names() {
        let is = |text: &str| {
            let placeholder = parse(text).unwrap();
            (placeholder.is_plain(), placeholder.can_be_named())
        };
        assert_eq!(is("{a}"), (true, true));
        assert_eq!(is("{a :?}"), (true, true));
        for unnamed in ["{self}", "{type}", "{r#a}", "{ a}"] {
            assert_eq!(is(unnamed), (true, false));
        }
        for not_plain in ["{a.b}", "{a!raw}", "{a.0}"] {
            assert_eq!(is(not_plain), (false, false));
        }
    }

    #[test]
    fn what_is_no_placeholder() {
        for text in [
            "{}",
            "{0}",
            "{:?}",
            "{a + 1}",
            "{a.f(1)}",
            "{a::B}",
            "{a.}",
            "{.a}",
            "{a..b}",
            "{a.01}",
            "{_}",
            "{a:1$}",
            "{a:.0$}",
            "{a:.*}",
            "{crate.a}",
            "{a.self}",
            "{a b}",
            "{a.²}",
            "{!raw}",
            "{&a}",
            "{o.id().await}",
        ] {
            let mistake = parse(text)
                .err()
                .unwrap_or_else(|| panic!("{text} is accepted"));
            let remedy = "; write an argument, its fields and its methods without arguments, or use \
                          `redlock.lock(key).hold(..)` instead of the attribute";
            assert!(mistake.ends_with(remedy), "{text}: {mistake}");
        }
    }

    #[test]
    fn raw_is_the_only_mode() {
        let mistake = |text| parse(text).err().unwrap();
        for (text, mode) in [
            ("{path!row:?}", "!row"),
            ("{a.b!}", "!"),
            ("{a!r}", "!r"),
            ("{a!(b)}", "!(b)"),
        ] {
            let message = format!("unknown `{mode}` in `{text}`; there is only `!raw`");
            assert_eq!(mistake(text), message);
        }
    }
}
