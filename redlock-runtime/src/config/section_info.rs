//! What is known of annotated functions before any of them is called.

use std::fmt;

use super::lock_options::Options;

/// An annotated function, as its attribute describes it; see
/// [`Redlock::sections`](crate::Redlock::sections).
///
/// Of a duration that is a constant of a type, such as `expire = Self::LEASE`, or that is known at run
/// time only, such as `expire = self.lease`, the value is not known here, and the options are those of an
/// attribute that does not name it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// The name of the section in errors: the `name` of the attribute, by default the path of the function.
    pub name: &'static str,
    /// The template of the key as the attribute has it, such as `order:{id}`, without the [key
    /// prefix](crate::Builder::key_prefix).
    pub key: &'static str,
    /// The text of `via`; `None` if the section uses the installed node set.
    pub via: Option<&'static str>,
    /// The file of the attribute, by the name that rustc got.
    pub file: &'static str,
    /// The line of the attribute, counted from 1. If a macro makes the function, it is the line of the macro's call.
    pub line: u32,
    options: Options,
    is_complete: bool,
}

impl SectionInfo {
    /// Returns what the attribute asks for.
    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }

    /// All that the linker has put into this program, in the order of their places.
    pub(crate) fn all() -> Vec<&'static Self> {
        let registered = inventory::iter::<Registered>.into_iter();
        let mut all: Vec<_> = registered.map(|Registered(section)| *section).collect();
        all.sort_by_key(|section| (section.file, section.line, section.name));
        all
    }

    /// Whether the installed node set decides if it can work, and all is known that matters for it.
    pub(crate) const fn can_be_checked_at_start(&self) -> bool {
        self.via.is_none() && self.is_complete
    }
}

/// `orders::pay (src/orders.rs:12)`
impl fmt::Display for SectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, file, line, ..
        } = self;
        write!(f, "`{name}` ({file}:{line})")
    }
}

/// For expansions.
#[doc(hidden)]
impl SectionInfo {
    #[must_use]
    pub const fn new(
        name: &'static str,
        key: &'static str,
        (file, line): (&'static str, u32),
        options: Options,
    ) -> Self {
        Self {
            name,
            key,
            via: None,
            file,
            line,
            options,
            is_complete: true,
        }
    }

    #[must_use]
    pub const fn via_expression(mut self, expression: &'static str) -> Self {
        self.via = Some(expression);
        self
    }

    /// Without the durations that only an instance or a call of the function knows.
    #[must_use]
    pub const fn incomplete(mut self) -> Self {
        self.is_complete = false;
        self
    }
}

/// What an expansion leaves for `SectionInfo::all`.
#[derive(Debug)]
pub struct Registered(pub &'static SectionInfo);

inventory::collect!(Registered);
