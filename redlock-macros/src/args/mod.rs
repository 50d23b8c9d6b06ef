//! The arguments in `#[redis_lock(...)]`, one by one; what they mean together is for `check`.

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Lit, LitStr, Path, Result, Token};

use crate::duration::Duration;
use crate::key::Template;
use crate::mistakes::Mistakes;
use crate::suggest;
use crate::tokens::ungrouped;

/// Every argument there is, with an example.
pub(crate) const ARGUMENTS: [(&str, &str); 11] = [
    ("key", "key = \"order:{id}\""),
    ("expire", "expire = 5s"),
    ("wait", "wait = 2s"),
    ("renew", "renew = 1s"),
    ("max_hold", "max_hold = 1m"),
    ("lease", "lease = lease"),
    ("name", "name = \"orders\""),
    ("when_held", "when_held = Ok(())"),
    ("on_error", "on_error = |error| Err(error.into())"),
    ("via", "via = self.redlock"),
    ("crate", "crate = ::redlock_runtime"),
];

/// Words that other lock libraries use, and ours for the same.
const SYNONYMS: [(&str, &str); 17] = [
    ("id", "key"),
    ("resource", "key"),
    ("duration", "expire"),
    ("expiry", "expire"),
    ("ttl", "expire"),
    ("retry", "wait"),
    ("timeout", "wait"),
    ("extend", "renew"),
    ("watchdog", "renew"),
    ("guard", "lease"),
    ("label", "name"),
    ("held", "when_held"),
    ("if_held", "when_held"),
    ("skip", "when_held"),
    ("map_err", "on_error"),
    ("redlock", "via"),
    ("krate", "crate"),
];

/// What the user wrote. Without a mistake, `key` is there.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Template>,
    pub(crate) expire: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: Option<Renew>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) lease: Option<Ident>,
    pub(crate) name: Option<LitStr>,
    pub(crate) when_held: Option<Expr>,
    pub(crate) on_error: Option<Expr>,
    pub(crate) via: Option<Expr>,
    pub(crate) krate: Option<Path>,
    /// The names that were given, with or without a correct value.
    given: Vec<Ident>,
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

    pub(crate) fn durations(&self) -> impl Iterator<Item = &Duration> {
        let given = [
            self.expire.as_ref(),
            self.wait.as_ref(),
            self.renew.as_ref().and_then(Renew::interval),
            self.max_hold.as_ref(),
        ];
        given.into_iter().flatten()
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
            return Err(unknown(&name));
        };
        if self.given(known).is_some() {
            return Err(Error::new(name.span(), format!("`{known}` is given twice")));
        }
        self.given.push(name.clone());
        if *known == "renew" && (input.is_empty() || input.peek(Token![,])) {
            self.renew = Some(Renew::Default);
            return Ok(());
        }
        if !input.peek(Token![=]) {
            return Err(without_value(&name, example, input));
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            return Err(without_value(&name, example, input));
        }
        self.parse_value(&name, input)
    }

    fn parse_value(&mut self, name: &Ident, input: ParseStream) -> Result<()> {
        match name.to_string().as_str() {
            "key" => self.key = Some(Template::parse(key_literal(input)?)?),
            "expire" => self.expire = Some(duration(name, input)?),
            "wait" => self.wait = Some(duration(name, input)?),
            "renew" => self.renew = Some(Renew::Every(renew_interval(name, input)?)),
            "max_hold" => self.max_hold = Some(duration(name, input)?),
            "lease" => self.lease = Some(lease_name(input)?),
            "name" => self.name = Some(label(input)?),
            "when_held" => self.when_held = Some(expression(name, input)?),
            "on_error" => self.on_error = Some(expression(name, input)?),
            "via" => self.via = Some(expression(name, input)?),
            "crate" => self.krate = Some(crate_path(input)?),
            _ => unreachable!("`{name}` is not in ARGUMENTS"),
        }
        Ok(())
    }

    /// The mistake at something that is no name. A string is most likely the key.
    fn nameless(&mut self, input: ParseStream) -> Error {
        match ungrouped_literal(input) {
            Some(literal) if literal.to_string().starts_with(['"', 'r']) => {
                self.given.push(Ident::new("key", literal.span()));
                let message = format!("the key is a named argument; write `key = {literal}`");
                Error::new(literal.span(), message)
            }
            _ => input.error("expected the name of an argument, such as `key = \"order:{id}\"`"),
        }
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

fn ungrouped_literal(input: ParseStream) -> Option<Literal> {
    let tree = input.fork().parse::<TokenTree>().ok()?;
    match ungrouped(TokenStream::from(tree)).into_iter().next()? {
        TokenTree::Literal(literal) => Some(literal),
        _ => None,
    }
}

fn unknown(name: &Ident) -> Error {
    let text = name.to_string();
    let names = ARGUMENTS.map(|(known, _)| known);
    let synonym = SYNONYMS
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, known)| *known);
    let message = match synonym.or_else(|| suggest::closest(&text, names)) {
        Some(known) => format!("unknown argument `{text}`; did you mean `{known}`?"),
        None => format!(
            "unknown argument `{text}`; the arguments are {}",
            suggest::list(names)
        ),
    };
    Error::new(name.span(), message)
}

