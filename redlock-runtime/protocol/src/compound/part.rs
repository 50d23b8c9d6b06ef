//! One of the keys of a section with several: how far it is, and what is to be done for it.

use std::{sync::Arc, time::Duration};

use crate::{
    action::Answer,
    message::SectionId,
    rules::{token::Token, validity::LockParams},
    time::Instant,
};

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) key: Arc<str>,
    /// Its section; another one each time that the key is asked for.
    pub(crate) section: Option<SectionId>,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Idle,
    Asked,
    Held {
        deadline: Instant,
        token: Token,
        /// The nodes give no token up to this one any more.
        reach: Token,
        /// An answer to a raise, or to an extension, is to come.
        is_asked: bool,
    },
}

impl Part {
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held { .. })
    }

    /// It is held, and this is true of when its lease ends, and of up to where nodes give no token.
    pub(super) fn is(&self, held: impl Fn(Instant, Token) -> bool) -> bool {
        match self.stage {
            Stage::Held {
                deadline, reach, ..
            } => held(deadline, reach),
            Stage::Idle | Stage::Asked => false,
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self.stage {
            Stage::Held { token, .. } => Some(token),
            Stage::Idle | Stage::Asked => None,
        }
    }
}

/// What is to be done for it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Its caller is told.
    Answer(Answer),
    /// A key is asked for, by a new section.
    Ask {
        part: usize,
        params: LockParams,
    },
    Tell {
        part: usize,
        what: Word,
    },
}

/// What the section of a part is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    End {
        report: bool,
    },
    /// For a fresh lease, and so that the nodes give no token up to this one any more.
    Extend {
        reach: Token,
    },
    /// All keys are held: the token of the section, and for how long it may have them from now on.
    Begin {
        token: Token,
        max_hold: Option<Duration>,
    },
    StopRenewing,
}
