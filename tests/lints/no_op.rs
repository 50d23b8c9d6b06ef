//! An attribute of the same name that does nothing, so that what is said of the functions is about
//! the functions.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Leaves the function as it is, but for the name that `lease` gives to the lease.
#[proc_macro_attribute]
pub fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    let Some(name) = lease_name(args) else {
        return item;
    };
    let mut item: Vec<TokenTree> = item.into_iter().collect();
    let Some(TokenTree::Group(body)) = item.pop() else {
        panic!("no body");
    };
    let binding = [
        TokenTree::Ident(Ident::new("let", Span::mixed_site())),
        TokenTree::Ident(name),
    ];
    let lease: TokenStream = " = crate::lease();".parse().unwrap();
    let content = binding
        .into_iter()
        .chain(lease.into_iter().map(|mut token| {
            token.set_span(Span::mixed_site());
            token
        }))
        .chain(body.stream());
    let mut binding_and_body = Group::new(Delimiter::Brace, content.collect());
    binding_and_body.set_span(body.span());
    item.push(TokenTree::Group(binding_and_body));
    item.into_iter().collect()
}

fn lease_name(args: TokenStream) -> Option<Ident> {
    let args: Vec<TokenTree> = args.into_iter().collect();
    args.windows(3).find_map(|window| match window {
        [TokenTree::Ident(argument), _, TokenTree::Ident(name)]
            if argument.to_string() == "lease" =>
        {
            Some(name.clone())
        }
        _ => None,
    })
}
