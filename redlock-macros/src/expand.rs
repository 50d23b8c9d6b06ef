//! The function with its lock.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, Pat, Result, ReturnType, parse_quote_spanned};

use crate::args::Args;
use crate::check;
use crate::function::{Function, regrouped};
use crate::key::Template;
use crate::mistakes::Mistakes;
use crate::options::{Declaration, declaration};
use crate::tokens::located_at;

/// Reports mistakes beside the item as it was, so that its callers and completion keep working.
pub(crate) fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    attempt(args, item.clone()).unwrap_or_else(|mistakes| {
        let mistakes = mistakes.into_compile_error();
        quote!(#mistakes #[allow(unused)] #item)
    })
}

fn attempt(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut mistakes = Mistakes::default();
    let mut args = Args::parse(args, &mut mistakes);
    let function = Function::parse(item);
    if function.as_ref().is_ok_and(|function| function.is_blocking) {
        args.renew_by_default();
    }
    check::arguments(&args, &mut mistakes);
    let function = mistakes.keep(function);
    if let Some(function) = &function {
        check::names(&args, function, &mut mistakes);
    }
    mistakes.finish()?;
    match (&args.key, &function) {
        (Some(key), Some(function)) => Ok(expand(&args, key, function)),
        _ => unreachable!("what is missing has been reported"),
    }
}

