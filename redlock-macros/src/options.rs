//! What the runtime knows of the function: its registration, and the options of its lock.

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprPath, LitStr};

use crate::args::{Args, Renew};
use crate::duration::Known;
use crate::expand::{at, mixed};
use crate::function::Function;
use crate::given::Given;
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

/// When a value is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Expansion,
    /// To rustc, in an item.
    Compilation,
    /// To rustc, but not in an item, which cannot name `Self` or a type parameter.
    Instance,
    Call,
}

/// A field of `Options`, one of those with a value.
struct Field {
    name: &'static str,
    /// An expression of the field's type.
    given: Option<(Stage, Span, TokenStream)>,
    otherwise: TokenStream,
}

/// The literal durations have been checked.
pub(crate) fn declaration(args: &Args, keys: &[Template], function: &Function) -> Declaration {
    let fields = fields(args);
    let given = || fields.iter().filter_map(|field| field.given.as_ref());
    let is_constant = |stage| [Stage::Compilation, Stage::Instance].contains(&stage);
    let constant = given().find(|(stage, ..)| is_constant(*stage));
    let place = constant.map(|(_, span, _)| at(*span));
    let has = |wanted| given().any(|(stage, ..)| *stage == wanted);
    let info = quote_spanned!(mixed()=> &__REDIS_LOCK_SECTION);
    let of_info = quote_spanned!(mixed()=> __redis_lock::SectionInfo::options(#info));
    let up_to = |stage| options(args, &fields, stage);
    let (check, registered, options) = match place {
        None => (TokenStream::new(), up_to(Stage::Expansion), of_info),
        Some(place) if has(Stage::Instance) => {
            // An inline constant, which `cargo check` does not evaluate.
            let options = up_to(Stage::Instance);
            let check = quote_spanned!(place=> __redis_lock::check_constants(&__options));
            let options = quote_spanned! {mixed()=>
                const {
                    let __options = #options;
                    #check;
                    __options
                }
            };
            (TokenStream::new(), up_to(Stage::Compilation), options)
        }
        Some(place) => {
            let options = up_to(Stage::Compilation);
            let check =
                quote_spanned!(place=> __redis_lock::check_constants(&__REDIS_LOCK_OPTIONS));
            let check = quote_spanned! {mixed()=>
                const __REDIS_LOCK_OPTIONS: __redis_lock::Options = #options;
                const _: () = #check;
            };
            let registered = quote_spanned!(mixed()=> __REDIS_LOCK_OPTIONS);
            (check, registered, of_info)
        }
    };
    let at_run_time = fields.iter().filter_map(|Field { name, given, .. }| {
        let name = Ident::new(name, mixed());
        let computed = given.as_ref().filter(|(stage, ..)| *stage == Stage::Call);
        computed.map(|(.., value)| quote_spanned!(mixed()=> #name: #value,))
    });
    let options = match has(Stage::Call) {
        true => quote_spanned!(mixed()=> __redis_lock::Options { #(#at_run_time)* ..#options }),
        false => options,
    };
    let is_complete = !has(Stage::Instance) && !has(Stage::Call);
    let section = section_info(args, keys, function, &registered, is_complete);
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

fn section_info(
    args: &Args,
    keys: &[Template],
    function: &Function,
    options: &TokenStream,
    is_complete: bool,
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
    if !is_complete {
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

fn fields(args: &Args) -> [Field; 7] {
    let some = |value| quote_spanned!(mixed()=> __redis_lock::std::option::Option::Some(#value));
    let every = |value| quote_spanned!(mixed()=> __redis_lock::Renew::Every(#value));
    let none = quote_spanned!(mixed()=> __redis_lock::std::option::Option::None);
    let wait = Ident::new(if args.leader { "MAX" } else { "ZERO" }, mixed());
    let wait = quote_spanned!(mixed()=> __redis_lock::std::time::Duration::#wait);
    let renew = match &args.renew {
        None => quote_spanned!(mixed()=> __redis_lock::Renew::Never),
        Some(_) => quote_spanned!(mixed()=> __redis_lock::Renew::Default),
    };
    let field =
        |name, given: Option<Value>, wrap: &dyn Fn(TokenStream) -> TokenStream, otherwise| Field {
            name,
            given: given.map(|(stage, span, value)| (stage, span, wrap(value))),
            otherwise,
        };
    let interval = args.renew.as_ref().and_then(Renew::interval);
    let permits = args.permits.as_ref().map(count);
    let known = permits.as_ref().map(|(stage, ..)| *stage);
    // Not sooner than the permits, which it is compared with.
    let weight = args.weight.as_ref().map(count);
    let weight =
        weight.map(|(stage, span, value)| (stage.max(known.unwrap_or(stage)), span, value));
    [
        field(
            "expire",
            args.expire.as_ref().map(duration),
            &some,
            none.clone(),
        ),
        field(
            "wait",
            args.wait.as_ref().map(duration),
            &|value| value,
            wait,
        ),
        field("renew", interval.map(duration), &every, renew),
        field(
            "max_hold",
            args.max_hold.as_ref().map(duration),
            &some,
            none.clone(),
        ),
        field(
            "at_least",
            args.at_least.as_ref().map(duration),
            &some,
            none.clone(),
        ),
        field("permits", permits, &some, none.clone()),
        field("weight", weight, &some, none),
    ]
}

type Value = (Stage, Span, TokenStream);

fn duration(given: &Given<Known>) -> Value {
    let ty = |place| quote_spanned!(place=> __redis_lock::std::time::Duration);
    value(given, ty, |known| {
        let mut millis = Literal::u64_suffixed(known.millis);
        millis.set_span(mixed());
        quote_spanned!(mixed()=> __redis_lock::std::time::Duration::from_millis(#millis))
    })
}

fn count(given: &Given<u32>) -> Value {
    let ty = |place| quote_spanned!(place=> __redis_lock::std::primitive::u32);
    value(given, ty, |count| {
        let mut count = Literal::u32_suffixed(*count);
        count.set_span(mixed());
        count.into_token_stream()
    })
}

/// Of one among several keys.
pub(crate) fn permits_of_member((permits, weight): &(Given<u32>, Given<u32>)) -> TokenStream {
    let (of_permits, of_weight) = (count(permits), count(weight));
    let (permits, weight) = (&of_permits.2, &of_weight.2);
    if of_weight.0 <= of_permits.0 {
        return checked_permits(&of_permits, &quote_spanned!(mixed()=> (#permits, #weight)));
    }
    // What is known of the permits is checked as soon as they are.
    let permits = checked_permits(&of_permits, &quote_spanned!(mixed()=> (#permits, 1)));
    checked_permits(&of_weight, &quote_spanned!(mixed()=> (#permits.0, #weight)))
}

fn checked_permits(&(stage, place, _): &Value, permits: &TokenStream) -> TokenStream {
    let check = quote_spanned!(at(place)=> __redis_lock::check_permits(#permits));
    match stage {
        // An item, because `cargo check` does not evaluate an inline constant.
        Stage::Compilation => quote_spanned!(mixed()=> {
            const __PERMITS: (__redis_lock::std::primitive::u32, __redis_lock::std::primitive::u32) = #check;
            __PERMITS
        }),
        Stage::Instance => quote_spanned!(at(place)=> const { #check }),
        Stage::Expansion | Stage::Call => permits.clone(),
    }
}

fn value<K>(
    given: &Given<K>,
    ty: impl FnOnce(Span) -> TokenStream,
    known: impl FnOnce(&K) -> TokenStream,
) -> Value {
    let (stage, span, value) = match given {
        Given::Known(it) => return (Stage::Expansion, mixed(), known(it)),
        Given::Constant(path) => {
            let is_generic = may_name_generics(path);
            let stage = if is_generic {
                Stage::Instance
            } else {
                Stage::Compilation
            };
            (stage, path.span(), path.to_token_stream())
        }
        Given::Computed(value) => (Stage::Call, value.span(), value.to_token_stream()),
    };
    // With its type, so that rustc speaks of nothing else if it has another one. In a block: a temporary
    // value, such as a guard on a mutex, must be gone before the next.
    let ty = ty(at(span));
    let value = quote_spanned!(mixed()=> { let __value: #ty = #value; __value });
    (stage, span, value)
}

/// An expression of type `Options`, with what is known at that stage.
fn options(args: &Args, fields: &[Field], known: Stage) -> TokenStream {
    let values = fields.iter().map(|field| {
        let name = Ident::new(field.name, mixed());
        let given = field.given.as_ref().filter(|(stage, ..)| *stage <= known);
        let value = given.map_or(&field.otherwise, |(.., value)| value);
        quote_spanned!(mixed()=> #name: #value)
    });
    let [shared, reentrant, leader] = [args.shared, args.reentrant, args.leader];
    let fair = args.fair || leader;
    quote_spanned! {mixed()=>
        __redis_lock::Options {
            #(#values,)*
            shared: #shared,
            reentrant: #reentrant,
            fair: #fair,
            leader: #leader,
        }
    }
}
