//! What the phases need to know about raw tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{Result, Token, TypeImplTrait};

/// The tokens without the invisible group around them that a `macro_rules!` fragment leaves.
pub(crate) fn ungrouped(tokens: TokenStream) -> TokenStream {
    let mut trees = tokens.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => {
            ungrouped(group.stream())
        }
        _ => tokens,
    }
}

/// Calls `visit` with every identifier, at any depth.
pub(crate) fn for_each_ident(tokens: TokenStream, visit: &mut impl FnMut(&Ident)) {
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => visit(&ident),
            TokenTree::Group(group) => for_each_ident(group.stream(), visit),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Calls `visit` with the names that may be those of variables, and the place of each. Not with fields
/// and methods, as in `order.id` and `Order { id: 5 }`, but with what a format string names.
pub(crate) fn for_each_name(tokens: TokenStream, visit: &mut impl FnMut(&str, Span)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_mark = |at: usize, mark: char| {
        let tree = tokens.get(at);
        matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
    };
    let is_one = |at: Option<usize>, beyond: Option<usize>, mark| {
        at.is_some_and(|at| is_mark(at, mark)) && !beyond.is_some_and(|at| is_mark(at, mark))
    };
    for (at, tree) in tokens.iter().enumerate() {
        match tree {
            TokenTree::Ident(ident) => {
                let is_member = is_one(at.checked_sub(1), at.checked_sub(2), '.');
                let is_label = is_one(Some(at + 1), Some(at + 2), ':');
                if !is_member && !is_label {
                    visit(&ident.to_string(), ident.span());
                }
            }
            TokenTree::Group(group) => for_each_name(group.stream(), visit),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                for inside in text.split('{').skip(1) {
                    let inside = inside.split('}').next().unwrap_or(inside);
                    let names = inside.split(|c| !unicode_ident::is_xid_continue(c));
                    names.for_each(|name| visit(name, literal.span()));
                }
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// These tokens in another place. What their names mean stays.
pub(crate) fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut tree| {
        let span = tree.span().located_at(place);
        if let TokenTree::Group(group) = &tree {
            let inside = located_at(group.stream(), place);
            tree = TokenTree::Group(Group::new(group.delimiter(), inside));
        }
        tree.set_span(span);
        tree
    });
    moved.collect()
}

/// The tokens as a user may have written them, for messages and for those who look at the text.
pub(crate) fn joined(tokens: &[TokenTree]) -> String {
    let mut text = String::new();
    let mut is_tight = true;
    let mut in_bars = false;
    for token in tokens {
        let mark = match token {
            TokenTree::Punct(mark) => Some(mark.as_char()),
            _ => None,
        };
        let opens =
            matches!(token, TokenTree::Group(group) if group.delimiter() != Delimiter::Brace);
        // Of a closure: `|a, b| c`.
        let closes_bars = mark == Some('|') && in_bars;
        in_bars ^= mark == Some('|');
        let sticks = opens || closes_bars || mark.is_some_and(|mark| ".:!?,&;".contains(mark));
        if !is_tight && !sticks {
            text.push(' ');
        }
        match token {
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{ ", " }"),
                    Delimiter::None => ("", ""),
                };
                text.extend([open, &joined(&inside), close]);
            }
            token => text.push_str(&token.to_string()),
        }
        is_tight = in_bars && mark == Some('|') || mark.is_some_and(|mark| ".:&".contains(mark));
    }
    text
}

/// The type with `_` for each `impl Trait`, which cannot be named inside the function.
pub(crate) fn with_inferred_impls(ty: TokenStream) -> Result<TokenStream> {
    infer_impls.parse2(ty)
}

fn infer_impls(input: ParseStream) -> Result<TokenStream> {
    let mut inferred = TokenStream::new();
    while !input.is_empty() {
        if input.peek(Token![impl]) {
            let named: TypeImplTrait = input.parse()?;
            Token![_](named.impl_token.span).to_tokens(&mut inferred);
            continue;
        }
        let tree = match input.parse()? {
            TokenTree::Group(group) => {
                let stream = with_inferred_impls(group.stream())?;
                let mut inside = Group::new(group.delimiter(), stream);
                inside.set_span(group.span());
                TokenTree::Group(inside)
            }
            tree => tree,
        };
        tree.to_tokens(&mut inferred);
    }
    Ok(inferred)
}
