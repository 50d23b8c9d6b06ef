//! The function with its lock.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, Pat, Result, ReturnType, parse_quote_spanned};

use crate::args::Args;
use crate::check;
use crate::function::{Binding, Function, collect_names, regrouped};
use crate::key::{Kind, Template};
use crate::mistakes::Mistakes;
use crate::options::{Declaration, declaration, permits_of_member};
use crate::tokens::{for_each_name, located_at};

/// Reports mistakes beside the item as it was, so that its callers and completion keep working.
pub(crate) fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = Function::parse(item.clone());
    let used = function
        .as_ref()
        .ok()
        .filter(|it| it.boxed.is_none())
        .map(used);
    attempt(args, function).unwrap_or_else(|mistakes| {
        let mistakes = mistakes.into_compile_error();
        let item = used.unwrap_or(item);
        quote!(#mistakes #item)
    })
}

/// The function without a lock. The key may use an argument that its body does not.
fn used(function: &Function) -> TokenStream {
    let Function {
        head,
        inner_attributes,
        body,
        ..
    } = function;
    let names = function
        .bindings()
        .into_iter()
        .map(|Binding { name, cfgs }| quote_spanned!(mixed()=> #(#cfgs)* let _ = &#name;));
    // In the user's own braces: of others rustc would report a half-typed body once more. And as a
    // branch, because a block on one line would be the lint `unused_braces`.
    let statements = quote_spanned!(mixed()=> return if true #body else { loop {} };);
    let block = regrouped(body, quote!(#inner_attributes #(#names)* #statements));
    quote!(#head #block)
}

fn attempt(args: TokenStream, function: Result<Function>) -> Result<TokenStream> {
    let mut mistakes = Mistakes::default();
    let names = function.as_ref().map(Function::argument_names);
    let mut args = Args::parse(args, names.unwrap_or_default(), &mut mistakes);
    if args.leader || function.as_ref().is_ok_and(|function| function.is_blocking) {
        args.renew_by_default();
    }
    check::arguments(&args, &mut mistakes);
    let function = mistakes.keep(function);
    if let Some(function) = &function {
        check::names(&args, function, &mut mistakes);
    }
    mistakes.finish()?;
    match (&args.keys, &function) {
        (Some(keys), Some(function)) => Ok(expand(&args, keys, function)),
        _ => unreachable!("what is missing has been reported"),
    }
}

/// Everything written here has the hygiene of this crate, so that no name of the user's is hidden
/// and no lint looks at it. The user's spans stay on the user's tokens. Functions are called by
/// their path, for a trait in the user's scope may have a method of the same name.
fn expand(args: &Args, keys: &[Template], function: &Function) -> TokenStream {
    let Function {
        head,
        inner_attributes,
        body,
        boxed,
        ..
    } = function;
    let section = section(args, keys, function);
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
fn section(args: &Args, keys: &[Template], function: &Function) -> TokenStream {
    let runtime = match &args.krate {
        Some(krate) => krate.to_token_stream(),
        None => quote_spanned!(mixed()=> ::redlock_runtime),
    };
    let output = &function.output;
    let declaration = declaration(args, keys, function);
    let items = &declaration.items;
    let new = new_section(args, keys, function, &declaration);
    let new = match &args.value {
        Some(value) => {
            let place = at(value.span());
            quote_spanned!(place=> __redis_lock::Section::with_value(#new, &#value))
        }
        None => new,
    };
    let lease = args.lease.as_ref().map(
        |lease| quote_spanned!(mixed()=> let #lease = __redis_lock::Section::lease(&__section);),
    );
    // A leader's body is made for each leadership, so it borrows the arguments.
    let captured = match args.leader {
        true => Vec::new(),
        false => function.captured_bindings(),
    };
    let stay = stay(args, &captured);
    let body = body(args, function, &captured);
    let section = quote_spanned!(mixed()=> let mut __section = #new; #lease);
    let outcome = outcome(function, &body);
    let (section, outcome) = match args.leader {
        true => (TokenStream::new(), term_after_term(&section, &outcome)),
        false => (section, outcome),
    };
    let result = result(args, function);
    // Without `on_error` a future is no error to return.
    let may_be_future = function.is_blocking && args.on_error.is_some();
    let no_future = may_be_future.then(|| {
        let check = Ident::new("refuse_future", at(first_span(output)));
        quote_spanned!(mixed()=> __returns.#check();)
    });
    let import = may_be_future.then(|| quote_spanned!(mixed()=> use __redis_lock::AnyValue as _;));
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
        #import
        #items
        let __returns = __redis_lock::Returns::<#output>::new();
        #section
        #stay
        let __outcome = #outcome;
        #no_future
        #end
    }
}

/// The outcome of the first leadership that is not lost: each has a section and a body of its own.
fn term_after_term(section: &TokenStream, outcome: &TokenStream) -> TokenStream {
    quote_spanned! {mixed()=>
        loop {
            #section
            let __outcome = #outcome;
            if !__redis_lock::is_over(&__outcome) {
                break __outcome;
            }
        }
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
    keys: &[Template],
    function: &Function,
    Declaration { info, options, .. }: &Declaration,
) -> TokenStream {
    let names = function.variable_names();
    let (new, key) = match keys {
        [key] if !args.has_several_keys() => ("new", key.expand(&names)),
        keys => {
            let members = keys.iter().map(|key| member(key, &names));
            ("all", quote_spanned!(mixed()=> [#(#members),*]))
        }
    };
    let new = Ident::new(new, mixed());
    let redlock = match &args.via {
        None => quote_spanned!(mixed()=> __redis_lock::Redlock::installed()),
        Some(via) => {
            let redlock = Ident::new("__redlock", at(via.span()));
            quote_spanned! {mixed()=>
                {
                    let #redlock = &#via;
                    let __redlock: &__redis_lock::Redlock = #redlock;
                    __redis_lock::std::option::Option::Some(__redis_lock::std::clone::Clone::clone(__redlock))
                }
            }
        }
    };
    quote_spanned!(mixed()=> __redis_lock::Section::#new(#redlock, #key, #options, #info))
}

/// One of several keys.
fn member(key: &Template, names: &[String]) -> TokenStream {
    let text = key.expand(names);
    match &key.kind {
        Kind::Exclusive => quote_spanned!(mixed()=> __redis_lock::ListedKey::exclusive(#text)),
        Kind::Shared => quote_spanned!(mixed()=> __redis_lock::ListedKey::shared(#text)),
        Kind::Permits(permits) => {
            let permits = permits_of_member(permits);
            quote_spanned!(mixed()=> __redis_lock::ListedKey::permits(#text, #permits))
        }
    }
}

/// Has rustc refuse what `when_held` and `on_error` take of the body, with a reason. Not where a
/// name may be that of another variable.
fn stay(args: &Args, captured: &[Binding]) -> TokenStream {
    let mut checks = TokenStream::new();
    for value in [&args.when_held, &args.on_error].into_iter().flatten() {
        let mut value = value.clone();
        let mut own = Vec::new();
        if let Expr::Closure(closure) = value {
            closure
                .inputs
                .iter()
                .for_each(|input| collect_names(input, &mut own));
            value = *closure.body;
        }
        let mut seen: Vec<(String, Span)> = Vec::new();
        for_each_name(value.to_token_stream(), &mut |name, span| {
            seen.push((name.to_owned(), span))
        });
        let binds = |name: &str| ["let", "match", "for", "move"].contains(&name);
        if seen.iter().any(|(name, _)| binds(name))
            || value.to_token_stream().to_string().contains('|')
        {
            continue;
        }
        for Binding { name, cfgs } in captured.iter().filter(|it| !own.contains(&it.name)) {
            if let Some((_, place)) = seen.iter().find(|(seen, _)| name == seen) {
                let mut name = name.clone();
                name.set_span(name.span().located_at(*place));
                checks.extend(quote_spanned!(at(*place)=> #(#cfgs)* __redis_lock::StaysOutside::check(&#name);));
            }
        }
    }
    checks
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
fn body(args: &Args, function: &Function, captured: &[Binding]) -> TokenStream {
    let output = Ident::new("__output", at(first_span(&function.output)));
    let whole = captured.iter().rev().map(|Binding { name, cfgs }| {
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
        false if args.leader => quote_spanned!(body.span_open()=> async #block),
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
    let on_error = Ident::new("on_error", place);
    quote_spanned! {place=>
        {
            let #on_error = #handler;
            #on_error(#error)
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
