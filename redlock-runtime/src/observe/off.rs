//! Without the feature `tracing` nothing is reported.

use std::{sync::Arc, time::Duration};

use redlock_protocol::{Instant, NodeState, Token};

use super::fact::{End, Outcome, Over, Subject};

#[derive(Debug)]
pub(crate) struct Observer;

#[derive(Debug, Default)]
pub(crate) struct Course(());

#[derive(Debug)]
pub(crate) struct Entered(());

impl Course {
    pub(crate) const fn is_open(&self) -> bool {
        false
    }

    pub(crate) const fn enter(&self) -> Entered {
        Entered(())
    }
}

impl Observer {
    pub(crate) const fn new(_: &[Arc<str>], _: &str, _: Duration) -> Self {
        Self
    }

    pub(crate) const fn is_on(&self) -> bool {
        false
    }

    pub(crate) const fn asked(&self, _: &Subject, _: Instant) -> Course {
        Course(())
    }

    pub(crate) const fn granted(&self, _: &mut Course, _: &Subject, _: (Token, u32), _: Instant) {}

    pub(crate) const fn failed(&self, _: &mut Course, _: (Outcome, u32), _: Instant) {}

    pub(crate) const fn ended(&self, _: &mut Course, _: &Subject, _: Token, _: End) {}

    pub(crate) const fn renewed(&self, _: &Subject, _: Token, _: Option<Duration>) {}

    pub(crate) const fn self_wait(&self, _: &Subject, _: Instant) {}

    pub(crate) const fn over(&self, _: &Subject, _: Token, _: Over, _: Instant) {}

    pub(crate) fn nodes_are(
        &self,
        _: impl Fn() -> Vec<Option<NodeState>>,
        _: (&[Option<Duration>], usize),
        _: Instant,
    ) {
    }
}