/// Everything written here has the hygiene of this crate, so that no name of the user's is hidden
/// and no lint looks at it. The user's spans stay on the user's tokens. Functions are called by
/// their path, for a trait in the user's scope may have a method of the same name.
fn expand(args: &Args, key: &Template, function: &Function) -> TokenStream {
    let Function {
        head,
        inner_attributes,
        body,
        boxed,
        ..
    } = function;
    let section = section(args, key, function);
    let statements = match boxed {
        None => section,
        Some(boxed) => {
            let before = &boxed.before;
            let attributes = &boxed.attributes;
            let future = quote_spanned!(mixed()=> #attributes async move { #section });
            let pin = regrouped(&boxed.pin, future);
            quote!(#before #pin)
        }
    };
    // In the user's braces: rustc takes the place of the function from them.
    let block = regrouped(body, quote!(#inner_attributes #statements));
    quote!(#head #block)
}

pub(crate) fn mixed() -> Span {
    Span::mixed_site()
}

/// The user's place with this crate's hygiene: for the tokens that an error should point at.
pub(crate) fn at(place: Span) -> Span {
    place.resolved_at(mixed())
}

/// Before: `{ body }`, after: the statements that acquire, run the body and release.
///
/// The section comes first, so it is dropped last: whatever the body owns is destroyed while the
/// lock is still held. The body's future comes before the first `.await`, so that the arguments
/// move straight into it and are stored once. `Returns` is outside the body's block, where an item
/// of the body cannot change what the return type means.
fn section(args: &Args, key: &Template, function: &Function) -> TokenStream {
    let runtime = match &args.krate {
        Some(krate) => krate.to_token_stream(),
        None => quote_spanned!(mixed()=> ::redlock_runtime),
    };
    let output = &function.output;
    let declaration = declaration(args, key, function);
    let items = &declaration.items;
    let new = new_section(args, key, function, &declaration);
    let lease = args.lease.as_ref().map(
        |lease| quote_spanned!(mixed()=> let #lease = __redis_lock::Section::lease(&__section);),
    );
    let body = body(function);
    let outcome = outcome(function, &body);
    let result = result(args, function);
    // Here rustc reports a lifetime that the body's value does not have.
    let end = quote_spanned!(at(first_span(output))=> return #result;);
    // In a module that is not the runtime there is no `__private`. rustc points at the whole path.
    let place = args.krate.as_ref().and_then(|krate| krate.segments.last());
    let place = place.map_or_else(mixed, |it| at(it.ident.span()));
    let private = quote_spanned!(place=> __private as __redis_lock);
    // One `use`, because every further path to the runtime would be a further error where there is
    // no such crate. `return`, because `clippy::implicit_return` takes the braces for the user's.
    quote_spanned! {mixed()=>
        use #runtime::#private;
        #items
        let __returns = __redis_lock::Returns::<#output>::new();
        let mut __section = #new;
        #lease
        let __outcome = #outcome;
        #end
    }
}

/// What became of the section: acquired, and its body run.
fn outcome(function: &Function, body: &TokenStream) -> TokenStream {
    if function.is_blocking {
        return quote_spanned! {mixed()=>
            __redis_lock::Section::run_blocking(&mut __section, #body)
        };
    }
    quote_spanned! {mixed()=>
        {
            let mut __body = __redis_lock::std::pin::pin!(#body);
            let __acquired = __redis_lock::Section::acquire(&mut __section).await;
            match __acquired {
                __redis_lock::std::result::Result::Ok(()) => {
                    let __body = __redis_lock::std::pin::Pin::as_mut(&mut __body);
                    __redis_lock::Section::hold(&mut __section, __body).await
                }
                __redis_lock::std::result::Result::Err(__error) => {
                    __redis_lock::std::result::Result::Err(__error)
                }
            }
        }
    }
}

fn new_section(
    args: &Args,
    key: &Template,
    function: &Function,
    Declaration { info, options, .. }: &Declaration,
) -> TokenStream {
    let key = key.expand(&function.variable_names());
    let Some(via) = &args.via else {
        return quote_spanned!(mixed()=> __redis_lock::Section::installed(#key, #options, #info));
    };
    // Bound first: the type would otherwise decide what the branches of an `if` have to be, while
    // `Redlock`, `&Redlock` and `Arc<Redlock>` will all do. Then with the type, so that no function
    // of the runtime is in the message about another one.
    let redlock = Ident::new("__redlock", at(via.span()));
    quote_spanned! {mixed()=>
        {
            let #redlock = &#via;
            let __redlock: &__redis_lock::Redlock = #redlock;
            __redis_lock::Section::of(__redlock, #key, #options, #info)
        }
    }
}

/// Before: `{ body }`, after: `async move { prelude return if true { body } else { .. }; }`, or the
/// same as a closure if the function blocks.
///
/// The prelude tells rustc the type of the block before it sees the body, so that a mismatch is the
/// body's and coercions work. It also mentions the arguments that the body mentions: an async block
/// would otherwise take only the fields in use, and the others would outlive the lock. It destroys
/// what it has taken in the order of the mentions, so the last comes first. The body has
/// a block of its own because its items may not come after statements (`items_after_statements`),
/// and as the branch of an `if` it may be on one line (`unused_braces`). `return` is there for
/// `clippy::implicit_return`, as at the end of the function, and `else` so that a body that never
/// comes to its end leaves something to return (`unreachable_code`).
///
/// The outer block has the user's place and hygiene: where rustc takes it for that of a macro, it
/// does not call the arguments by their names. Its keywords are at the brace alone, because an
/// editor finds at the cursor whatever has a place around it.
fn body(function: &Function) -> TokenStream {
    let output = Ident::new("__output", at(first_span(&function.output)));
    let whole = function
        .captured_bindings()
        .into_iter()
        .rev()
        .map(|binding| {
            let (name, cfgs) = (binding.name, binding.cfgs);
            // The lint knows the name for the user's.
            let allow = name
                .to_string()
                .starts_with('_')
                .then(|| quote_spanned!(mixed()=> #[allow(clippy::used_underscore_binding)]));
            quote_spanned!(mixed()=> #(#cfgs)* #allow let _ = &#name;)
        });
    let body = &function.body;
    let block = quote_spanned! {mixed()=>
        if false {
            let #output = __redis_lock::Returns::fake_return(&__returns);
            return #output;
        }
        #(#whole)*
        return if true #body else { __redis_lock::Returns::fake_return(&__returns) };
    };
    let block = regrouped(body, block);
    match function.is_blocking {
        false => quote_spanned!(body.span_open()=> async move #block),
        true => quote_spanned!(body.span_open()=> move || #block),
    }
}

/// What the function returns.
fn result(args: &Args, function: &Function) -> TokenStream {
    let fail = fail(args, function);
    let value = Ident::new("__value", at(first_span(&function.output)));
    let result = quote_spanned! {mixed()=>
        match __outcome {
            __redis_lock::std::result::Result::Ok(#value) => #value,
            __redis_lock::std::result::Result::Err(__error) => #fail,
        }
    };
    match &args.when_held {
        // In a branch: behind a `return` of its own, `panic!()` would be the lint `unreachable_code`.
        Some(held) => quote_spanned! {mixed()=>
            if __redis_lock::is_held(&__outcome) { #held } else { #result }
        },
        None => result,
    }
}

/// What the function returns when there is no lock, or no lock any more. No function of the runtime
/// has a part in it, so that none is in a message.
fn fail(args: &Args, function: &Function) -> TokenStream {
    let output = &function.output;
    let Some(handler) = &args.on_error else {
        let place = at(first_span(output));
        let from = Ident::new("from_lock_error", place);
        // In pieces with the type's place: rustc points at all of them.
        return quote_spanned! {place=>
            <#output as __redis_lock::FromLockError>::#from(__error)
        };
    };
    let place = at(handler.span());
    let handler = match syn::parse2(handler.to_token_stream()) {
        Ok(closure) => typed(closure, output),
        Err(_) => handler.to_token_stream(),
    };
    let error = Ident::new("__error", place);
    quote_spanned! {place=>
        {
            let __handler = #handler;
            __handler(#error)
        }
    }
}

/// The closure with the types that it leaves out: only so does rustc know what its argument is, and
/// what its value has to become.
fn typed(mut closure: ExprClosure, output: &TokenStream) -> TokenStream {
    for input in &mut closure.inputs {
        if !matches!(input, Pat::Type(_)) {
            let pattern = input.to_token_stream();
            *input = Pat::Verbatim(quote_spanned!(mixed()=> #pattern: __redis_lock::LockError));
        }
    }
    if matches!(closure.output, ReturnType::Default) {
        let body = &closure.body;
        // In the closure's place, which rustc would otherwise take to reach as far as the type.
        let output = located_at(output.clone(), closure.body.span());
        closure.output = parse_quote_spanned!(mixed()=> -> #output);
        *closure.body = Expr::Verbatim(quote_spanned!(mixed()=> { #body }));
    }
    closure.into_token_stream()
}

fn first_span(tokens: &TokenStream) -> Span {
    tokens
        .clone()
        .into_iter()
        .next()
        .map_or_else(mixed, |token| token.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_leave_the_item() {
        let item = quote!(async fn pay(id: u64) -> u64 { half. });
        let expansion =
            redis_lock(quote!(key = "order:{id", expires = 5s), item.clone()).to_string();
        assert_eq!(expansion.matches("compile_error").count(), 2);
        assert!(expansion.ends_with(&quote!(#[allow(unused)] #item).to_string()));
    }
}
