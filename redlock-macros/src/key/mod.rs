//! The key's template: `"stock:{sku}:{item.size():>5}"`.
//!
//! Every value is formatted by itself and encoded by the runtime, so that no two lists of arguments
//! give the same key; `Values` in the runtime has the rule. The literal itself goes to `format!` as
//! it is wherever possible: rustc then finds a misspelt name inside it.

mod format_spec;
mod placeholder;

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{LitStr, Result};

use crate::given::Given;
use crate::mistakes::Mistakes;

pub(crate) use self::placeholder::Placeholder;

pub(crate) struct Template {
    literal: LitStr,
    pieces: Vec<Piece>,
    /// In a list.
    pub(crate) kind: Kind,
}

/// Beside whom one of several keys is held.
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// Of how many, and how many of them.
    Permits(Box<(Given<u32>, Given<u32>)>),
}

enum Piece {
    /// One character, its brace already unescaped.
    Char(char),
    Placeholder(Placeholder),
}

/// Two placeholders of which no reader of the key can tell where the one ends and the other begins.
pub(crate) struct Ambiguity {
    /// `{a}{b}`
    pub(crate) written: String,
    /// `{a}:{b}`
    pub(crate) corrected: String,
}

/// Between two placeholders: a value has none of them, so that its end can be told. Not `%`, which
/// the encoding itself writes.
fn is_separator(char: char) -> bool {
    char.is_ascii_punctuation() && char != '%'
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
        mistakes.finish().map(|()| Self {
            literal,
            pieces,
            kind: Kind::Exclusive,
        })
    }

    pub(crate) fn span(&self) -> Span {
        self.literal.span()
    }

    /// The text of the literal.
    pub(crate) fn written(&self) -> String {
        self.literal.value()
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(placeholder) => Some(placeholder),
            Piece::Char(_) => None,
        })
    }

    /// What is the same for all calls, with a NUL for each placeholder.
    pub(crate) fn text(&self) -> String {
        let char = |piece: &Piece| piece.as_char().unwrap_or('\0');
        self.pieces.iter().map(char).collect()
    }

    /// The pairs of placeholders without a separator between them. `names` are the arguments'.
    pub(crate) fn ambiguities(&self, names: &[String]) -> Vec<Ambiguity> {
        let mut ambiguities = Vec::new();
        for Between { left, right, text } in self.between(names) {
            let is_separated = text.literal.contains(is_separator);
            if is_separated || left.is_raw || right.is_raw {
                continue;
            }
            let (left, right) = (&left.text, &right.text);
            let between = &text.written;
            let corrected = match between.trim() {
                "" => format!("{left}:{right}"),
                between => format!("{left}:{between}:{right}"),
            };
            ambiguities.push(Ambiguity {
                written: format!("{left}{between}{right}"),
                corrected,
            });
        }
        ambiguities
    }

    /// An expression that is `Into<Key>`. `names` are the arguments'.
    pub(crate) fn expand(&self, names: &[String]) -> TokenStream {
        let mixed = Span::mixed_site();
        let literal = &self.literal;
        if self.placeholders().next().is_none() {
            let text = self.rewritten(|text, piece| text.extend(piece.as_char()));
            return quote_spanned!(mixed=> #text);
        }
        let values: Vec<&Placeholder> = self.values(names).collect();
        let is_rewritten = self.is_rewritten(names);
        if !is_rewritten && (values.is_empty() || !self.is_correct()) {
            // Constants alone; or what rustc will not accept, and explains best.
            return quote_spanned!(mixed=> __redis_lock::std::format!(#literal));
        }
        let separators = LitStr::new(&self.separators(names), mixed);
        let text = match is_rewritten {
            true => self.expand_positional(names, &values),
            false => self.expand_named(&values),
        };
        quote_spanned! {mixed=>
            {
                let __values = __redis_lock::Values::new(#separators);
                let __text = #text;
                __redis_lock::Values::key(__values, __text)
            }
        }
    }

    /// The placeholders that the arguments decide. What remains are plain names of constants and
    /// statics, or misspelt ones.
    fn values(&self, names: &[String]) -> impl Iterator<Item = &Placeholder> {
        self.placeholders()
            .filter(|placeholder| is_value(placeholder, names))
    }

    fn between(&self, names: &[String]) -> Vec<Between<'_>> {
        let mut all = Vec::new();
        let mut left: Option<&Placeholder> = None;
        let mut text = Text::default();
        for piece in &self.pieces {
            match piece {
                Piece::Placeholder(right) if is_value(right, names) => {
                    let text = std::mem::take(&mut text);
                    all.extend(
                        left.replace(right)
                            .map(|left| Between { left, right, text }),
                    );
                }
                Piece::Placeholder(constant) => text.written.push_str(&constant.text),
                Piece::Char(char) => {
                    text.literal.push(*char);
                    push_escaped(&mut text.written, *char);
                }
            }
        }
        all
    }

    /// Whether rustc does not see the literal as it is written, so that a misspelt name is not for it
    /// to report: it would propose the similar name in place of the whole literal.
    pub(crate) fn is_rewritten(&self, names: &[String]) -> bool {
        let is_plain = self.placeholders().all(Placeholder::is_plain);
        let has_values = self.values(names).next().is_some();
        !is_plain || (has_values && self.is_correct() && !self.can_be_named(names))
    }

    /// Whether rustc accepts the format specifications.
    fn is_correct(&self) -> bool {
        self.placeholders().all(|it| it.named_counts().is_some())
    }

    /// What must not stand in a value as it is: `:`, and the punctuation between values.
    fn separators(&self, names: &[String]) -> String {
        let mut separators = ":".to_owned();
        for Between { text, .. } in self.between(names) {
            for char in text.literal.chars() {
                if is_separator(char) && !separators.contains(char) {
                    separators.push(char);
                }
            }
        }
        separators
    }

    /// Whether the literal can stay as it is, with its values as named arguments. It cannot if a
    /// name stands for two values, or for a value and a width. A width that is no argument would be
    /// reported twice if it is misspelt.
    fn can_be_named(&self, names: &[String]) -> bool {
        let mut counts = self
            .placeholders()
            .flat_map(|placeholder| placeholder.named_counts().unwrap_or_default());
        let counts_are_free = counts.all(|count| {
            names.iter().any(|name| name == count)
                && self.placeholders().all(|it| it.root() != count)
        });
        let once = |value: &Placeholder| {
            let mut same = self.values(names).filter(|it| it.root() == value.root());
            same.all(|it| it.spec == value.spec)
        };
        counts_are_free
            && self.placeholders().all(Placeholder::is_plain)
            && self.values(names).all(|it| it.can_be_named() && once(it))
    }

    fn expand_named(&self, values: &[&Placeholder]) -> TokenStream {
        let literal = &self.literal;
        let mut seen = Vec::new();
        let arguments = values.iter().filter_map(|placeholder| {
            if seen.contains(&placeholder.root()) {
                return None;
            }
            seen.push(placeholder.root());
            let name = placeholder.name(Span::mixed_site());
            let value = placeholder.value(literal);
            Some(quote_spanned!(Span::mixed_site()=> #name = #value))
        });
        quote_spanned!(Span::mixed_site()=> __redis_lock::std::format!(#literal #(, #arguments)*))
    }

    fn expand_positional(&self, names: &[String], values: &[&Placeholder]) -> TokenStream {
        let literal = self.rewritten(|text, piece| match piece {
            Piece::Char(char) => push_escaped(text, *char),
            Piece::Placeholder(value) if is_value(value, names) => text.push_str("{}"),
            Piece::Placeholder(constant) => text.push_str(&constant.text),
        });
        let arguments = values.iter().map(|value| value.value(&self.literal));
        quote_spanned!(Span::mixed_site()=> __redis_lock::std::format!(#literal #(, #arguments)*))
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
}

/// Two neighbours among the values, and what the literal has between them.
struct Between<'a> {
    left: &'a Placeholder,
    right: &'a Placeholder,
    text: Text,
}

#[derive(Default)]
struct Text {
    /// Without the placeholders of constants, whose values are not known here.
    literal: String,
    written: String,
}

fn is_value(placeholder: &Placeholder, names: &[String]) -> bool {
    !placeholder.is_plain() || names.iter().any(|name| name == placeholder.root())
}

fn push_escaped(text: &mut String, char: char) {
    text.push(char);
    if ['{', '}'].contains(&char) {
        text.push(char);
    }
}

/// Reads the placeholder that `rest` starts with, and how much of `rest` it takes: all of it if a
/// brace is missing, for what follows would be misread.
fn placeholder(rest: &str) -> (std::result::Result<Piece, String>, usize) {
    let end = rest[1..].find(['{', '}']).map(|at| at + 1);
    let Some(end) = end.filter(|end| rest[*end..].starts_with('}')) else {
        return (Err(lone_brace("unclosed", '{')), rest.len());
    };
    let parsed = Placeholder::parse(&rest[1..end], &rest[..=end]);
    (parsed.map(Piece::Placeholder), end + 1)
}

fn lone_brace(what: &str, brace: char) -> String {
    format!(
        "{what} `{brace}` in the key; write `{brace}{brace}` for a brace that is part of the key"
    )
}

#[cfg(test)]
mod tests;
