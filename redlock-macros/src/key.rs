//! The key's template: `"stock:{sku}:{item.size():>5}"`.
//!
//! Placeholders that are plain names are none of our business: the literal goes to `format!` as it
//! is, so that rustc and rust-analyzer see the names inside it. Only dotted placeholders need a new
//! literal, because `format!` does not know them.

use proc_macro2::{Ident, Punct, Spacing, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Index, LitStr, Result};

use crate::mistakes::Mistakes;

pub(crate) struct Template {
    literal: LitStr,
    pieces: Vec<Piece>,
}

enum Piece {
    /// One character, its brace already unescaped.
    Char(char),
    Placeholder(Placeholder),
}

pub(crate) struct Placeholder {
    /// `item`, with the steps from there: `.size()`.
    pub(crate) root: String,
    steps: Vec<Step>,
    /// With its colon; empty if there is none.
    spec: String,
    /// As written, with the braces.
    pub(crate) text: String,
}

enum Step {
    Field(String),
    Tuple(u32),
    Method(String),
}

impl Template {
    pub(crate) fn parse(literal: LitStr) -> Result<Self> {
        let value = literal.value();
        let mut mistakes = Mistakes::default();
        let mut pieces = Vec::new();
        let mut rest = value.as_str();
        if rest.is_empty() {
            mistakes.add_at(literal.span(), "the key is empty");
        }
        while let Some(next) = rest.chars().next() {
            let (piece, taken) = match next {
                '{' | '}' if rest[1..].starts_with(next) => (Ok(Piece::Char(next)), 2),
                '{' => placeholder(rest),
                '}' => (Err(lone_brace("unopened", '}')), rest.len()),
                _ => (Ok(Piece::Char(next)), next.len_utf8()),
            };
            match piece {
                Ok(piece) => pieces.push(piece),
                Err(message) => mistakes.add_at(literal.span(), message),
            }
            rest = &rest[taken..];
        }
        mistakes.finish().map(|()| Self { literal, pieces })
    }

    pub(crate) fn span(&self) -> Span {
        self.literal.span()
    }

