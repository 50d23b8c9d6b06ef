//! What a key does for a pool, whose slot it is: see `pool`.

use super::{Front, Key};
use crate::message::SectionId;

impl Key {
    /// A section of this process has the key.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.front, Front::Held(_))
    }

    /// The section that has the key is the caller's from now on. False if the section does not have it.
    pub(crate) fn give(&mut self, section: SectionId, caller: SectionId) -> bool {
        self.section(section).is_some_and(|section| {
            section.id = caller;
            true
        })
    }
}
