//! The options of the lock, as a value of the runtime's `Options`.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ExprPath;
use syn::spanned::Spanned;

use crate::args::{Args, Renew};
use crate::duration::Duration;
use crate::expand::{at, mixed};
use crate::function::Function;

/// An expression of type `Options`. Durations that the arguments have are set at run time, and the
/// runtime checks them when it has them.
pub(crate) fn options(args: &Args, function: &Function) -> TokenStream {
    let arguments = function.argument_names();
    let constant = constant(args, function, &arguments);
    let computed = |given: Option<&Duration>| given.and_then(|it| it.computed(&arguments));
    let some = |value| quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#value));
    let expire = computed(args.expire.as_ref()).map(some);
    let wait = computed(args.wait.as_ref());
    let renew = computed(args.renew.as_ref().and_then(Renew::interval))
        .map(|value| quote_spanned!(mixed()=> __redis_lock::Renew::Every(#value)));
    let max_hold = computed(args.max_hold.as_ref()).map(some);
    if expire.is_none() && wait.is_none() && renew.is_none() && max_hold.is_none() {
        return constant;
    }
    let [expire, wait, renew, max_hold] = [
        expire.map(|value| quote_spanned!(mixed()=> expire: #value,)),
        wait.map(|value| quote_spanned!(mixed()=> wait: #value,)),
        renew.map(|value| quote_spanned!(mixed()=> renew: #value,)),
        max_hold.map(|value| quote_spanned!(mixed()=> max_hold: #value,)),
    ];
    quote_spanned! {mixed()=>
        __redis_lock::Options { #expire #wait #renew #max_hold ..#constant }
    }
}

/// What is known before the call. Literal durations have been checked; the values of constants are
/// known to rustc only, so that their check is part of the expansion.
fn constant(args: &Args, function: &Function, arguments: &[String]) -> TokenStream {
    let options = unchecked(args, function, arguments);
    let constants = args.durations().filter_map(|it| it.constant(arguments));
    let mut constants = constants.peekable();
    let Some(first) = constants.peek() else {
        return options;
    };
    let place = at(first.span());
    if constants.any(may_name_generics) {
        // An item cannot name `Self` or a type parameter. An inline constant can, but `cargo check`
        // does not evaluate it.
        let check = quote_spanned!(place=> __redis_lock::check_durations(&__options));
        return quote_spanned! {mixed()=>
            const {
                let __options = #options;
                #check;
                __options
            }
        };
    }
    let check = quote_spanned!(place=> __redis_lock::check_durations(&__REDIS_LOCK_OPTIONS));
    quote_spanned! {mixed()=>
        {
            const __REDIS_LOCK_OPTIONS: __redis_lock::Options = #options;
            const _: () = #check;
            __REDIS_LOCK_OPTIONS
        }
    }
}

/// A path that starts with a type may start with a parameter, of the function or of the `impl`
/// around it, which the attribute does not see.
fn may_name_generics(path: &ExprPath) -> bool {
    let segments = &path.path.segments;
    let starts_with_type = || {
        segments[0]
            .ident
            .to_string()
            .starts_with(char::is_uppercase)
    };
    path.qself.is_some() || (segments.len() > 1 && starts_with_type())
}

fn unchecked(args: &Args, function: &Function, arguments: &[String]) -> TokenStream {
    let before_call =
        |given: Option<&Duration>| given.and_then(|it| constant_duration(it, arguments));
    let name = match &args.name {
        Some(name) => name.to_token_stream(),
        None => {
            let name = function.name();
            quote_spanned! {mixed()=>
                __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", #name)
            }
        }
    };
    let expire = optional(before_call(args.expire.as_ref()));
    let wait = match before_call(args.wait.as_ref()) {
        Some(wait) => wait,
        None => quote_spanned!(mixed()=> __redis_lock::std::time::Duration::ZERO),
    };
    let interval = before_call(args.renew.as_ref().and_then(Renew::interval));
    let renew = match (&args.renew, interval) {
        (Some(Renew::Default), _) => quote_spanned!(mixed()=> __redis_lock::Renew::Default),
        (_, Some(interval)) => quote_spanned!(mixed()=> __redis_lock::Renew::Every(#interval)),
        (_, None) => quote_spanned!(mixed()=> __redis_lock::Renew::Never),
    };
    let max_hold = optional(before_call(args.max_hold.as_ref()));
    let reentrant = args.reentrant;
    quote_spanned! {mixed()=>
        __redis_lock::Options {
            name: __redis_lock::std::option::Option::Some(#name),
            expire: #expire,
            wait: #wait,
            renew: #renew,
            max_hold: #max_hold,
            reentrant: #reentrant,
        }
    }
}

fn optional(given: Option<TokenStream>) -> TokenStream {
    match given {
        Some(given) => quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#given)),
        None => quote_spanned!(mixed()=> __redis_lock::std::option::Option::None),
    }
}

/// The duration, if it is known before the call.
fn constant_duration(duration: &Duration, arguments: &[String]) -> Option<TokenStream> {
    if let Some(known) = duration.known() {
        let mut millis = Literal::u64_suffixed(known.millis);
        millis.set_span(mixed());
        return Some(
            quote_spanned!(mixed()=> __redis_lock::std::time::Duration::from_millis(#millis)),
        );
    }
    duration.constant(arguments).map(ToTokens::to_token_stream)
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenTree;
    use quote::quote;

    use super::*;
    use crate::mistakes::Mistakes;

    fn expanded(args: TokenStream) -> String {
        let args = Args::parse(args, &mut Mistakes::default());
        let function = Function::parse(quote!(
            async fn r#loop() {}
        ));
        options(
            &args,
            &function.unwrap_or_else(|mistake| panic!("{mistake}")),
        )
        .to_string()
    }

    #[test]
    fn literals_need_no_check() {
        let options = expanded(quote!(expire = 5s, renew));
        assert!(!options.contains("check_durations"));
        assert!(options.contains(&quote!(renew: __redis_lock::Renew::Default).to_string()));
        assert!(options.contains("\"loop\""), "the name has no `r#`");
    }

    #[test]
    fn what_the_arguments_have_is_set_at_run_time() {
        let args = quote!(
            expire = LEASE,
            wait = job.wait(),
            renew = every,
            max_hold = 1m
        );
        let args = Args::parse(args, &mut Mistakes::default());
        let function = Function::parse(quote!(
            async fn run(job: Job, every: Duration) {}
        ));
        let function = function.unwrap_or_else(|mistake| panic!("{mistake}"));
        let options = options(&args, &function).to_string();
        let begins = "__redlock::Options { wait : job . wait () , renew : \
                      __redlock::Renew :: Every (every) , .. ";
        let begins = begins.replace("__redlock::", "__redis_lock :: ");
        assert!(options.starts_with(&begins), "{options}");
        assert!(options.contains("check_durations"), "{options}");
        assert_eq!(options.matches("every").count(), 1, "{options}");
    }

    #[test]
    fn constants_are_checked_by_an_item() {
        for constant in [quote!(LEASE), quote!(config::LEASE)] {
            let options = expanded(quote!(expire = #constant));
            let check = quote! {
                const _: () = __redis_lock::check_durations(&__REDIS_LOCK_OPTIONS);
            };
            assert!(options.contains(&check.to_string()), "{options}");
        }
    }

    #[test]
    fn constants_of_types_are_checked_in_place() {
        for constant in [
            quote!(Self::LEASE),
            quote!(T::LEASE),
            quote!(<T as Leased>::LEASE),
        ] {
            let options = expanded(quote!(wait = 1s, expire = #constant));
            let tokens: TokenStream = options.parse().unwrap();
            assert!(
                matches!(&tokens.into_iter().next(), Some(TokenTree::Ident(it)) if it == "const")
            );
        }
    }
}
