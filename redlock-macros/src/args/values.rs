//! The values of arguments: what stands after `=`.

use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, ExprPath, Lit, LitStr, Path, Result, Token, bracketed, token};

use super::{rest_of_argument, starts_argument};
use crate::duration::Duration;
use crate::key::{self, Template};
use crate::tokens::{joined, ungrouped};

pub(super) fn duration(name: &Ident, input: ParseStream) -> Result<Duration> {
    let value = rest_of_argument(input)?;
    let text = value.to_string().to_lowercase();
    match text.trim_matches('"') {
        "forever" | "infinite" | "unlimited" | "inf" | "infinity" | "- 1" | "-1"
            if name == "wait" =>
        {
            let message = "`wait` takes a duration; for no limit, write `std::time::Duration::MAX`";
            Err(Error::new_spanned(value, message))
        }
        "forever" | "infinite" | "unlimited" if name == "max_hold" => {
            let message = "`max_hold` takes a duration; leave it out for no limit";
            Err(Error::new_spanned(value, message))
        }
        "true" | "yes" | "on" => {
            let message = format!("`{name}` takes a duration; write `{name} = 2s`");
            Err(Error::new_spanned(value, message))
        }
        "none" | "false" | "no" => {
            let message = format!("`{name}` takes a duration; leave it out for the default");
            Err(Error::new_spanned(value, message))
        }
        _ => Duration::parse(&name.to_string(), value),
    }
}

/// Whether it is a duration, in quotes or not.
pub(super) fn is_duration(literal: &Literal) -> bool {
    let text = literal.to_string();
    let tokens = text.trim_matches('"').parse().unwrap_or_default();
    Duration::parse("expire", tokens).is_ok_and(|it| it.known().is_some())
}

pub(super) fn renew_interval(name: &Ident, input: ParseStream) -> Result<Duration> {
    let value = rest_of_argument(input)?;
    match value.to_string().trim_matches('"') {
        "true" | "yes" | "on" | "auto" | "always" | "()" => Err(Error::new_spanned(
            value,
            "`renew` takes an interval or no value; write `renew`",
        )),
        "false" | "no" | "off" | "never" | "None" => Err(Error::new_spanned(
            value,
            "`renew` takes an interval; leave it out if the lock is not to be renewed",
        )),
        _ => Duration::parse(&name.to_string(), value),
    }
}

/// For a flag, which is given by its name alone.
pub(super) fn no_value(name: &Ident, input: ParseStream) -> Result<()> {
    let value = rest_of_argument(input)?;
    let tokens: Vec<TokenTree> = value.clone().into_iter().collect();
    let message = match joined(&tokens).trim_start_matches(['=', ' ']) {
        "" if tokens.is_empty() => return Ok(()),
        "false" | "no" | "off" | "never" | "(false)" => {
            format!("`{name}` takes no value; leave it out if the lock is not to be {name}")
        }
        _ => format!("`{name}` takes no value; write `{name}`"),
    };
    Err(Error::new_spanned(value, message))
}

/// As in the runtime.
const MOST_KEYS: usize = 16;

/// One string, or a list of them.
pub(super) fn keys(input: ParseStream) -> Result<Vec<Template>> {
    if !input.peek(token::Bracket) {
        return Ok(vec![key(input)?]);
    }
    let list;
    let brackets = bracketed!(list in input);
    list_of_keys(&list, brackets.span.join()).inspect_err(|_| {
        // What is left over would be a mistake of its own.
        let _ = list.parse::<TokenStream>();
    })
}

fn list_of_keys(list: ParseStream, place: Span) -> Result<Vec<Template>> {
    let mut keys: Vec<Template> = Vec::new();
    while !list.is_empty() {
        if list.peek(LitStr) && list.peek2(LitStr) {
            list.parse::<LitStr>()?;
            return Err(list.error("expected `,` before this key"));
        }
        let key = key(list)?;
        let text = key.written();
        if keys.iter().any(|other| other.written() == text) {
            let message = format!("`{text}` is in the list twice; every key is locked once");
            return Err(Error::new(key.span(), message));
        }
        keys.push(key);
        if !list.is_empty() {
            list.parse::<Token![,]>()?;
        }
    }
    match keys.len() {
        0 => Err(Error::new(place, "the list of keys is empty")),
        1..=MOST_KEYS => Ok(keys),
        _ => {
            let message = format!("a lock has at most {MOST_KEYS} keys");
            Err(Error::new(place, message))
        }
    }
}

