//! The item under the attribute. Its signature is read but never rebuilt; its body is not parsed.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{
    Attribute, Error, FnArg, Ident, Pat, Result, ReturnType, Safety, Signature, Token, Type,
    Visibility,
};

use crate::tokens::{for_each_ident, for_each_name, ungrouped, with_inferred_impls};

pub(crate) struct Function {
    /// Attributes, visibility and signature, as written.
    pub(crate) head: TokenStream,
    pub(crate) signature: Signature,
    /// `#![...]` at the start of the body: they belong to the function.
    pub(crate) inner_attributes: TokenStream,
    /// What runs under the lock, in the user's braces.
    pub(crate) body: Group,
    /// What the body gives, with `_` for each `impl Trait`.
    pub(crate) output: TokenStream,
    /// If another attribute has already made a boxed future of the function: what is around it.
    pub(crate) boxed: Option<Boxed>,
    /// It is not `async`: it blocks its thread, and its body cannot be stopped.
    pub(crate) is_blocking: bool,
}

/// `before Box::pin(attributes async move { .. })`
pub(crate) struct Boxed {
    pub(crate) before: TokenStream,
    pub(crate) pin: Group,
    pub(crate) attributes: TokenStream,
}

/// One name that an argument binds.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    /// The argument's `#[cfg]`s: whatever uses the name needs them too.
    pub(crate) cfgs: Vec<TokenStream>,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let mut trees: Vec<TokenTree> = ungrouped(item).into_iter().collect();
        let last = trees.pop().map(TokenStream::from).map(ungrouped);
        let body = last.and_then(brace_group);
        let head: TokenStream = trees.into_iter().collect();
        let signature = signature.parse2(head.clone())?;
        let Some(body) = body else {
            let message = "`#[redis_lock]` needs a body to lock; put it on the implementations";
            return Err(Error::new_spanned(&signature, message));
        };
        Self::with_body(head, signature, body)
    }

    fn with_body(head: TokenStream, signature: Signature, body: Group) -> Result<Self> {
        if let ReturnType::Type(_, ty) = &signature.output
            && let Type::Never(never) = &**ty
        {
            let message = "a function that never returns would never release its lock; \
                           lock what its loop does in a function of its own";
            return Err(Error::new(never.bang_token.span, message));
        }
        let (inner_attributes, body) = split_inner_attributes(body);
        if signature.asyncness.is_some() {
            return Ok(Self {
                output: output(&signature)?,
                head,
                signature,
                inner_attributes,
                body,
                boxed: None,
                is_blocking: false,
            });
        }
        match (boxed_output(&signature), boxed_body(&body)) {
            (Some(_), Some((Boxed { before, .. }, _))) if !is_path(&before) => {
                let message = "what stands before this `Box::pin` would run without the lock; \
                               move it into the `async move` block";
                Err(Error::new(
                    before
                        .into_iter()
                        .last()
                        .map_or_else(Span::call_site, |pin| pin.span()),
                    message,
                ))
            }
            (Some(output), Some((boxed, body))) => Ok(Self {
                head,
                signature,
                inner_attributes,
                body,
                output,
                boxed: Some(boxed),
                is_blocking: false,
            }),
            _ => {
                refuse_to_block(&signature, &body)?;
                Ok(Self {
                    output: output(&signature)?,
                    head,
                    signature,
                    inner_attributes,
                    body,
                    boxed: None,
                    is_blocking: true,
                })
            }
        }
    }

    /// The function's name without `r#`.
    pub(crate) fn name(&self) -> String {
        self.signature.ident.unraw().to_string()
    }

    /// The names that the arguments bind, `self` among them, without `r#`.
    pub(crate) fn argument_names(&self) -> Vec<String> {
        let bindings = self.bindings();
        let names = bindings.iter().map(|binding| binding.name.unraw());
        names.map(|name| name.to_string()).collect()
    }

    /// The names whose values differ from call to call: of arguments and constant parameters.
    pub(crate) fn variable_names(&self) -> Vec<String> {
        let mut names = self.argument_names();
        let parameters = self.signature.generics.const_params();
        names.extend(parameters.map(|parameter| parameter.ident.unraw().to_string()));
        names
    }

    /// The names that the arguments bind, `self` among them.
    pub(crate) fn bindings(&self) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for input in &self.signature.inputs {
            let (attributes, names) = match input {
                FnArg::Receiver(receiver) => (
                    &receiver.attrs,
                    vec![Ident::new("self", receiver.self_token.span)],
                ),
                FnArg::Typed(typed) => {
                    let mut names = Vec::new();
                    collect_names(&typed.pat, &mut names);
                    (&typed.attrs, names)
                }
            };
            let is_cfg = |attribute: &&Attribute| attribute.path().is_ident("cfg");
            let cfgs = || {
                attributes
                    .iter()
                    .filter(is_cfg)
                    .map(ToTokens::to_token_stream)
                    .collect()
            };
            bindings.extend(names.into_iter().map(|name| Binding { name, cfgs: cfgs() }));
        }
        bindings
    }

    /// The bindings that belong to the body: those that it mentions, and those that no lint expects
    /// it to mention, such as `_permit`.
    pub(crate) fn captured_bindings(&self) -> Vec<Binding> {
        let mut mentioned = BTreeSet::new();
        for_each_name(self.body.stream(), &mut |name, _| {
            mentioned.insert(name.to_owned());
        });
        let mut bindings = self.bindings();
        bindings.retain(|binding| {
            let name = binding.name.to_string();
            name.starts_with('_') || mentioned.contains(&name)
        });
        bindings
    }
}

