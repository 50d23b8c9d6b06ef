//! How to do what applications do: one page for each subject.

// Its examples need more crates than this one: the package of the tests compiles and runs them.
#[cfg(not(doctest))]
#[doc = include_str!("testing.md")]
pub mod testing {}