fn key(input: ParseStream) -> Result<Template> {
    let value = rest_of_argument(input)?;
    let Ok(Lit::Str(literal)) = syn::parse2::<Lit>(value.clone()) else {
        return Err(Error::new_spanned(&value, not_a_key(&value)));
    };
    if let Some(inlined) = inlined(&literal.token(), input) {
        let message = format!("the key names its values where they stand; write `key = {inlined}`");
        return Err(Error::new(literal.span(), message));
    }
    Template::parse(literal)
}

/// `"order:{id}"` for `"order:{}", id`, of which the literal has been read. Nothing is taken where
/// the literal has no place for it.
pub(super) fn inlined(literal: &Literal, input: ParseStream) -> Option<String> {
    let text = syn::parse2::<LitStr>(TokenTree::from(literal.clone()).into())
        .ok()?
        .value();
    let mut values = Vec::new();
    while values.len() < key::positions(&text) && input.peek(Token![,]) {
        let ahead = input.fork();
        ahead.parse::<Token![,]>().ok()?;
        if ahead.is_empty() || starts_argument(&ahead) || is_renew(&ahead) {
            break;
        }
        input.parse::<Token![,]>().ok()?;
        let value: Vec<TokenTree> = rest_of_argument(input).ok()?.into_iter().collect();
        values.push(joined(&value));
    }
    key::inlined(&text, &values)
}

fn is_renew(input: ParseStream) -> bool {
    input
        .fork()
        .parse::<Ident>()
        .is_ok_and(|name| name == "renew")
}

/// For a key that is no string.
fn not_a_key(value: &TokenStream) -> String {
    let tokens: Vec<TokenTree> = ungrouped(value.clone()).into_iter().collect();
    let text = joined(&tokens);
    let is_bar = |tree: &TokenTree| matches!(tree, TokenTree::Punct(bar) if bar.as_char() == '|');
    if tokens.first().is_some_and(is_bar)
        && let Some(body) = tokens.iter().skip(1).position(is_bar)
    {
        return not_a_key(&tokens[body + 2..].iter().cloned().collect());
    }
    let remedy = match tokens.as_slice() {
        // `"order:%s" % id`
        [
            TokenTree::Literal(literal),
            TokenTree::Punct(percent),
            TokenTree::Ident(name),
        ] if percent.as_char() == '%' => {
            let place = ["%s", "%d"].into_iter().find(|it| text.contains(it));
            let in_braces = format!("{{{name}}}");
            place.and_then(|place| string(literal).map(|key| key.replacen(place, &in_braces, 1)))
        }
        // `&"order"`, and the `f"order:{id}"` of another language.
        [
            TokenTree::Punct(_) | TokenTree::Ident(_),
            TokenTree::Literal(literal),
        ] => Some(literal.to_string()).filter(|text| text.starts_with('"')),
        [TokenTree::Group(group)] => format_arguments(group.stream()),
        [
            TokenTree::Ident(name),
            TokenTree::Punct(_),
            TokenTree::Group(group),
        ] if ["format", "format_args"].iter().any(|known| name == known) => {
            format_arguments(group.stream())
        }
        [TokenTree::Literal(literal)] => Some(format!("{:?}", unquoted(literal))),
        [TokenTree::Literal(literal), TokenTree::Punct(dot), ..] if dot.as_char() == '.' => {
            string(literal)
        }
        // `String::from("order")`
        [.., TokenTree::Ident(_), TokenTree::Group(group)]
            if group.delimiter() == Delimiter::Parenthesis
                && matches!(
                    group.stream().into_iter().next(),
                    Some(TokenTree::Literal(_))
                )
                && group.stream().into_iter().count() == 1
                && tokens.len() > 2 =>
        {
            format_arguments(group.stream())
        }
        _ => named(&text)
            .or_else(|| sum(&tokens))
            .or_else(|| in_quotes(&tokens)),
    };
    match remedy {
        Some(remedy) => format!("the key is one string literal; write `key = {remedy}`"),
        None => "the key is one string literal; for one that is computed, use \
                 `redlock.lock(key).hold(..)` instead of the attribute"
            .to_owned(),
    }
}

