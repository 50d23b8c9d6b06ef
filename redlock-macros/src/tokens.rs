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

/// The same tokens in another place. What their names mean stays.
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

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn inferred(ty: TokenStream) -> String {
        with_inferred_impls(ty).unwrap().to_string()
    }

    #[test]
    fn every_impl_trait_is_inferred() {
        let result = inferred(quote!(
            Result<impl Iterator<Item = impl Into<u8>> + Send, E>
        ));
        assert_eq!(result, quote!(Result<_, E>).to_string());
        let tuple = inferred(quote!((impl Fn(u8) -> Vec<u8> + use<'a>, [u8; 2])));
        assert_eq!(tuple, quote!((_, [u8; 2])).to_string());
    }

    #[test]
    fn other_types_stay() {
        let ty = quote!(Pin<Box<dyn Future<Output = ()> + Send + 'a>>);
        assert_eq!(inferred(ty.clone()), ty.to_string());
    }
}
