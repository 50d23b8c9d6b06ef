//! The options of the lock, as a value of the runtime's `Options`.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::ExprPath;
use syn::spanned::Spanned;

use crate::args::{Args, Renew};
use crate::duration::Duration;
use crate::expand::{at, mixed};
use crate::function::Function;

/// An expression of type `Options`. Literal durations have been checked; the values of constants are
/// known to rustc only, so that their check is part of the expansion.
pub(crate) fn options(args: &Args, function: &Function) -> TokenStream {
    let options = unchecked(args, function);
    let mut constants = args.durations().filter_map(Duration::constant).peekable();
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

fn unchecked(args: &Args, function: &Function) -> TokenStream {
    let name = match &args.name {
        Some(name) => name.to_token_stream(),
        None => {
            let name = function.name();
            quote_spanned! {mixed()=>
                __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", #name)
            }
        }
    };
    let expire = optional(args.expire.as_ref());
    let wait = match &args.wait {
        Some(wait) => duration(wait),
        None => quote_spanned!(mixed()=> __redis_lock::std::time::Duration::ZERO),
    };
    let renew = match &args.renew {
        None => quote_spanned!(mixed()=> __redis_lock::Renew::Never),
        Some(Renew::Default) => quote_spanned!(mixed()=> __redis_lock::Renew::Default),
        Some(Renew::Every(interval)) => {
            let interval = duration(interval);
            quote_spanned!(mixed()=> __redis_lock::Renew::Every(#interval))
        }
    };
    let max_hold = optional(args.max_hold.as_ref());
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

fn optional(given: Option<&Duration>) -> TokenStream {
    match given.map(duration) {
        Some(given) => quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#given)),
        None => quote_spanned!(mixed()=> __redis_lock::std::option::Option::None),
    }
}

fn duration(duration: &Duration) -> TokenStream {
    match duration {
        Duration::Known(known) => {
            let mut millis = Literal::u64_suffixed(known.millis);
            millis.set_span(mixed());
            quote_spanned!(mixed()=> __redis_lock::std::time::Duration::from_millis(#millis))
        }
        Duration::Constant(path) => path.to_token_stream(),
    }
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
