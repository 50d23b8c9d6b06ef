//! The arguments in `#[redis_lock(...)]`, one by one; what they mean together is for `check`.

use proc_macro2::{Delimiter, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, LitStr, Path, Result, Token};

use crate::duration::Duration;
use crate::key::Template;
use crate::mistakes::Mistakes;
use crate::tokens::{joined, ungrouped};

mod permits;
mod values;
mod words;

pub(crate) use self::permits::Permits;
pub(crate) use self::words::ARGUMENTS;
use self::words::{several_keys, unknown};

/// What the user wrote. Without a mistake, `keys` are there.
#[derive(Default)]
pub(crate) struct Args {
    /// One or more.
    pub(crate) keys: Option<Vec<Template>>,
    pub(crate) expire: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: Option<Renew>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) shared: bool,
    pub(crate) permits: Option<Permits>,
    pub(crate) reentrant: bool,
    pub(crate) fair: bool,
    pub(crate) lease: Option<Ident>,
    pub(crate) name: Option<LitStr>,
    pub(crate) when_held: Option<Expr>,
    pub(crate) on_error: Option<Expr>,
    pub(crate) via: Option<Expr>,
    pub(crate) krate: Option<Path>,
    /// The names that were given, with or without a correct value.
    given: Vec<Ident>,
    /// What names that are unknown seem to mean.
    meant: Vec<&'static str>,
}

pub(crate) enum Renew {
    Default,
    Every(Duration),
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut args = Self::default();
        let parsed = (|input: ParseStream| args.parse_all(input, mistakes)).parse2(tokens);
        mistakes.keep(parsed);
        args
    }

    /// The place where `name` was given.
    pub(crate) fn given(&self, name: &str) -> Option<Span> {
        self.given
            .iter()
            .find(|ident| *ident == name)
            .map(Ident::span)
    }

    /// Whether `name` was given, if only by a name that is similar.
    pub(crate) fn intended(&self, name: &str) -> bool {
        self.given(name).is_some() || self.meant.contains(&name)
    }

    /// For a body that cannot be stopped when its lease ends.
    pub(crate) fn renew_by_default(&mut self) {
        if self.given("renew").is_none() {
            self.renew = Some(Renew::Default);
            self.meant.push("renew");
        }
    }

    pub(crate) fn durations(&self) -> impl Iterator<Item = &Duration> {
        let durations = [
            self.expire.as_ref(),
            self.wait.as_ref(),
            self.renew.as_ref().and_then(Renew::interval),
            self.max_hold.as_ref(),
            self.at_least.as_ref(),
        ];
        durations.into_iter().flatten()
    }

    fn parse_all(&mut self, input: ParseStream, mistakes: &mut Mistakes) -> Result<()> {
        while !input.is_empty() {
            if let Err(mistake) = self.parse_one(input) {
                mistakes.add(mistake);
                rest_of_argument(input)?;
            }
            if let Err(mistake) = separator(input) {
                mistakes.add(mistake);
            }
        }
        Ok(())
    }

    fn parse_one(&mut self, input: ParseStream) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(self.nameless(input));
        }
        let name = input.call(Ident::parse_any)?;
        let text = name.to_string();
        let Some((known, example)) = ARGUMENTS.iter().find(|(known, _)| *known == text) else {
            if let Some(mistake) = self.value_by_name(&name, input) {
                return Err(mistake);
            }
            let is_value = ends_argument(input);
            let (mistake, meant) = unknown(&name, is_value, |known| self.given(known).is_some());
            self.meant.extend(meant);
            return Err(mistake);
        };
        if self.given(known).is_some() {
            let mut message = format!("`{known}` is given twice");
            if *known == "key" {
                message = several_keys(&message);
            }
            return Err(Error::new(name.span(), message));
        }
        self.given.push(name.clone());
        if *known == "renew" && ends_argument(input) {
            self.renew = Some(Renew::Default);
            return Ok(());
        }
        if let Some(word) = self.word(known) {
            *word = true;
            return values::no_value(&name, input);
        }
        let is_given = input.peek(Token![=]) && !input.peek(Token![==]) && !input.peek(Token![=>]);
        if !is_given {
            return Err(without_value(&name, example, input));
        }
        input.parse::<Token![=]>()?;
        if ends_argument(input) {
            return Err(without_value(&name, example, input));
        }
        self.parse_value(&name, input)
    }

    /// An argument that has no value.
    fn word(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "shared" => Some(&mut self.shared),
            "reentrant" => Some(&mut self.reentrant),
            "fair" => Some(&mut self.fair),
            _ => None,
        }
    }

    /// The mistake `key = "order:{x}", x = order.id`.
    fn value_by_name(&self, name: &Ident, input: ParseStream) -> Option<Error> {
        let mut placeholders = self.keys.iter().flatten().flat_map(Template::placeholders);
        let is_in_key = placeholders.any(|it| *name == it.root());
        if !is_in_key || !input.peek(Token![=]) {
            return None;
        }
        input.parse::<Token![=]>().ok()?;
        let value: Vec<TokenTree> = rest_of_argument(input).ok()?.into_iter().collect();
        let message = format!(
            "the key names its values where they stand; write `{{{}}}` in place of `{{{name}}}`",
            joined(&value)
        );
        Some(Error::new(name.span(), message))
    }

    fn parse_value(&mut self, name: &Ident, input: ParseStream) -> Result<()> {
        match name.to_string().as_str() {
            "key" => self.keys = Some(values::keys(input)?),
            "expire" => self.expire = Some(values::duration(name, input)?),
            "wait" => self.wait = Some(values::duration(name, input)?),
            "renew" => self.renew = Some(Renew::Every(values::renew_interval(name, input)?)),
            "max_hold" => self.max_hold = Some(values::duration(name, input)?),
            "at_least" => self.at_least = Some(values::duration(name, input)?),
            "permits" => self.permits = Some(permits::permits(input)?),
            "lease" => self.lease = Some(values::lease_name(input)?),
            "name" => self.name = Some(values::label(input)?),
            "when_held" => self.when_held = Some(values::expression(name, input)?),
            "on_error" => self.on_error = Some(values::handler(name, input)?),
            "via" => self.via = Some(values::expression(name, input)?),
            "crate" => self.krate = Some(values::crate_path(input)?),
            _ => unreachable!("`{name}` is not in ARGUMENTS"),
        }
        Ok(())
    }

    /// The mistake at something that is no name. A string is most likely the key.
    fn nameless(&mut self, input: ParseStream) -> Error {
        if input.peek(Token![,]) {
            return input.error("remove this `,`");
        }
        if input.peek(syn::token::Brace) || input.peek(syn::token::Paren) {
            self.meant.push("key");
            return input
                .error("the arguments stand in the attribute's own parentheses; remove these");
        }
        if let Some(mistake) = marked_name(input) {
            return mistake;
        }
        let literal = match ungrouped_literal(input) {
            Some(literal) if values::is_duration(&literal) => {
                let text = literal.to_string();
                let text = text.trim_matches('"');
                let message =
                    format!("a duration needs a name; write `expire = {text}`, or `wait = {text}`");
                return Error::new(literal.span(), message);
            }
            Some(literal) if literal.to_string().starts_with(['"', 'r']) => literal,
            _ => {
                return input
                    .error("expected the name of an argument, such as `key = \"order:{id}\"`");
            }
        };
        if input.peek2(Token![=]) {
            let text = literal.to_string();
            let name = text.trim_matches('"');
            let known = ARGUMENTS.iter().find(|(known, _)| *known == name);
            self.meant.extend(known.map(|(known, _)| known));
            let message = format!("the name of an argument has no quotes; write `{name} = ..`");
            return Error::new(literal.span(), message);
        }
        if self.given("key").is_some() {
            let message = format!("`{literal}` has no name; the key is given already");
            return Error::new(literal.span(), message);
        }
        self.given.push(Ident::new("key", literal.span()));
        // Not read yet, so there is one.
        let _ = input.parse::<TokenTree>();
        let written = values::inlined(&literal, input).unwrap_or_else(|| literal.to_string());
        let message = format!("the key is a named argument; write `key = {written}`");
        Error::new(literal.span(), message)
    }
}

