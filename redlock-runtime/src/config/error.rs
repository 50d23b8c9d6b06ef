//! The error that names every rule which a configuration has broken.

use std::{error, fmt};

use super::{problem::ConfigProblem, section_info::SectionInfo};
use crate::health::joined;

/// Every mistake in a configuration, and not only the first one.
///
/// No message contains a password, or any part of a URL that could not be parsed. `Debug` writes the
/// same text as `Display`, because a `main` that returns the error prints it by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) problems: Vec<ConfigProblem>,
}

impl ConfigError {
    pub(crate) fn of(problem: ConfigProblem) -> Self {
        Self {
            problems: vec![problem],
        }
    }

    pub(crate) fn unless_empty(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// Says which annotated function cannot work, if it is one.
    pub(crate) fn in_section(mut self, section: Option<&'static SectionInfo>) -> Self {
        for problem in &mut self.problems {
            problem.section = section;
        }
        self
    }

    /// Returns every problem that was found; at least one.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter();
        f.write_str(&joined(problems.map(|it| (it.address(), it)), "; "))
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for ConfigError {}
