//! What the runtime knows of the function: its registration, and the options of its lock.

use proc_macro2::{Literal, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprPath, LitStr};

use crate::args::{Args, Permits, Renew};
use crate::duration::Duration;
use crate::expand::{at, mixed};
use crate::function::Function;
use crate::key::Template;
use crate::tokens::joined;

/// What is known of a function before it is called, and the options of each of its calls.
pub(crate) struct Declaration {
    /// They register the function with the runtime, and have rustc check the values of constants,
    /// which only rustc knows.
    pub(crate) items: TokenStream,
    /// The registered information, an expression of type `&'static SectionInfo`.
    pub(crate) info: TokenStream,
    /// An expression of type `Options`.
    pub(crate) options: TokenStream,
}

/// The literal durations have been checked.
pub(crate) fn declaration(args: &Args, keys: &[Template], function: &Function) -> Declaration {
    let arguments = function.argument_names();
    let permits = || args.permits.as_ref().and_then(|it| it.constant(&arguments));
    let durations = || args.durations().filter_map(|it| it.constant(&arguments));
    let constants = || durations().chain(permits());
    let before_call = |duration: &Duration| duration.computed(&arguments).is_none();
    let computed_permits = || args.permits.as_ref().and_then(|it| it.computed(&arguments));
    let permits_before_call = computed_permits().is_none();
    let place = constants().next().map(|first| at(first.span()));
    let info = quote_spanned!(mixed()=> &__REDIS_LOCK_SECTION);
    let of_info = quote_spanned!(mixed()=> __redis_lock::SectionInfo::options(#info));
    let (check, registered, options) = match place {
        None => (
            TokenStream::new(),
            values(args, before_call, permits_before_call),
            of_info,
        ),
        Some(place) if constants().any(may_name_generics) => {
            // An item cannot name `Self` or a type parameter. An inline constant can, but `cargo
            // check` does not evaluate it.
            let options = values(args, before_call, permits_before_call);
            let check = quote_spanned!(place=> __redis_lock::check_constants(&__options));
            let options = quote_spanned! {mixed()=>
                const {
                    let __options = #options;
                    #check;
                    __options
                }
            };
            let is_known = |duration: &Duration| {
                let constant = duration.constant(&arguments);
                before_call(duration) && !constant.is_some_and(may_name_generics)
            };
            let of_permits = permits_before_call && !permits().is_some_and(may_name_generics);
            (
                TokenStream::new(),
                values(args, is_known, of_permits),
                options,
            )
        }
        Some(place) => {
            let values = values(args, before_call, permits_before_call);
            let check =
                quote_spanned!(place=> __redis_lock::check_constants(&__REDIS_LOCK_OPTIONS));
            let check = quote_spanned! {mixed()=>
                const __REDIS_LOCK_OPTIONS: __redis_lock::Options = #values;
                const _: () = #check;
            };
            let registered = quote_spanned!(mixed()=> __REDIS_LOCK_OPTIONS);
            (check, registered, of_info)
        }
    };
    let options = at_run_time(args, &arguments, options);
    let section = section_info(args, keys, function, &registered);
    let items = quote_spanned! {mixed()=>
        #check
        static __REDIS_LOCK_SECTION: __redis_lock::SectionInfo = #section;
        __redis_lock::inventory::submit! { __redis_lock::Registered(#info) }
    };
    Declaration {
        items,
        info,
        options,
    }
}

/// The options with those durations and permits that the arguments have, which the runtime checks.
fn at_run_time(args: &Args, arguments: &[String], constant: TokenStream) -> TokenStream {
    let computed = |given: Option<&Duration>| given.and_then(|it| it.computed(arguments));
    // A temporary value in one, such as a guard on a mutex, must be gone before the next.
    let typed = |value: Expr, ty| quote_spanned!(mixed()=> { let __value: #ty = #value; __value });
    let alone = |value: Expr| {
        let place = at(value.span());
        let ty = quote_spanned!(place=> __redis_lock::std::time::Duration);
        typed(value, ty)
    };
    let count = |value: Expr| {
        let place = at(value.span());
        typed(
            value,
            quote_spanned!(place=> __redis_lock::std::primitive::u32),
        )
    };
    let some = |value| quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#value));
    let every = |value| quote_spanned!(mixed()=> __redis_lock::Renew::Every(#value));
    let interval = args.renew.as_ref().and_then(Renew::interval);
    let expire = computed(args.expire.as_ref()).map(alone).map(some);
    let wait = computed(args.wait.as_ref()).map(alone);
    let renew = computed(interval).map(alone).map(every);
    let max_hold = computed(args.max_hold.as_ref()).map(alone).map(some);
    let at_least = computed(args.at_least.as_ref()).map(alone).map(some);
    let permits = args.permits.as_ref().and_then(|it| it.computed(arguments));
    let permits = permits.map(count).map(some);
    let fields = [
        expire.map(|value| quote_spanned!(mixed()=> expire: #value,)),
        wait.map(|value| quote_spanned!(mixed()=> wait: #value,)),
        renew.map(|value| quote_spanned!(mixed()=> renew: #value,)),
        max_hold.map(|value| quote_spanned!(mixed()=> max_hold: #value,)),
        at_least.map(|value| quote_spanned!(mixed()=> at_least: #value,)),
        permits.map(|value| quote_spanned!(mixed()=> permits: #value,)),
    ];
    let mut fields = fields.into_iter().flatten().peekable();
    if fields.peek().is_none() {
        return constant;
    }
    quote_spanned!(mixed()=> __redis_lock::Options { #(#fields)* ..#constant })
}

fn section_info(
    args: &Args,
    keys: &[Template],
    function: &Function,
    options: &TokenStream,
) -> TokenStream {
    let name = match &args.name {
        Some(name) => name.to_token_stream(),
        None => {
            let name = function.name();
            quote_spanned! {mixed()=>
                __redis_lock::std::concat!(__redis_lock::std::module_path!(), "::", #name)
            }
        }
    };
    let written: Vec<String> = keys.iter().map(Template::written).collect();
    // Without the user's hygiene: lints look at literals with braces.
    let key = LitStr::new(&written.join(", "), mixed());
    let mut info = quote_spanned! {mixed()=>
        __redis_lock::SectionInfo::new(
            #name,
            #key,
            (__redis_lock::std::file!(), __redis_lock::std::line!()),
            #options
        )
    };
    if let Some(via) = &args.via {
        let tokens: Vec<TokenTree> = via.to_token_stream().into_iter().collect();
        let written = LitStr::new(&joined(&tokens), mixed());
        info = quote_spanned!(mixed()=> #info.via_expression(#written));
    }
    let arguments = function.argument_names();
    let is_unknown = |duration: &Duration| {
        let constant = duration.constant(&arguments);
        constant.is_some_and(may_name_generics) || duration.computed(&arguments).is_some()
    };
    let permits = args.permits.as_ref();
    let constant = permits.and_then(|it| it.constant(&arguments));
    let is_unknown_count = constant.is_some_and(may_name_generics)
        || permits.is_some_and(|it| it.computed(&arguments).is_some());
    if args.durations().any(is_unknown) || is_unknown_count {
        info = quote_spanned!(mixed()=> #info.incomplete());
    }
    info
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
    // `Duration::ZERO`
    let is_of_duration = segments.len() == 2 && segments[0].ident == "Duration";
    path.qself.is_some() || (segments.len() > 1 && starts_with_type() && !is_of_duration)
}

/// An expression of type `Options`, of the durations that are known, and with the number of permits if that
/// is.
fn values(args: &Args, is_known: impl Fn(&Duration) -> bool, of_permits: bool) -> TokenStream {
    let known = |given: &Option<Duration>| match given.as_ref().filter(|it| is_known(it)) {
        Some(given) => {
            let given = duration(given);
            quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#given))
        }
        None => quote_spanned!(mixed()=> __redis_lock::std::option::Option::None),
    };
    let [expire, max_hold] = [known(&args.expire), known(&args.max_hold)];
    let at_least = known(&args.at_least);
    let wait = match args.wait.as_ref().filter(|it| is_known(it)) {
        Some(wait) => duration(wait),
        None => quote_spanned!(mixed()=> __redis_lock::std::time::Duration::ZERO),
    };
    let renew = match &args.renew {
        None => quote_spanned!(mixed()=> __redis_lock::Renew::Never),
        Some(Renew::Every(interval)) if is_known(interval) => {
            let interval = duration(interval);
            quote_spanned!(mixed()=> __redis_lock::Renew::Every(#interval))
        }
        Some(_) => quote_spanned!(mixed()=> __redis_lock::Renew::Default),
    };
    let permits = match args.permits.as_ref().filter(|_| of_permits) {
        Some(Permits::Known(permits)) => {
            let mut permits = Literal::u32_suffixed(*permits);
            permits.set_span(mixed());
            quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#permits))
        }
        Some(Permits::Path(permits)) => {
            quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#permits))
        }
        Some(Permits::Computed(_)) | None => {
            quote_spanned!(mixed()=> __redis_lock::std::option::Option::None)
        }
    };
    let [shared, reentrant, fair] = [args.shared, args.reentrant, args.fair];
    quote_spanned! {mixed()=>
        __redis_lock::Options {
            expire: #expire,
            wait: #wait,
            renew: #renew,
            max_hold: #max_hold,
            at_least: #at_least,
            shared: #shared,
            permits: #permits,
            reentrant: #reentrant,
            fair: #fair,
        }
    }
}

fn duration(duration: &Duration) -> TokenStream {
    match duration {
        Duration::Known(known) => {
            let mut millis = Literal::u64_suffixed(known.millis);
            millis.set_span(mixed());
            quote_spanned!(mixed()=> __redis_lock::std::time::Duration::from_millis(#millis))
        }
        Duration::Path(path) => path.to_token_stream(),
        Duration::Computed(expression) => expression.to_token_stream(),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::mistakes::Mistakes;

    fn declared(args: TokenStream) -> [String; 2] {
        let args = Args::parse(quote!(key = "key", #args), &mut Mistakes::default());
        let function = Function::parse(quote!(
            async fn r#loop(job: Job, every: Duration) {}
        ));
        let function = function.unwrap_or_else(|mistake| panic!("{mistake}"));
        let key = args.keys.as_deref().unwrap();
        let declaration = declaration(&args, key, &function);
        [declaration.items, declaration.options].map(|tokens| tokens.to_string())
    }

    #[test]
    fn literals_need_no_check() {
        let [items, options] = declared(quote!(expire = 5s, renew));
        assert!(!items.contains("check_constants") && !options.contains("check_constants"));
        assert!(items.contains(&quote!(renew: __redis_lock::Renew::Default).to_string()));
        assert!(items.contains("\"loop\""), "the name has no `r#`");
    }

    #[test]
    fn what_the_arguments_have_is_set_at_run_time() {
        let args = quote!(
            expire = LEASE,
            wait = job.wait(),
            renew = every,
            max_hold = 1m
        );
        let [items, options] = declared(args);
        let begins = quote!(__redis_lock::Options {
            wait: {
                let __value: __redis_lock::std::time::Duration = job.wait();
                __value
            },
            renew: __redis_lock::Renew::Every({
                let __value: __redis_lock::std::time::Duration = every;
                __value
            }),
            ..
        });
        let begins = begins.to_string();
        assert!(
            options.starts_with(begins.trim_end_matches("}")),
            "{options}"
        );
        assert!(
            items.contains("check_constants") && items.contains("incomplete"),
            "{items}"
        );
        assert!(
            !items.contains("every") && !items.contains("job"),
            "{items}"
        );
    }

    #[test]
    fn constants_are_checked_by_an_item() {
        for constant in [quote!(LEASE), quote!(config::LEASE)] {
            let [items, _] = declared(quote!(expire = #constant));
            let check = quote! {
                const _: () = __redis_lock::check_constants(&__REDIS_LOCK_OPTIONS);
            };
            assert!(items.contains(&check.to_string()), "{items}");
        }
    }

    #[test]
    fn constants_of_types_are_checked_in_place() {
        for constant in [
            quote!(Self::LEASE),
            quote!(T::LEASE),
            quote!(<T as Leased>::LEASE),
        ] {
            let [items, options] = declared(quote!(wait = 1s, renew = #constant));
            assert!(options.starts_with("const"), "{options}");
            assert!(!items.contains("LEASE") && items.contains("incomplete"));
            let known = quote!(
                wait: __redis_lock::std::time::Duration::from_millis(1000u64),
                renew: __redis_lock::Renew::Default,
            );
            assert!(items.contains(&known.to_string()), "{items}");
        }
    }

    #[test]
    fn via_is_registered_as_it_is_written() {
        let [items, _] = declared(quote!(via = &self.locks[0]));
        assert!(
            items.contains("via_expression (\"&self.locks[0]\")"),
            "{items}"
        );
    }
}
