//! The function with its lock.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Result;
use syn::spanned::Spanned;

use crate::args::Args;
use crate::check;
use crate::function::{Function, regrouped};
use crate::key::Template;
use crate::mistakes::Mistakes;
use crate::spec::spec;

/// Reports mistakes beside the item as it was, so that its callers and completion keep working.
pub(crate) fn redis_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    attempt(args, item.clone()).unwrap_or_else(|mistakes| {
        let mistakes = mistakes.into_compile_error();
        quote!(#mistakes #[allow(unused)] #item)
    })
}

fn attempt(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut mistakes = Mistakes::default();
    let args = Args::parse(args, &mut mistakes);
    check::arguments(&args, &mut mistakes);
    let function = mistakes.keep(Function::parse(item));
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
    let new = new_section(args, key, function);
    let guard = args.guard.as_ref().map(
        |guard| quote_spanned!(mixed()=> let #guard = __redis_lock::Section::lease(&__section);),
    );
    let body = body(function);
    let fail = fail(args, function);
    // One `use`, because every further path to the runtime would be a further error where there is
    // no such crate. `return`, because `clippy::implicit_return` takes the braces for the user's.
    quote_spanned! {mixed()=>
        use #runtime::__private as __redis_lock;
        let __returns = __redis_lock::Returns::<#output>::new();
        let mut __section = #new;
        #guard
        let mut __body = __redis_lock::std::pin::pin!(
            __redis_lock::std::option::Option::Some(async move #body)
        );
        let __acquired = __redis_lock::Section::acquire(&mut __section).await;
        let __outcome = match __acquired {
            __redis_lock::std::result::Result::Ok(()) => {
                let __body = __redis_lock::std::pin::Pin::as_mut(&mut __body);
                __redis_lock::Section::hold(&mut __section, __body).await
            }
            __redis_lock::std::result::Result::Err(__error) => {
                __redis_lock::std::result::Result::Err(__error)
            }
        };
        return match __outcome {
            __redis_lock::std::result::Result::Ok(__value) => __value,
            __redis_lock::std::result::Result::Err(__error) => #fail,
        };
    }
}

fn new_section(args: &Args, key: &Template, function: &Function) -> TokenStream {
    let key = key.expand();
    let spec = spec(args, function);
    let Some(via) = &args.via else {
        return quote_spanned!(mixed()=> __redis_lock::Section::installed(#key, #spec));
    };
    // Bound first: `of` would otherwise decide what the branches of an `if` have to be, while
    // `Redlock`, `&Redlock` and `Arc<Redlock>` will all do.
    let redlock = Ident::new("__redlock", at(via.span()));
    quote_spanned! {mixed()=>
        {
            let #redlock = &#via;
            __redis_lock::Section::of(#redlock, #key, #spec)
        }
    }
}

/// Before: `{ body }`, after: `{ prelude { body } }`.
///
/// The prelude tells rustc the type of the block before it sees the body, so that a mismatch is the
/// body's and coercions work. It also mentions the arguments that the body mentions: an async block
/// would otherwise take only the fields in use, and the others would outlive the lock. The body has
/// a block of its own because its items may not come after statements (`items_after_statements`).
fn body(function: &Function) -> TokenStream {
    let output = Ident::new("__output", at(first_span(&function.output)));
    let whole = function.mentioned_bindings().into_iter().map(|binding| {
        let (name, cfgs) = (binding.name, binding.cfgs);
        quote_spanned!(mixed()=> #(#cfgs)* let _ = &#name;)
    });
    let body = &function.body;
    quote_spanned! {mixed()=>
        {
            if false {
                let #output = __redis_lock::Returns::conjure(&__returns);
                return #output;
            }
            #(#whole)*
            #body
        }
    }
}

/// What the function returns when there is no lock, or no lock any more.
fn fail(args: &Args, function: &Function) -> TokenStream {
    let output = &function.output;
    match &args.on_error {
        // Called by a function, not at once: only so does rustc know the closure's argument type.
        Some(handler) => {
            quote_spanned!(mixed()=> __redis_lock::fail_with::<#output, _>(#handler, __error))
        }
        None => {
            let fail = Ident::new("fail", at(first_span(output)));
            quote_spanned!(mixed()=> __redis_lock::#fail::<#output>(__error))
        }
    }
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

    #[track_caller]
    fn assert_expands(args: TokenStream, item: TokenStream, expected: TokenStream) {
        // `quote!` spaces `>>` in its own way.
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(text(redis_lock(args, item)), text(expected));
    }

    /// What follows the section and the guard, whatever the arguments are.
    fn run(body: TokenStream, fail: TokenStream) -> TokenStream {
        quote! {
            let mut __body = __redis_lock::std::pin::pin!(
                __redis_lock::std::option::Option::Some(async move {
                    if false {
                        let __output = __redis_lock::Returns::conjure(&__returns);
                        return __output;
                    }
                    #body
                })
            );
            let __acquired = __redis_lock::Section::acquire(&mut __section).await;
            let __outcome = match __acquired {
                __redis_lock::std::result::Result::Ok(()) => {
                    let __body = __redis_lock::std::pin::Pin::as_mut(&mut __body);
                    __redis_lock::Section::hold(&mut __section, __body).await
                }
                __redis_lock::std::result::Result::Err(__error) => {
                    __redis_lock::std::result::Result::Err(__error)
                }
            };
            return match __outcome {
                __redis_lock::std::result::Result::Ok(__value) => __value,
                __redis_lock::std::result::Result::Err(__error) => #fail,
            };
        }
    }

    fn default_spec() -> TokenStream {
        quote! {
            __redis_lock::Spec {
                name: __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", "pay"),
                expire: __redis_lock::std::option::Option::None,
                wait: __redis_lock::std::time::Duration::ZERO,
                renew: __redis_lock::Renew::Never,
                max_hold: __redis_lock::std::option::Option::None,
            }
        }
    }

    #[test]
    fn the_least() {
        let spec = default_spec();
        let run = run(
            quote!(let _ = &id; { Ok(id) }),
            quote!(__redis_lock::fail::<Result<u64, E>>(__error)),
        );
        assert_expands(
            quote!(key = "order:{id}"),
            quote!(
                pub async fn pay(id: u64, unused: u64) -> Result<u64, E> {
                    Ok(id)
                }
            ),
            quote! {
                pub async fn pay(id: u64, unused: u64) -> Result<u64, E> {
                    use ::redlock_runtime::__private as __redis_lock;
                    let __returns = __redis_lock::Returns::<Result<u64, E>>::new();
                    let mut __section = __redis_lock::Section::installed(
                        __redis_lock::std::format!("order:{id}"),
                        #spec
                    );
                    #run
                }
            },
        );
    }

    #[test]
    fn everything() {
        let run = run(
            quote!({
                lease.remaining();
            }),
            quote!(__redis_lock::fail_with::<(), _>(drop, __error)),
        );
        assert_expands(
            quote! {
                key = "k", expire = 5s, wait = 1, renew = 500ms, max_hold = 1.5m, guard = lease,
                name = "n", on_error = drop, via = redlock(), crate = crate::lock
            },
            quote!(
                async fn pay() {
                    lease.remaining();
                }
            ),
            quote! {
                async fn pay() {
                    use crate::lock::__private as __redis_lock;
                    let __returns = __redis_lock::Returns::<()>::new();
                    let mut __section = {
                        let __redlock = &redlock();
                        __redis_lock::Section::of(
                            __redlock,
                            __redis_lock::std::convert::From::from("k"),
                            __redis_lock::Spec {
                                name: "n",
                                expire: __redis_lock::std::option::Option::Some(
                                    __redis_lock::std::time::Duration::from_millis(5000u64)
                                ),
                                wait: __redis_lock::std::time::Duration::from_millis(1000u64),
                                renew: __redis_lock::Renew::Every(
                                    __redis_lock::std::time::Duration::from_millis(500u64)
                                ),
                                max_hold: __redis_lock::std::option::Option::Some(
                                    __redis_lock::std::time::Duration::from_millis(90000u64)
                                ),
                            }
                        )
                    };
                    let lease = __redis_lock::Section::lease(&__section);
                    #run
                }
            },
        );
    }

    #[test]
    fn a_boxed_future() {
        let spec = default_spec();
        let run = run(
            quote!(let _ = &self; { let __self = self; }),
            quote!(__redis_lock::fail::<R>(__error)),
        );
        assert_expands(
            quote!(key = "k"),
            quote! {
                fn pay(&self) -> Pin<Box<dyn Future<Output = R> + Send>> {
                    Box::pin(async move { let __self = self; })
                }
            },
            quote! {
                fn pay(&self) -> Pin<Box<dyn Future<Output = R> + Send>> {
                    Box::pin(async move {
                        use ::redlock_runtime::__private as __redis_lock;
                        let __returns = __redis_lock::Returns::<R>::new();
                        let mut __section = __redis_lock::Section::installed(
                            __redis_lock::std::convert::From::from("k"),
                            #spec
                        );
                        #run
                    })
                }
            },
        );
    }

    #[test]
    fn mistakes_leave_the_item() {
        let item = quote!(async fn pay(id: u64) -> u64 { half. });
        let expansion =
            redis_lock(quote!(key = "order:{id", expires = 5s), item.clone()).to_string();
        assert_eq!(expansion.matches("compile_error").count(), 2);
        assert!(expansion.ends_with(&quote!(#[allow(unused)] #item).to_string()));
    }
}
