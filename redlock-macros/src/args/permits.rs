//! How many permits a lock has: what stands after `permits =`.

use std::ops::RangeInclusive;

use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, ExprPath, LitInt, Result};

use super::rest_of_argument;
use crate::duration::{awaited, is_computed};
use crate::tokens::ungrouped;

/// How many permits a lock has.
pub(crate) enum Permits {
    Known(u32),
    /// A constant, whose value is known to rustc only; or an argument.
    Path(ExprPath),
    /// A field or what a method returns, known when the function is called.
    Computed(Box<Expr>),
}

impl Permits {
    /// Of a function with these arguments, what rustc knows the value of.
    pub(crate) fn constant(&self, arguments: &[String]) -> Option<&ExprPath> {
        match self {
            Self::Path(path) => Some(path).filter(|path| !is_argument(path, arguments)),
            Self::Known(_) | Self::Computed(_) => None,
        }
    }

    /// Of a function with these arguments, what is known only when it is called.
    pub(crate) fn computed(&self, arguments: &[String]) -> Option<Expr> {
        match self {
            Self::Known(_) => None,
            Self::Path(path) => is_argument(path, arguments).then(|| Expr::Path(path.clone())),
            Self::Computed(expression) => Some(Expr::clone(expression)),
        }
    }
}

fn is_argument(path: &ExprPath, arguments: &[String]) -> bool {
    let name = path.path.get_ident();
    name.is_some_and(|name| arguments.contains(&name.unraw().to_string()))
}

/// As in the runtime.
const PERMITS: RangeInclusive<u32> = 1..=64;

pub(super) fn permits(input: ParseStream) -> Result<Permits> {
    let value = rest_of_argument(input)?;
    match syn::parse2(ungrouped(value.clone())) {
        Ok(Expr::Path(path)) => return Ok(Permits::Path(path)),
        Ok(expression) if is_computed(&expression) => {
            let mistake = awaited("the number of permits", &expression);
            return mistake.map_or_else(|| Ok(Permits::Computed(Box::new(expression))), Err);
        }
        _ => {}
    }
    let literal = syn::parse2::<LitInt>(ungrouped(value.clone()));
    let count = literal.and_then(|literal| literal.base10_parse::<u64>());
    let message = match count {
        Ok(count) => match u32::try_from(count).ok().filter(|it| PERMITS.contains(it)) {
            Some(count) => return Ok(Permits::Known(count)),
            None => {
                let (least, most) = (PERMITS.start(), PERMITS.end());
                format!("a lock has {least} to {most} permits, and not {count}")
            }
        },
        Err(_) => {
            "`permits` takes a number such as `3`, the path of a constant, or an argument with its \
                   fields and methods, such as `limits.exports`"
                .to_owned()
        }
    };
    Err(Error::new_spanned(value, message))
}