fn string(literal: &Literal) -> Option<String> {
    Some(literal.to_string()).filter(|text| text.starts_with('"'))
}

/// `"{order.id}"` for `order.id`, and `"{KEY}"` for `config::KEY`.
fn named(text: &str) -> Option<String> {
    let text = text
        .trim_start_matches(['&', '*'])
        .trim_start_matches("mut ");
    let name = match syn::parse_str::<ExprPath>(text) {
        Ok(path) => path.path.segments.last()?.ident.to_string(),
        Err(_) => text.to_owned(),
    };
    key::inlined("{}", &[name])
}

/// `"order:{id}"` for `"order:" + id`, and for `concat!("order:", id)`.
fn sum(tokens: &[TokenTree]) -> Option<String> {
    let inside;
    let (terms, operator) = match tokens {
        [
            TokenTree::Ident(name),
            TokenTree::Punct(_),
            TokenTree::Group(group),
        ] if name == "concat" => {
            inside = group.stream().into_iter().collect::<Vec<_>>();
            (inside.as_slice(), ',')
        }
        _ => (tokens, '+'),
    };
    let is_operator =
        |tree: &TokenTree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == operator);
    let mut split: Vec<&[TokenTree]> = terms.split(is_operator).collect();
    let has_parts = |tree: &TokenTree| !matches!(tree, TokenTree::Literal(_) | TokenTree::Ident(_));
    if split.len() == 1 && !terms.iter().any(has_parts) {
        // `"order:" id`
        split = terms.chunks(1).collect();
    }
    let mut key = String::new();
    for term in split {
        let text = joined(term);
        match syn::parse_str::<LitStr>(&text) {
            Ok(literal) => key.push_str(&literal.value()),
            Err(_) => key.push_str(&format!("{{{}}}", text.trim_start_matches('&'))),
        }
    }
    let key = LitStr::new(&key, Span::call_site());
    let quoted = key.token().to_string();
    let has_literal = terms.iter().any(|it| matches!(it, TokenTree::Literal(_)));
    (has_literal && Template::parse(key).is_ok()).then_some(quoted)
}

/// `"order:{id}"` for `order:{id}`.
fn in_quotes(tokens: &[TokenTree]) -> Option<String> {
    let is_part = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Ident(_) => true,
        TokenTree::Punct(mark) => ":-/_.".contains(mark.as_char()),
        TokenTree::Literal(_) => false,
    };
    let text: TokenStream = tokens.iter().cloned().collect();
    let text = text.to_string().replace(' ', "");
    (tokens.iter().all(is_part) && text.contains('{')).then(|| format!("\"{text}\""))
}

/// The literal for `"order:{}", id` and `"order:{id}"`.
fn format_arguments(tokens: TokenStream) -> Option<String> {
    let read = |input: ParseStream| {
        let literal: LitStr = input.parse()?;
        let is_alone = input.is_empty();
        let inlined = inlined(&literal.token(), input);
        input.parse::<TokenStream>()?;
        let as_it_is = is_alone.then(|| literal.token().to_string());
        Ok(inlined.or(as_it_is))
    };
    read.parse2(tokens).ok()?
}

/// The characters of `b"order"`, `'o'` or `5`.
fn unquoted(literal: &Literal) -> String {
    match Lit::new(literal.clone()) {
        Lit::ByteStr(bytes) => String::from_utf8_lossy(&bytes.value()).into_owned(),
        Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
        Lit::Char(character) => character.value().to_string(),
        _ => literal.to_string(),
    }
}

