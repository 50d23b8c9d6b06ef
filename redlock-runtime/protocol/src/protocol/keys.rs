//! The keys of which anything is known, and how each of them acts.

use std::{collections::BTreeMap, sync::Arc};

use super::Protocol;
use crate::{
    key::{Cx, Key},
    message::SectionId,
    purpose::KeyId,
    time::Instant,
};

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// In boxes: a tree is half empty, since its keys come in order, and moves what it splits.
    entries: BTreeMap<KeyId, Box<Entry>>,
    ids: BTreeMap<Arc<str>, KeyId>,
    next: u64,
    /// How many of them are held, and not known to stand on all nodes.
    pub(super) under_replicated: usize,
    /// How often one of them was looked at.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

/// A key, and what is known of it from outside.
#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    /// When its timer wakes.
    wakes_at: Option<Instant>,
    is_under_replicated: bool,
    key: Key,
}

impl Keys {
    /// The key of this name, a new one if nothing is known of it.
    pub(super) fn id_of(&mut self, name: Arc<str>) -> KeyId {
        *self.ids.entry(name).or_insert_with_key(|name| {
            let id = KeyId(self.next);
            self.next += 1;
            let entry = Entry {
                name: Arc::clone(name),
                wakes_at: None,
                is_under_replicated: false,
                key: Key::default(),
            };
            self.entries.insert(id, Box::new(entry));
            id
        })
    }

    pub(super) fn get(&self, id: KeyId) -> Option<&Key> {
        self.entries.get(&id).map(|entry| &entry.key)
    }

    pub(super) fn get_mut(&mut self, id: KeyId) -> Option<&mut Key> {
        self.entries.get_mut(&id).map(|entry| &mut entry.key)
    }

    pub(super) fn name_of(&self, id: KeyId) -> Option<&Arc<str>> {
        self.entries.get(&id).map(|entry| &entry.name)
    }

    pub(super) fn find(&self, name: &str) -> Option<KeyId> {
        self.ids.get(name).copied()
    }

    pub(super) fn named(&self, name: &str) -> Option<&Key> {
        self.get(self.find(name)?)
    }

    /// Its timer has woken.
    pub(super) fn on_woken(&mut self, id: KeyId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.wakes_at = None;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Key> {
        let entries = self.entries.values();
        #[cfg(test)]
        let entries = entries.inspect(|_| self.looks.update(|looks| looks + 1));
        entries.map(|entry| &entry.key)
    }
}

impl Protocol {
    /// Lets one key act and go on, arms its timer, and forgets it once nothing is left of it.
    pub(super) fn with_key(&mut self, id: KeyId, act: impl FnOnce(&mut Key, &mut Cx<'_>)) {
        #[cfg(test)]
        self.keys.looks.update(|looks| looks + 1);
        let Some(entry) = self.keys.entries.get_mut(&id) else {
            return;
        };
        let Entry {
            name,
            wakes_at,
            is_under_replicated,
            key,
        } = &mut **entry;
        let mut cx = Cx {
            key: id,
            name,
            nodes: &mut self.nodes,
            out: &mut self.out,
        };
        act(key, &mut cx);
        key.advance(&mut cx);
        let moves = key.take_moves().into_iter();
        // Carried out later: another key cannot act while this one does.
        self.moves
            .extend(moves.map(|what| (Arc::clone(name), what)));
        let is_now = key.is_under_replicated(cx.nodes);
        let was = std::mem::replace(is_under_replicated, is_now);
        // Kept as a sum, so that nobody has to look through a hundred thousand keys for it.
        self.keys.under_replicated += usize::from(is_now);
        self.keys.under_replicated -= usize::from(was);
        let now = self.out.now;
        #[cfg(debug_assertions)]
        key.invariants(now);
        match key.next_due(now) {
            Some(at) => self.timers.wake_key(id, wakes_at, at),
            // Else each name that was ever locked would take up memory for ever.
            None if key.is_idle() => {
                self.timers.cancel_key(id, *wakes_at);
                self.keys.ids.remove(name);
                self.keys.entries.remove(&id);
            }
            None => {}
        }
    }

    /// Acts on the key of a section that has not ended.
    pub(super) fn with_key_of(&mut self, section: SectionId, act: impl FnOnce(&mut Key)) {
        if let Some(&key) = self.out.sections.get(&section) {
            self.with_key(key, |key, _| act(key));
        }
    }

    pub(super) fn for_all_keys(&mut self, mut act: impl FnMut(&mut Key, &mut Cx<'_>)) {
        // A copy, because keys that have nothing left to do are removed on the way.
        let keys: Vec<KeyId> = self.keys.entries.keys().copied().collect();
        for key in keys {
            self.with_key(key, &mut act);
        }
    }
}
