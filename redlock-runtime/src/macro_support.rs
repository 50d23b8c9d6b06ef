//! Everything that the expansion of the attribute may name, and nothing else. Not part of the
//! public interface: it changes with the macro.

use std::{marker::PhantomData, sync::Arc};

pub use inventory;
use redlock_protocol::{Member, Mode};
pub use std;

use crate::{config::permits_problem, election, keys::Keys};
pub use crate::{
    config::{Options, Registered, Renew, SectionInfo},
    error::{FromLockError, LockError},
    key::{Key, Value, Values},
    redlock::Redlock,
    section::Section,
};

/// Stands for a value of the return type, so that the compiler reports a body that returns
/// something else in the body and not at the attribute.
#[derive(Debug)]
pub struct Returns<T>(PhantomData<fn() -> T>);

impl<T> Returns<T> {
    #[expect(
        clippy::new_without_default,
        reason = "written out by the expansion alone"
    )]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Is never called: the call stands behind `if false`.
    pub fn fake_return(&self) -> T {
        unreachable!("only its type is of interest")
    }
}

impl<T: Future> Returns<T> {
    /// For a function that is not `async`: a future that it returns would run without the lock.
    pub fn refuse_future(&self)
    where
        T: NoFuture,
    {
    }
}

/// What every other value has in place of the method above.
pub trait AnyValue {
    fn refuse_future(&self) {}
}

impl<T> AnyValue for Returns<T> {}

#[diagnostic::on_unimplemented(
    message = "this function makes a future, which would run without the lock",
    label = "a future",
    note = "make it an `async fn`, or lock where the future is awaited: `redlock.lock(key).hold(..)`"
)]
pub trait NoFuture {}

/// What the body may take without a loss to `when_held` and `on_error`.
#[diagnostic::on_unimplemented(
    message = "the body takes this `{Self}`, so `when_held` and `on_error` cannot use it",
    label = "moves into the body",
    note = "take what they need as an argument that is `Copy`, such as a shared reference"
)]
pub trait StaysOutside {
    fn check(&self) {}
}

#[diagnostic::do_not_recommend]
impl<T: Copy> StaysOutside for T {}

impl<T> Clone for Returns<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Returns<T> {}

/// One of several keys.
#[derive(Debug)]
pub struct ListedKey {
    member: Member,
    empty: Option<&'static str>,
    problem: Option<&'static str>,
}

impl ListedKey {
    pub fn exclusive(key: impl Into<Key>) -> Self {
        let Key { text, empty } = key.into();
        Self {
            member: Member::alone(text.into()),
            empty,
            problem: None,
        }
    }

    pub fn shared(key: impl Into<Key>) -> Self {
        let mut listed = Self::exclusive(key);
        listed.member.mode = Mode::Shared;
        listed
    }

    /// Some of how many, and how many.
    pub fn permits(key: impl Into<Key>, permits: (u32, u32)) -> Self {
        let mut listed = Self::exclusive(key);
        (listed.member.permits, listed.member.weight) = permits;
        listed.problem = permits_problem(permits).map(|problem| problem.fact());
        listed
    }
}

impl Section {
    /// On one key of the node set of `via`, or of the installed one. Never fails: that nothing is installed is the
    /// error of `acquire`, and so is a key with nothing in it.
    pub fn new(
        redlock: Option<Redlock>,
        key: impl Into<Key>,
        options: Options,
        info: &'static SectionInfo,
    ) -> Self {
        let Key { text, empty } = key.into();
        Self::with(redlock, (Keys::One(text.into()), empty), options, info)
    }

    /// `key = [...]`
    pub fn all(
        redlock: Option<Redlock>,
        keys: impl IntoIterator<Item = ListedKey>,
        options: Options,
        info: &'static SectionInfo,
    ) -> Self {
        let mut empty = None;
        let keys = Keys::all(keys.into_iter().map(|listed| {
            empty = empty.or(listed.empty);
            (listed.member, listed.problem)
        }));
        Self::with(redlock, (keys, empty), options, info)
    }

    fn with(
        redlock: Option<Redlock>,
        (keys, placeholder): (Keys, Option<&'static str>),
        options: Options,
        info: &'static SectionInfo,
    ) -> Self {
        let name = Some(info.name);
        let shared = match redlock {
            _ if placeholder.is_some() => Err(LockError::EmptyKey { placeholder }),
            None => Err(LockError::not_installed(Arc::clone(keys.text()), name)),
            Some(redlock) => Ok(redlock.shared),
        };
        let named = (name, Some(info));
        Self::on(shared, keys, options, named)
    }

    /// Acquires the lock, and runs the body of a function that is not `async`. `body` is destroyed if
    /// it cannot run.
    pub fn run_blocking<T>(&mut self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        self.acquire_blocking()?;
        self.within(body)
    }
}

/// Whether the lock failed only because another caller holds it: what `when_held = ...` is for.
#[must_use]
pub const fn is_held<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(LockError::Contended(_)))
}

/// Whether a leadership was granted and has ended, so that a new campaign can succeed: what `leader` is for.
#[must_use]
pub const fn is_over<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(error) if election::is_over(error))
}

/// The number of permits of one among several keys, and how many are taken, if both are constants.
///
/// # Panics
/// With what is wrong with it, while compiling.
#[track_caller]
pub const fn check_permits(permits: (u32, u32)) -> (u32, u32) {
    match permits_problem(permits) {
        Some(problem) => panic!("{}", problem.fact()),
        None => permits,
    }
}

/// Checks, while compiling, durations and permits that are given as constants.
///
/// # Panics
/// With the message for the first mistake.
#[track_caller]
pub const fn check_constants(options: &Options) {
    if let Some(problem) = options.first_problem() {
        panic!("{}", problem.fact());
    }
}