/// The function that `on_error` takes. What is a value for sure gets its closure.
pub(super) fn handler(name: &Ident, input: ParseStream) -> Result<Expr> {
    let start = input.cursor();
    let handler = expression(name, input)?;
    let written = || {
        let mut value = Vec::new();
        let mut cursor = start;
        while let Some((tree, next)) = cursor.token_tree().filter(|_| cursor != input.cursor()) {
            value.push(tree);
            cursor = next;
        }
        joined(&value)
    };
    let waits = match &handler {
        Expr::Closure(closure) => {
            closure.asyncness.is_some() || matches!(*closure.body, Expr::Async(_))
        }
        handler => matches!(handler, Expr::Async(_)),
    };
    if waits {
        let message = "`on_error` cannot wait; return the error and handle it in the caller";
        return Err(Error::new_spanned(handler, message));
    }
    let remedy = match &handler {
        Expr::Closure(closure) if closure.inputs.len() == 1 => return Ok(handler),
        Expr::Closure(closure) => match closure.inputs.first() {
            Some(_) => "|error| ..".to_owned(),
            None => {
                let text = written();
                format!(
                    "|_|{}",
                    text.split_once('|')
                        .and_then(|(_, rest)| rest.split_once('|'))
                        .map_or("", |(_, rest)| rest)
                )
            }
        },
        _ if is_value(&handler) => format!("|_| {}", written()),
        _ => return Ok(handler),
    };
    let message = format!("`on_error` takes a function of the error; write `on_error = {remedy}`");
    Err(Error::new_spanned(handler, message))
}

const PANICS: [&str; 5] = ["panic", "todo", "unimplemented", "unreachable", "format"];

fn is_value(expression: &Expr) -> bool {
    let is = |path: &Expr, names: &[&str]| match path {
        Expr::Path(path) => names.iter().any(|name| path.path.is_ident(name)),
        _ => false,
    };
    match expression {
        Expr::Macro(it) => PANICS.iter().any(|name| it.mac.path.is_ident(name)),
        Expr::Return(_)
        | Expr::Lit(_)
        | Expr::Tuple(_)
        | Expr::Array(_)
        | Expr::Unary(_)
        | Expr::Struct(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) if path.path.segments.len() == 2 => {
                path.path.segments[1].ident == "default"
            }
            function => is(function, &["Ok", "Err", "Some"]),
        },
        other => is(other, &["None"]),
    }
}

pub(super) fn lease_name(input: ParseStream) -> Result<Ident> {
    let value = rest_of_argument(input)?;
    syn::parse2(value.clone()).map_err(|_| {
        let mut message =
            "`lease` takes a name for the body to use; write `lease = lease`".to_owned();
        if value
            .to_string()
            .starts_with(|first: char| first.is_ascii_digit())
        {
            message.push_str(&format!(
                ", or `expire = {value}` for how long the lease is"
            ));
        }
        Error::new_spanned(value, message)
    })
}

pub(super) fn label(input: ParseStream) -> Result<LitStr> {
    let value = rest_of_argument(input)?;
    match syn::parse2::<LitStr>(value.clone()) {
        Ok(label) if label.value().contains('{') => {
            let message = "`name` is one text for all calls; placeholders are for the key";
            Err(Error::new_spanned(value, message))
        }
        Ok(label) if !label.value().is_empty() => Ok(label),
        _ => {
            let name = syn::parse2::<Ident>(value.clone()).map(|name| name.to_string());
            let name = name.as_deref().unwrap_or("orders");
            let message =
                format!("`name` takes a string that is not empty; write `name = \"{name}\"`");
            Err(Error::new_spanned(value, message))
        }
    }
}

pub(super) fn crate_path(input: ParseStream) -> Result<Path> {
    let value = rest_of_argument(input)?;
    Path::parse_mod_style.parse2(value.clone()).map_err(|_| {
        let message = "`crate` takes a path; write `crate = ::redlock_runtime`";
        Error::new_spanned(value, message)
    })
}

/// An expression may have commas and `=` of its own, so only its parser knows where it ends.
pub(super) fn expression(name: &Ident, input: ParseStream) -> Result<Expr> {
    input.parse().map_err(|mistake| {
        if input.is_empty() {
            // The parser points behind the last token, which is the whole attribute.
            Error::new(name.span(), format!("the value of `{name}` is incomplete"))
        } else {
            mistake
        }
    })
}
