//! The values that the attribute reads itself, or leaves to rustc.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Error, Expr, ExprPath, Result, UnOp};

use crate::tokens::{for_each_ident, ungrouped};

pub(crate) enum Given<K> {
    /// A literal.
    Known(K),
    /// The path of a constant.
    Constant(ExprPath),
    /// An argument, its field, or what a method returns: known when the function is called.
    Computed(Box<Expr>),
}

impl<K> Given<K> {
    pub(crate) fn known(&self) -> Option<&K> {
        match self {
            Self::Known(known) => Some(known),
            Self::Constant(_) | Self::Computed(_) => None,
        }
    }

    /// Reads what is no literal, for a function with these `arguments`. `None` if rustc would not know
    /// its value either.
    pub(crate) fn parse(value: TokenStream, arguments: &[String]) -> Option<Result<Self>> {
        let is_argument = |name: &Ident| arguments.contains(&name.unraw().to_string());
        let expression = match syn::parse2(ungrouped(value)).ok()? {
            Expr::Path(path) if !path.path.get_ident().is_some_and(is_argument) => {
                return Some(Ok(Self::Constant(path)));
            }
            expression => expression,
        };
        let is_computed = match &expression {
            Expr::Path(_) => true,
            Expr::Field(field) => !matches!(*field.base, Expr::Lit(_)),
            Expr::MethodCall(call) => !matches!(*call.receiver, Expr::Lit(_)),
            Expr::Unary(unary) => match (&unary.op, &*unary.expr) {
                (UnOp::Deref(_), Expr::Path(path)) => {
                    path.path.get_ident().is_some_and(is_argument)
                }
                (UnOp::Deref(_), of) => matches!(of, Expr::Field(_) | Expr::MethodCall(_)),
                _ => false,
            },
            _ => false,
        };
        let mut place = None;
        for_each_ident(expression.to_token_stream(), &mut |ident| {
            if ident == "await" {
                place = Some(ident.span());
            }
        });
        let message =
            "this value cannot be awaited; make it an argument, or await it in the caller";
        is_computed.then(|| match place {
            Some(place) => Err(Error::new(place, message)),
            None => Ok(Self::Computed(Box::new(expression))),
        })
    }
}