    /// The placeholders that are more than a name: the ones that rustc will not see as written.
    pub(crate) fn dotted(&self) -> impl Iterator<Item = &Placeholder> {
        self.placeholders()
            .filter(|placeholder| !placeholder.steps.is_empty())
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(placeholder) => Some(placeholder),
            Piece::Char(_) => None,
        })
    }

    /// An expression of type `String`.
    pub(crate) fn expand(&self) -> TokenStream {
        let mixed = Span::mixed_site();
        let literal = &self.literal;
        if self.placeholders().next().is_none() {
            let text = self.rewritten(|text, piece| text.extend(piece.as_char()));
            return quote_spanned!(mixed=> __redis_lock::std::convert::From::from(#text));
        }
        if self.dotted().next().is_none() {
            return quote_spanned!(mixed=> __redis_lock::std::format!(#literal));
        }
        let format = self.rewritten(Piece::write_format);
        let arguments = self
            .dotted()
            .map(|placeholder| placeholder.expression(literal.span()));
        quote_spanned!(mixed=> __redis_lock::std::format!(#format #(, #arguments)*))
    }

    fn rewritten(&self, write: impl Fn(&mut String, &Piece)) -> LitStr {
        let mut text = String::new();
        for piece in &self.pieces {
            write(&mut text, piece);
        }
        LitStr::new(&text, self.literal.span())
    }
}

impl Piece {
    fn as_char(&self) -> Option<char> {
        match self {
            Self::Char(char) => Some(*char),
            Self::Placeholder(_) => None,
        }
    }

    /// Dotted placeholders become positional; everything else stays as it was written.
    fn write_format(text: &mut String, piece: &Self) {
        match piece {
            Self::Char('{') => text.push_str("{{"),
            Self::Char('}') => text.push_str("}}"),
            Self::Char(char) => text.push(*char),
            Self::Placeholder(Placeholder { steps, spec, .. }) if !steps.is_empty() => {
                text.push('{');
                text.push_str(spec);
                text.push('}');
            }
            Self::Placeholder(placeholder) => text.push_str(&placeholder.text),
        }
    }
}

impl Placeholder {
    /// The place or value to format. The argument has the literal's span, because the literal is
    /// where it was written, and whose scope it belongs to. The rest only has its place: rustc would
    /// suggest to replace the whole literal by a field's name.
    fn expression(&self, literal: Span) -> TokenStream {
        let mut tokens = name(&self.root, literal).into_token_stream();
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

/// Reads the placeholder that `rest` starts with, and how much of `rest` it takes: all of it if a
/// brace is missing, for what follows would be misread.
fn placeholder(rest: &str) -> (std::result::Result<Piece, String>, usize) {
    let Some(inside) = rest[1..].find(['{', '}']) else {
        return (Err(lone_brace("unclosed", '{')), rest.len());
    };
    let (inside, end) = (&rest[1..=inside], inside + 1);
    if rest[end..].starts_with('{') {
        return (Err(lone_brace("unclosed", '{')), rest.len());
    }
    let text = &rest[..=end];
    let parsed = parse_placeholder(inside, text).ok_or_else(|| {
        format!(
            "`{text}` is not a placeholder; \
             write an argument, its fields and its methods without arguments"
        )
    });
    (parsed.map(Piece::Placeholder), end + 1)
}

fn parse_placeholder(inside: &str, text: &str) -> Option<Placeholder> {
    let colon = inside.find(':').unwrap_or(inside.len());
    let (path, spec) = inside.split_at(colon);
    let mut parts = path.trim().split('.');
    let root = parts.next().filter(|root| is_name(root))?;
    let steps = parts.map(step).collect::<Option<Vec<_>>>()?;
    // `{config::SHARD}` is a path, not an argument with a strange fill.
    let is_path = spec.strip_prefix("::").is_some_and(is_name);
    (!is_path && !counts_arguments(spec)).then(|| Placeholder {
        root: root.to_owned(),
        steps,
        spec: spec.to_owned(),
        text: text.to_owned(),
    })
}

/// `:1$` and `:.*` take their number from an argument by its position; the key has no positions.
fn counts_arguments(spec: &str) -> bool {
    let by_position = |before: &str| {
        let last = before.rsplit(|c| !unicode_ident::is_xid_continue(c)).next();
        last.is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()))
    };
    spec.contains(".*")
        || spec
            .match_indices('$')
            .any(|(end, _)| by_position(&spec[..end]))
}

fn step(part: &str) -> Option<Step> {
    if let Some(method) = part.strip_suffix("()") {
        return is_name(method).then(|| Step::Method(method.to_owned()));
    }
    if is_name(part) && part != "self" {
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

fn lone_brace(what: &str, brace: char) -> String {
    format!(
        "{what} `{brace}` in the key; write `{brace}{brace}` for a brace that is part of the key"
    )
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn template(key: &str) -> Template {
        Template::parse(LitStr::new(key, Span::call_site())).unwrap()
    }

    fn mistakes(key: &str) -> Vec<String> {
        match Template::parse(LitStr::new(key, Span::call_site())) {
            Ok(_) => panic!("{key} is accepted"),
            Err(all) => all.into_iter().map(|mistake| mistake.to_string()).collect(),
        }
    }

    #[track_caller]
    fn assert_expands(key: &str, expected: TokenStream) {
        // `quote!` takes `0.1` for a number.
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(text(template(key).expand()), text(expected));
    }

    #[test]
    fn text_is_not_formatted() {
        assert_expands(
            "order",
            quote!(__redis_lock::std::convert::From::from("order")),
        );
        assert_expands(
            "a{{b}}",
            quote!(__redis_lock::std::convert::From::from("a{b}")),
        );
    }

    #[test]
    fn plain_names_stay_in_the_literal() {
        for key in [
            "order:{id}",
            "{a}{b:?}{{c}}",
            "{id:>width$}",
            "{self}",
            "{type}",
        ] {
            assert_expands(key, quote!(__redis_lock::std::format!(#key)));
        }
    }

    #[test]
    fn dotted_names_become_arguments() {
        assert_expands(
            "order:{req.user}:{id}",
            quote!(__redis_lock::std::format!("order:{}:{id}", req.user)),
        );
        assert_expands(
            "{{{self.0.1:>5}}}{a.b().c:?}",
            quote!(__redis_lock::std::format!(
                "{{{:>5}}}{:?}",
                self.0.1,
                a.b().c
            )),
        );
        assert_expands(
            "{type.match:>w$}",
            quote!(__redis_lock::std::format!("{:>w$}", r#type.r#match)),
        );
        assert_expands("{ a.b }", quote!(__redis_lock::std::format!("{}", a.b)));
    }

    #[test]
    fn the_empty_key() {
        assert_eq!(mistakes(""), ["the key is empty"]);
    }

    #[test]
    fn lone_braces() {
        let unclosed = "unclosed `{` in the key; write `{{` for a brace that is part of the key";
        let unopened = "unopened `}` in the key; write `}}` for a brace that is part of the key";
        assert_eq!(mistakes("order:{id"), [unclosed]);
        assert_eq!(mistakes("{"), [unclosed]);
        assert_eq!(mistakes("{{{"), [unclosed]);
        assert_eq!(mistakes("{a:{b}}"), [unclosed]);
        assert_eq!(mistakes("order:id}"), [unopened]);
        assert_eq!(mistakes("{a}}"), [unopened]);
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
            "{&a}",
            "{_}",
            "{a:1$}",
            "{a:.0$}",
            "{a:.*}",
            "{crate.a}",
            "{a.self}",
            "{a b}",
            "{a.²}",
        ] {
            let message = format!(
                "`{text}` is not a placeholder; \
                 write an argument, its fields and its methods without arguments"
            );
            assert_eq!(mistakes(text), [message]);
        }
    }

    #[test]
    fn every_placeholder_is_checked() {
        assert_eq!(mistakes("{} {a} {0} {").len(), 3);
    }
}
