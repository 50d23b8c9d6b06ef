//! The arguments in `#[redis_lock(...)]`, one by one; what they mean together is for `check`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, LitStr, Path, Result, Token};

use crate::duration::{self, Duration};
use crate::given::Given;
use crate::key::{Kind, Template};
use crate::mistakes::Mistakes;

mod values;
mod words;

use self::words::unknown;
pub(crate) use self::{values::WEIGHT, words::ARGUMENTS};

const SEVERAL_KEYS: &str = "`key` is given twice; several keys, of which all or none are locked, are a list: \
                            `key = [\"a\", \"b\"]`";

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
    pub(crate) permits: Option<Given<u32>>,
    pub(crate) weight: Option<Given<u32>>,
    pub(crate) reentrant: bool,
    pub(crate) fair: bool,
    pub(crate) leader: bool,
    pub(crate) value: Option<Expr>,
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
    /// The names of the function's arguments.
    arguments: Vec<String>,
}

pub(crate) enum Renew {
    Default,
    Every(Duration),
}

impl Args {
    /// For a function with these `arguments`.
    pub(crate) fn parse(
        tokens: TokenStream,
        arguments: Vec<String>,
        mistakes: &mut Mistakes,
    ) -> Self {
        let mut args = Self {
            arguments,
            ..Self::default()
        };
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

    /// A list, for which other rules hold than for one key.
    pub(crate) fn has_several_keys(&self) -> bool {
        match self.keys.as_deref().unwrap_or_default() {
            [] => false,
            [key] => !matches!(key.kind, Kind::Exclusive),
            _ => true,
        }
    }

    /// For a leader, and for a body that cannot be stopped when its lease ends.
    pub(crate) fn renew_by_default(&mut self) {
        if self.given("renew").is_none() {
            self.renew = Some(Renew::Default);
            self.meant.push("renew");
        }
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
        let mut text = name.unraw().to_string();
        while input.peek(Token![-]) && input.peek2(Ident::peek_any) {
            input.parse::<Token![-]>()?;
            text = format!("{text}-{}", input.call(Ident::parse_any)?);
        }
        let Some((known, example)) = ARGUMENTS.iter().find(|(known, _)| *known == text) else {
            rest_of_argument(input)?;
            let is_given = |known: &str| self.given(known).is_some();
            let (mistake, meant) = unknown(&name, &text, is_given);
            self.meant.extend(meant);
            return Err(mistake);
        };
        if self.given(known).is_some() {
            let message = match *known {
                "key" => SEVERAL_KEYS.to_owned(),
                known => format!("`{known}` is given twice"),
            };
            return Err(Error::new(name.span(), message));
        }
        self.given.push(name.clone());
        let ends = ends_argument(input) || starts_argument(input);
        if *known == "renew" && ends {
            self.renew = Some(Renew::Default);
            return Ok(());
        }
        if let Some(word) = self.word(known) {
            *word = true;
            return values::no_value(&name, input);
        }
        equals(&name, example, input)?;
        self.parse_value(&name, input)
    }

    /// An argument that has no value.
    fn word(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "shared" => Some(&mut self.shared),
            "reentrant" => Some(&mut self.reentrant),
            "fair" => Some(&mut self.fair),
            "leader" => Some(&mut self.leader),
            _ => None,
        }
    }

    fn parse_value(&mut self, name: &Ident, input: ParseStream) -> Result<()> {
        let text = name.to_string();
        let duration = |input| {
            duration::parse(
                &text,
                rest_of_argument(input)?.into_iter().collect(),
                &self.arguments,
            )
        };
        match text.as_str() {
            "key" => self.keys = Some(values::keys(input, &self.arguments)?),
            "expire" => self.expire = Some(duration(input)?),
            "wait" => self.wait = Some(duration(input)?),
            "renew" => self.renew = Some(Renew::Every(duration(input)?)),
            "max_hold" => self.max_hold = Some(duration(input)?),
            "at_least" => self.at_least = Some(duration(input)?),
            "permits" => self.permits = Some(values::count(name, input, &self.arguments)?),
            "weight" => self.weight = Some(values::count(name, input, &self.arguments)?),
            "value" => self.value = Some(values::expression(name, input)?),
            "lease" => self.lease = Some(values::lease_name(input)?),
            "name" => self.name = Some(values::label(input)?),
            "when_held" => self.when_held = Some(values::expression(name, input)?),
            "on_error" => self.on_error = Some(values::expression(name, input)?),
            "via" => self.via = Some(values::expression(name, input)?),
            "crate" => self.krate = Some(values::crate_path(input)?),
            _ => unreachable!("`{name}` is not in ARGUMENTS"),
        }
        Ok(())
    }

    /// The mistake at something that is no name. A string is most likely the key.
    fn nameless(&mut self, input: ParseStream) -> Error {
        if !input.peek(LitStr) {
            return input.error("expected the name of an argument, as in `expire = 5s`");
        }
        self.meant.push("key");
        input.error("the key is a named argument, as in `key = \"order:{id}\"`")
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

/// What stands between a name and its value.
fn equals(name: &Ident, example: &str, input: ParseStream) -> Result<()> {
    let is_given = input.peek(Token![=]) && !input.peek(Token![==]) && !input.peek(Token![=>]);
    if is_given {
        input.parse::<Token![=]>()?;
    }
    if is_given && !ends_argument(input) {
        return Ok(());
    }
    let message = format!("`{name}` needs a value after `=`, as in `{example}`");
    Err(Error::new(name.span(), message))
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
        return Err(Error::new(wrong.span, "arguments are separated by `,`"));
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

/// Whether a value ends here although no comma does: the next tokens are `name =`, or a flag.
fn starts_argument(input: ParseStream) -> bool {
    let ahead = input.fork();
    let Ok(name) = ahead.call(Ident::parse_any) else {
        return false;
    };
    let is_flag = ["renew", "shared", "reentrant", "fair", "leader"]
        .iter()
        .any(|it| name == it);
    let has_value = ahead.peek(Token![=]) && !ahead.peek(Token![==]) && !ahead.peek(Token![=>]);
    has_value || is_flag && (ends_argument(&ahead) || ahead.peek(Ident::peek_any))
}

/// Takes the tokens up to the comma, or to the next argument if the comma was forgotten.
fn rest_of_argument(input: ParseStream) -> Result<Vec<TokenTree>> {
    let mut tokens = Vec::new();
    while !ends_argument(input) && (tokens.is_empty() || !starts_argument(input)) {
        tokens.push(input.parse::<TokenTree>()?);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
