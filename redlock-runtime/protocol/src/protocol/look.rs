//! What operators are told of one lock: nothing here changes anything.

use super::Protocol;
use crate::{
    key::Key,
    message::{Process, SectionId},
    rules::key_names::{gate_key, line_key, slot_key},
};

impl Protocol {
    /// The process that this client is to the nodes.
    #[must_use]
    pub const fn process(&self) -> Process {
        self.nodes.process()
    }

    /// How many keys have been held for longer than a short turn (20 ms) and are not known to stand on all nodes:
    /// to lose another node now can end them.
    #[must_use]
    pub const fn under_replicated(&self) -> usize {
        self.keys.under_replicated
    }

    /// The sections of callers that have the lock of this name, or one of its permits, and those that
    /// wait for it, in the order in which they were asked for.
    #[must_use]
    pub fn sections_of(&self, name: &str, permits: u32) -> Vec<SectionId> {
        let slots = (0..permits).map(|slot| slot_key(name, slot));
        let names = [name.into(), line_key(name), gate_key(name)];
        let names = names.into_iter().chain(slots);
        let keys = names.filter_map(|name| self.keys.named(&name));
        // A part belongs to a section with several keys.
        let of_caller = |section: SectionId| match section.is_part() {
            true => self.parts.get(&section).copied(),
            false => Some(section),
        };
        let at_keys = keys.flat_map(Key::sections).filter_map(of_caller);
        let mut sections: Vec<SectionId> = at_keys.collect();
        sections.sort_unstable();
        sections.dedup();
        sections
    }
}
