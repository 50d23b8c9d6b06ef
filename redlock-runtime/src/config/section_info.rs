//! What is known of annotated functions before any of them is called.

use std::{fmt, time::Duration};

use super::options::{Options, Renew};

/// An annotated function, as its attribute describes it; see
/// [`Redlock::sections`](crate::Redlock::sections).
///
/// Of a duration that is a constant of a type, such as `expire = Self::LEASE`, or that is known at run
/// time only, such as `expire = self.lease`, the value is not known here, and the methods answer as if
/// the attribute did not name it.
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
    /// Returns the lease; `None` if the node set decides it.
    #[must_use]
    pub const fn expire(&self) -> Option<Duration> {
        self.options.expire
    }

    /// Returns how long a call waits for the lock; zero is one attempt.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.options.wait
    }

    /// Returns whether the section renews its lease.
    #[must_use]
    pub const fn renews(&self) -> bool {
        !matches!(self.options.renew, Renew::Never)
    }

    /// Returns the time between renewals; `None` for a third of the lease, and if the section does not
    /// [renew](Self::renews) it.
    #[must_use]
    pub const fn renewal_interval(&self) -> Option<Duration> {
        match self.options.renew {
            Renew::Every(interval) => Some(interval),
            Renew::Never | Renew::Default => None,
        }
    }

    /// Returns how long renewals may keep the lock; `None` for no limit.
    #[must_use]
    pub const fn max_hold(&self) -> Option<Duration> {
        self.options.max_hold
    }

    /// Returns how long the lock is kept at least, counted from its acquisition; `None` if it is released when the body
    /// ends.
    #[must_use]
    pub const fn at_least(&self) -> Option<Duration> {
        self.options.at_least
    }

    /// Returns whether the lock is shared: several readers can hold it at a time.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.options.shared
    }

    /// Returns whether callers of all processes get the lock in the order of their calls.
    #[must_use]
    pub const fn is_fair(&self) -> bool {
        self.options.fair
    }

    /// Returns how many calls of the fleet can hold the lock at a time; `None` for one, and if the number comes from
    /// the arguments.
    #[must_use]
    pub const fn permits(&self) -> Option<u32> {
        self.options.permits
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

    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }
}

impl SectionInfo {
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

/// What an expansion leaves for `SectionInfo::all`.
#[derive(Debug)]
pub struct Registered(pub &'static SectionInfo);

inventory::collect!(Registered);
