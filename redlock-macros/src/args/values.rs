//! The values of arguments: what stands after `=`.

use std::{fmt::Display, ops::RangeInclusive};

use proc_macro2::{Ident, Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Lit, LitInt, LitStr, Path, Result, Token, bracketed, parenthesized, token};

use super::{ARGUMENTS, rest_of_argument};
use crate::given::Given;
use crate::key::{Kind, Template};
use crate::suggest;
use crate::tokens::ungrouped;

fn rest(input: ParseStream) -> Result<TokenStream> {
    Ok(rest_of_argument(input)?.into_iter().collect())
}

/// As in the runtime.
const PERMITS: RangeInclusive<u32> = 1..=1_024;

pub(crate) const WEIGHT: &str = "`weight` must be at least 1, and at most `permits`";

/// How many there are, or are taken at once.
pub(super) fn count(
    name: impl Display,
    input: ParseStream,
    arguments: &[String],
) -> Result<Given<u32>> {
    let value = rest(input)?;
    if let Some(given) = Given::parse(value.clone(), arguments) {
        return given;
    }
    let literal = syn::parse2::<LitInt>(ungrouped(value.clone()));
    let literal = literal.ok().filter(|it| ["", "u32"].contains(&it.suffix()));
    let message = match literal.map(|literal| literal.base10_parse::<u32>()) {
        Some(Ok(count)) if PERMITS.contains(&count) => return Ok(Given::Known(count)),
        Some(_) if name.to_string() == "weight" => WEIGHT.to_owned(),
        Some(_) => format!(
            "a lock has {} to {} permits",
            PERMITS.start(),
            PERMITS.end()
        ),
        None => format!(
            "`{name}` takes a number such as `3`, the path of a constant, or an argument with its \
             fields and methods"
        ),
    };
    Err(Error::new_spanned(value, message))
}

/// For a flag, which is given by its name alone.
pub(super) fn no_value(name: &Ident, input: ParseStream) -> Result<()> {
    if super::starts_argument(input) {
        return Ok(());
    }
    let value = rest_of_argument(input)?;
    if value.is_empty() {
        return Ok(());
    }
    let value: TokenStream = value.into_iter().collect();
    let message = format!("`{name}` takes no value; write `{name}`, or leave it out");
    Err(Error::new_spanned(value, message))
}

/// As in the runtime.
const MOST_KEYS: usize = 16;

syn::custom_keyword!(weight);

/// Of a key in a list.
const MODES: [&str; 2] = ["shared", "permits"];

fn mode(input: ParseStream) -> Option<&'static str> {
    let word: Ident = input.fork().parse().ok()?;
    MODES.into_iter().find(|mode| word == mode)
}

/// One string, or a list of them.
pub(super) fn keys(input: ParseStream, arguments: &[String]) -> Result<Vec<Template>> {
    if let Some(mode) = mode(input).filter(|_| input.peek2(token::Paren)) {
        let example = ARGUMENTS.iter().find(|(name, ..)| *name == mode);
        let example = example.map_or(mode, |(_, example)| example);
        return Err(input.error(format!(
            "`{mode}(..)` stands in a list; with one key, write `key = \"..\", {example}`"
        )));
    }
    if !input.peek(token::Bracket) {
        return Ok(vec![key(input)?]);
    }
    let list;
    let brackets = bracketed!(list in input);
    list_of_keys(&list, brackets.span.join(), arguments).inspect_err(|_| leave_out(&list))
}

/// What is left over would be a mistake of its own.
fn leave_out(rest: ParseStream) {
    let _ = rest.parse::<TokenStream>();
}

fn list_of_keys(list: ParseStream, place: Span, arguments: &[String]) -> Result<Vec<Template>> {
    let mut keys: Vec<Template> = Vec::new();
    while !list.is_empty() {
        let key = member(list, arguments)?;
        let text = key.written();
        if keys.iter().any(|other| other.written() == text) {
            let message = format!("`{text}` is in the list twice; every key is locked once");
            return Err(Error::new(key.span(), message));
        }
        keys.push(key);
        if !list.is_empty() && list.parse::<Token![,]>().is_err() {
            return Err(list.error(format!("expected `,`; {MEMBER}")));
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

const MEMBER: &str = "a key of a list is `\"..\"`, `shared(\"..\")`, `permits(\"..\", 3)` or \
                      `permits(\"..\", 3, weight = 2)`";

fn member(list: ParseStream, arguments: &[String]) -> Result<Template> {
    if list.peek(LitStr) {
        return Template::parse(list.parse()?);
    }
    let mode = mode(list);
    if mode.is_none() && !(list.peek(syn::Ident) && list.peek2(token::Paren)) {
        return key(list);
    }
    let word: Ident = list.parse()?;
    let content;
    parenthesized!(content in list);
    of_mode(&word, mode, &content, arguments).inspect_err(|_| leave_out(&content))
}

/// `content` is what `word` has in its parentheses.
fn of_mode(
    word: &Ident,
    mode: Option<&str>,
    content: ParseStream,
    arguments: &[String],
) -> Result<Template> {
    let wrong = || Err(Error::new(word.span(), MEMBER));
    if mode.is_none()
        && let Some(mode) = suggest::closest(&word.to_string(), MODES)
    {
        let message = format!("did you mean `{mode}`?");
        return Err(Error::new(word.span(), message));
    }
    if mode.is_none() || content.is_empty() || content.peek(Lit) && !content.peek(LitStr) {
        return wrong();
    }
    let mut key = key(content)?;
    key.kind = Kind::Shared;
    let more = content.parse::<Option<Token![,]>>()?;
    if mode == Some("permits") {
        if more.is_none() || content.is_empty() {
            return wrong();
        }
        let permits = count("permits", content, arguments)?;
        let more = content.parse::<Option<Token![,]>>()?.is_some();
        let mut weight = Given::Known(1);
        if more && content.peek(self::weight) {
            let name: Ident = content.parse()?;
            super::equals(&name, "weight = 2", content)?;
            weight = count(name, content, arguments)?;
            content.parse::<Option<Token![,]>>()?;
        }
        key.kind = Kind::Permits(Box::new((permits, weight)));
    }
    if content.is_empty() { Ok(key) } else { wrong() }
}

fn key(input: ParseStream) -> Result<Template> {
    let value = rest(input)?;
    if let Ok(Lit::Str(literal)) = syn::parse2::<Lit>(value.clone()) {
        return Template::parse(literal);
    }
    let message = "the key is one string literal, with arguments in braces, such as `\"order:{id}\"`; \
                   for one that is computed, use `redlock.lock(key).hold(..)` instead of the attribute";
    Err(Error::new_spanned(value, message))
}

pub(super) fn lease_name(input: ParseStream) -> Result<Ident> {
    let value = rest(input)?;
    syn::parse2(value.clone()).map_err(|_| {
        let message = "`lease` takes a name for the body to use, as in `lease = lease`; \
                       `expire` says how long it lasts";
        Error::new_spanned(value, message)
    })
}

pub(super) fn label(input: ParseStream) -> Result<LitStr> {
    let value = rest(input)?;
    match syn::parse2::<LitStr>(value.clone()) {
        Ok(label) if !label.value().is_empty() && !label.value().contains('{') => Ok(label),
        _ => {
            let message = "`name` takes one text for all calls, as in `name = \"orders\"`";
            Err(Error::new_spanned(value, message))
        }
    }
}

pub(super) fn crate_path(input: ParseStream) -> Result<Path> {
    let value = rest(input)?;
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
