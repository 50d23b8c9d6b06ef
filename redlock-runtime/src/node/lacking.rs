//! What a server refuses and can be a node without.

use std::sync::atomic::{AtomicU8, Ordering};

/// One of these things.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Lack {
    Info = 1,
    Config = 2,
    Notices = 4,
}

/// What the server was found to refuse when it was connected to last.
#[derive(Debug, Default)]
pub(crate) struct Lacking(AtomicU8);

impl Lacking {
    pub(super) fn set(&self, lacks: impl IntoIterator<Item = (Lack, bool)>) {
        let lacks = lacks.into_iter().filter(|&(_, lacks)| lacks);
        let bits = lacks.fold(0, |bits, (lack, _)| bits | lack as u8);
        self.0.store(bits, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, lack: Lack) -> bool {
        self.0.load(Ordering::Relaxed) & lack as u8 != 0
    }
}
