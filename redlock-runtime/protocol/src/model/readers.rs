//! Keys that are shared: each lists its readers, one entry for each owner.
//!
//! The key stands for as long as any reader does, so it excludes writers and clients of other libraries as
//! any lock does. An entry has a time of its own, because no reader may live on another one's.

use std::sync::Arc;

use super::{Key, Model, Stored, Value};
use crate::{
    message::{Owner, Reply},
    time::Instant,
};

impl Model {
    /// Sets or removes one reader. Those that have expired go with it, and with the last one the key.
    pub(super) fn set_reader(
        &mut self,
        key: &Arc<str>,
        owner: Owner,
        expires: Option<Instant>,
        now: Instant,
    ) {
        let mut readers = match self.stored(key, now).map(|held| &held.value) {
            Some(Value::Readers(readers)) => readers.clone(),
            _ => Vec::new(),
        };
        // Each write clears up, so the list is no longer than the readers of one key TTL.
        let owner = Some(owner);
        readers.retain(|reader| reader.owner != owner && reader.lives(now));
        readers.extend(expires.map(|_| Key { owner, expires }));
        // The key lives as long as the last reader, so a writer waits for all of them.
        let expires = readers.iter().filter_map(|reader| reader.expires).max();
        self.keys.remove(key);
        if expires.is_some() {
            let value = Value::Readers(readers);
            self.keys.insert(Arc::clone(key), Stored { value, expires });
        }
    }

    pub(super) fn release_reader(&mut self, key: &Arc<str>, owner: Owner, now: Instant) -> Reply {
        let reader = match self.stored(key, now).map(|held| &held.value) {
            Some(Value::Readers(readers)) => readers.iter().find(|one| one.owner == Some(owner)),
            // It has not heard that the owner shares it.
            Some(Value::Owner(only)) if *only == owner => {
                self.keys.remove(key);
                return Reply::Deleted;
            }
            _ => None,
        };
        let Some(reader) = reader.copied() else {
            return Reply::NotOwner;
        };
        self.set_reader(key, owner, None, now);
        // What was there had expired: the owner must not take that for a lock to its end.
        if reader.lives(now) {
            Reply::Deleted
        } else {
            Reply::NotOwner
        }
    }
}