impl Renew {
    pub(crate) fn interval(&self) -> Option<&Duration> {
        match self {
            Self::Default => None,
            Self::Every(interval) => Some(interval),
        }
    }
}

/// The mistakes `!renew` and `--expire 5s`.
fn marked_name(input: ParseStream) -> Option<Error> {
    let ahead = input.fork();
    let mark: Punct = ahead.parse().ok()?;
    while ahead.parse::<Punct>().is_ok() {}
    let name = ahead.call(Ident::parse_any).ok()?;
    let (known, example) = ARGUMENTS.iter().find(|(known, _)| name == known)?;
    let message = match mark.as_char() {
        '!' => format!("to do without `{known}`, leave it out"),
        _ => format!("an argument begins with its name; write `{example}`"),
    };
    Some(Error::new(mark.span(), message))
}

fn ungrouped_literal(input: ParseStream) -> Option<Literal> {
    let tree = input.fork().parse::<TokenTree>().ok()?;
    match ungrouped(TokenStream::from(tree)).into_iter().next()? {
        TokenTree::Literal(literal) => Some(literal),
        _ => None,
    }
}

/// The mistakes `expire`, `expire: 5s`, `expire(5s)` and `expire 5s`. The remedy has the user's value.
fn without_value(name: &Ident, example: &str, input: ParseStream) -> Error {
    while !ends_argument(input)
        && let Ok(punct) = input.parse::<Punct>()
    {
        if punct.spacing() == Spacing::Alone {
            break;
        }
    }
    let value: Vec<TokenTree> = rest_of_argument(input).into_iter().flatten().collect();
    let value = match value.as_slice() {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
            group.stream().into_iter().collect()
        }
        _ => value,
    };
    let message = match joined(&value) {
        value if value.is_empty() && name == "renew" => {
            format!("write `renew` alone, or `{example}`")
        }
        value if value.is_empty() || value.contains('=') => {
            format!("`{name}` needs a value; write `{example}`")
        }
        value => format!("`{name}` takes its value after `=`; write `{name} = {value}`"),
    };
    Error::new(name.span(), message)
}

fn separator(input: ParseStream) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    if input.peek(Token![,]) {
        return input.parse::<Token![,]>().map(drop);
    }
    if input.peek(Token![;]) {
        let wrong: Token![;] = input.parse()?;
        let message = match input.is_empty() {
            true => "remove the `;` after the last argument",
            false => "arguments are separated by `,`; write it in place of `;`",
        };
        return Err(Error::new(wrong.span, message));
    }
    let next: TokenTree = input.fork().parse()?;
    if !starts_argument(input) {
        rest_of_argument(input)?;
        input.parse::<Option<Token![,]>>()?;
    }
    Err(Error::new(
        next.span(),
        format!("expected `,` before `{next}`"),
    ))
}

fn ends_argument(input: ParseStream) -> bool {
    input.is_empty() || input.peek(Token![,]) || input.peek(Token![;])
}

/// Whether a value ends here although no comma does: the next tokens are `name =`.
fn starts_argument(input: ParseStream) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

/// Takes the tokens up to the comma, or to the next argument if the comma was forgotten.
fn rest_of_argument(input: ParseStream) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !ends_argument(input) && (tokens.is_empty() || !starts_argument(input)) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