fn brace_group(tokens: TokenStream) -> Option<Group> {
    match tokens.into_iter().next()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

fn signature(input: ParseStream) -> Result<Signature> {
    input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    input.parse().map_err(|error| {
        let message = format!("`#[redis_lock]` locks the body of a function: {error}");
        Error::new(error.span(), message)
    })
}

/// The type that the signature names, with `_` for each `impl Trait`.
fn output(signature: &Signature) -> Result<TokenStream> {
    match &signature.output {
        // At the function's name, for want of a type to point at.
        ReturnType::Default => {
            let place = signature.ident.span().resolved_at(Span::mixed_site());
            Ok(quote_spanned!(place=> ()))
        }
        ReturnType::Type(_, ty) => with_inferred_impls(ty.to_token_stream()),
    }
}

/// Functions that are not `async` and must not, or most likely do not want to, block a thread.
fn refuse_to_block(signature: &Signature, body: &Group) -> Result<()> {
    let function = &signature.ident;
    let (place, message) = if let Some(constness) = &signature.constness {
        let message =
            "a `const fn` cannot wait for a lock; `#[redis_lock]` needs an `async fn` or a `fn`";
        (constness.span, message.to_owned())
    } else if matches!(signature.safety, Safety::Unsafe(_)) || signature.abi.is_some() {
        let message = format!(
            "`#[redis_lock]` needs a safe `fn`, or an `async fn`; lock a safe function that calls \
             `{function}`"
        );
        (signature.fn_token.span, message)
    } else if returns_future(signature) || drives_future(body) {
        let message = format!(
            "this function only makes a future, or drives one; if an attribute above it removed \
             `async`, put `#[redis_lock]` first, else make it an `async fn`, or lock where the \
             function is called: `redlock.lock(key).hold(async |_| {function}(..))`"
        );
        (signature.fn_token.span, message)
    } else {
        return Ok(());
    };
    Err(Error::new(place, message))
}

/// By the name that its type has.
fn returns_future(signature: &Signature) -> bool {
    let mut found = false;
    for_each_ident(signature.output.to_token_stream(), &mut |ident| {
        found |= ident.to_string().ends_with("Future");
    });
    found
}

/// As `#[tokio::main]` leaves it: `block_on(async { .. })`.
fn drives_future(body: &Group) -> bool {
    let (mut has_async, mut has_block_on) = (false, false);
    for_each_ident(body.stream(), &mut |ident| {
        has_async |= ident == "async";
        has_block_on |= ident == "block_on";
    });
    has_async && has_block_on
}

/// Takes `#![...]` from the start of the body; the rest keeps the user's braces.
fn split_inner_attributes(body: Group) -> (TokenStream, Group) {
    let split = |input: ParseStream| {
        let attributes = input.call(Attribute::parse_inner)?;
        let rest: TokenStream = input.parse()?;
        Ok((attributes, rest))
    };
    match split.parse2(body.stream()) {
        Ok((attributes, rest)) if !attributes.is_empty() => {
            (quote!(#(#attributes)*), regrouped(&body, rest))
        }
        // The group itself knows the place of both its braces, a new one does not: rustc would
        // report a half-typed body once more. And it knows better what to say about it.
        Ok(_) | Err(_) => (TokenStream::new(), body),
    }
}

/// Another content in the same delimiters.
pub(crate) fn regrouped(group: &Group, content: TokenStream) -> Group {
    let mut regrouped = Group::new(group.delimiter(), content);
    regrouped.set_span(group.span());
    regrouped
}

/// The `R` of `-> Pin<Box<dyn Future<Output = R> + Send>>`.
fn boxed_output(signature: &Signature) -> Option<TokenStream> {
    let output = |input: ParseStream| {
        while !(input.peek(Ident) && input.peek2(Token![=])) {
            input.parse::<TokenTree>()?;
        }
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let ty: Type = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok((name == "Output").then(|| ty.into_token_stream()))
    };
    match &signature.output {
        ReturnType::Type(_, ty) => output.parse2(ty.to_token_stream()).ok()?,
        ReturnType::Default => None,
    }
}

/// `::std::boxed::Box::pin`, and nothing before it.
fn is_path(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().all(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(mark) => mark.as_char() == ':',
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    })
}

/// Recognises `{ .. Box::pin(async move { .. }) }`, which is what `#[async_trait]` leaves.
fn boxed_body(body: &Group) -> Option<(Boxed, Group)> {
    let mut trees: Vec<TokenTree> = body.stream().into_iter().collect();
    let Some(TokenTree::Group(pin)) = trees.pop() else {
        return None;
    };
    if !matches!(trees.last(), Some(TokenTree::Ident(name)) if name == "pin") {
        return None;
    }
    let future = |input: ParseStream| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<Token![async]>()?;
        input.parse::<Token![move]>()?;
        let body: Group = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        Ok((quote!(#(#attributes)*), body))
    };
    let (attributes, future) = future.parse2(pin.stream()).ok()?;
    let boxed = Boxed {
        before: trees.into_iter().collect(),
        pin,
        attributes,
    };
    (future.delimiter() == Delimiter::Brace).then_some((boxed, future))
}

pub(crate) fn collect_names(pattern: &Pat, names: &mut Vec<Ident>) {
    let mut collect_all = |patterns: &mut dyn Iterator<Item = &Pat>| {
        for pattern in patterns {
            collect_names(pattern, names);
        }
    };
    match pattern {
        Pat::Paren(pattern) => collect_names(&pattern.pat, names),
        Pat::Reference(pattern) => collect_names(&pattern.pat, names),
        Pat::Type(pattern) => collect_names(&pattern.pat, names),
        Pat::Slice(pattern) => collect_all(&mut pattern.elems.iter()),
        Pat::Struct(pattern) => collect_all(&mut pattern.fields.iter().map(|field| &*field.pat)),
        Pat::Tuple(pattern) => collect_all(&mut pattern.elems.iter()),
        Pat::TupleStruct(pattern) => collect_all(&mut pattern.elems.iter()),
        // All cases bind the same names.
        Pat::Or(pattern) => collect_all(&mut pattern.cases.iter().take(1)),
        Pat::Ident(pattern) => {
            names.push(pattern.ident.clone());
            if let Some((_, inner)) = &pattern.subpat {
                collect_names(inner, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