/// The mistakes `expire`, `expire: 5s` and `expire(5s)`.
fn without_value(name: &Ident, example: &str, input: ParseStream) -> Error {
    let message = if input.peek(Token![:]) || input.peek(syn::token::Paren) {
        format!("`{name}` takes its value after `=`; write `{example}`")
    } else {
        format!("`{name}` needs a value; write `{example}`")
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

/// Whether a value ends here although no comma does: the next tokens are `name =`.
fn starts_argument(input: ParseStream) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

/// Takes the tokens up to the comma, or to the next argument if the comma was forgotten.
fn rest_of_argument(input: ParseStream) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty()
        && !input.peek(Token![,])
        && (tokens.is_empty() || !starts_argument(input))
    {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    Ok(tokens)
}

fn duration(name: &Ident, input: ParseStream) -> Result<Duration> {
    Duration::parse(&name.to_string(), rest_of_argument(input)?)
}

fn renew_interval(name: &Ident, input: ParseStream) -> Result<Duration> {
    let value = rest_of_argument(input)?;
    match value.to_string().as_str() {
        "true" => Err(Error::new_spanned(
            value,
            "`renew` takes an interval or no value; write `renew`",
        )),
        "false" => Err(Error::new_spanned(
            value,
            "`renew` takes an interval; leave it out if the lock is not to be renewed",
        )),
        _ => Duration::parse(&name.to_string(), value),
    }
}

fn key_literal(input: ParseStream) -> Result<LitStr> {
    let value = rest_of_argument(input)?;
    match syn::parse2::<Lit>(value.clone()) {
        Ok(Lit::Str(literal)) => Ok(literal),
        _ => {
            let example = match syn::parse2::<Ident>(value.clone()) {
                Ok(name) => format!("\"{{{name}}}\""),
                Err(_) => "\"order:{id}\"".to_owned(),
            };
            let message = format!("the key is one string literal; write `key = {example}`");
            Err(Error::new_spanned(value, message))
        }
    }
}

fn lease_name(input: ParseStream) -> Result<Ident> {
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

fn label(input: ParseStream) -> Result<LitStr> {
    let value = rest_of_argument(input)?;
    match syn::parse2::<LitStr>(value.clone()) {
        Ok(label) if !label.value().is_empty() => Ok(label),
        _ => {
            let message = "`name` takes a string that is not empty; write `name = \"orders\"`";
            Err(Error::new_spanned(value, message))
        }
    }
}

fn crate_path(input: ParseStream) -> Result<Path> {
    let value = rest_of_argument(input)?;
    Path::parse_mod_style.parse2(value.clone()).map_err(|_| {
        let message = "`crate` takes a path; write `crate = ::redlock_runtime`";
        Error::new_spanned(value, message)
    })
}

/// An expression may have commas and `=` of its own, so only its parser knows where it ends.
fn expression(name: &Ident, input: ParseStream) -> Result<Expr> {
    input.parse().map_err(|mistake| {
        if input.is_empty() {
            // The parser points behind the last token, which is the whole attribute.
            Error::new(name.span(), format!("the value of `{name}` is incomplete"))
        } else {
            mistake
        }
    })
}

#[cfg(test)]
mod tests;
