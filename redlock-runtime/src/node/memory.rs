//! The node without Redis: for trying things out, for users' unit tests, and for simulation.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::Duration,
};

use crate::protocol::{Instant, Owner, Reply, Request, Token, stripe};

/// How long a note is believed that somebody waits, as in `acquire.lua`.
const NOTE: Duration = Duration::from_secs(1);

/// What `memory://name` means: the same store for the same name, for as long as any node set of
/// this process uses it.
static STORES: LazyLock<Mutex<BTreeMap<String, Weak<Memory>>>> = LazyLock::new(Mutex::default);

/// One node's keys. Answers as the scripts do.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Arc<str>, Key>,
    /// By stripe. Proposals are not bounded here: they are this process's own clock.
    counters: BTreeMap<u64, Token>,
    /// By stripe: somebody waits until then.
    notes: BTreeMap<u64, Instant>,
}

#[derive(Debug)]
struct Key {
    owner: Owner,
    expires: Instant,
}

impl Memory {
    /// The store of this name.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Arc::new(Self::default());
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    pub(crate) fn run(&self, request: &Request, now: Instant) -> Reply {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.run(request, now)
    }
}

impl State {
    fn run(&mut self, request: &Request, now: Instant) -> Reply {
        let key = match request {
            // It lives no longer and no shorter than the process that asks.
            Request::Admit { .. } => return Reply::Admitted,
            Request::Identify => return Reply::Identity { server: None },
            Request::Top => {
                let counter = self.counters.values().copied().max().unwrap_or_default();
                return Reply::Top { counter };
            }
            Request::Acquire {
                key,
                owner,
                ttl,
                proposal,
                handed_over,
                waits,
            } => {
                self.expire(key, now);
                let least = now.after(*ttl);
                return match self.take(key, *owner, least, *handed_over) {
                    Ok(was_ours) => self.grant(key, *proposal, was_ours, now),
                    Err(expires) => self.refuse(key, expires.since(now), *waits, now),
                };
            }
            Request::Confirm { key, .. }
            | Request::Extend { key, .. }
            | Request::Watch { key, .. }
            | Request::Release { key, .. } => key,
        };
        self.expire(key, now);
        let counter = self.counters.entry(stripe(key)).or_default();
        match (request, self.keys.get_mut(key)) {
            (Request::Confirm { owner, token, .. }, Some(held)) if held.owner == *owner => {
                *counter = (*counter).max(*token);
                Reply::Confirmed
            }
            (Request::Extend { owner, ttl, .. }, Some(held)) if held.owner == *owner => {
                let remaining = Some(held.expires.since(now));
                held.expires = now.after(*ttl);
                Reply::Extended { remaining }
            }
            (Request::Watch { owner, .. }, Some(held)) if *owner == Some(held.owner) => Reply::Ours,
            (Request::Watch { .. }, Some(held)) => Reply::Taken {
                owner: Some(held.owner),
            },
            (Request::Watch { .. }, None) => Reply::Free,
            (
                Request::Release {
                    owner,
                    key,
                    catch_up,
                },
                held,
            ) => {
                *counter = (*counter).max(*catch_up);
                if held.is_some_and(|held| held.owner == *owner) {
                    self.keys.remove(key);
                    return Reply::Deleted;
                }
                Reply::NotOwner
            }
            (_, _) => Reply::NotOwner,
        }
    }

    /// Lets a key live for so long as this owner's, as `acquire.lua` does. True if it was that before;
    /// fails with the end of another's life.
    fn take(
        &mut self,
        key: &Arc<str>,
        owner: Owner,
        least: Instant,
        handed_over: Option<Duration>,
    ) -> Result<bool, Instant> {
        match (self.keys.get_mut(key), handed_over) {
            (Some(held), Some(spare)) if held.owner == owner => {
                if held.expires < least {
                    held.expires = least.after(spare);
                }
                Ok(true)
            }
            (Some(held), _) => Err(held.expires),
            (None, _) => {
                let expires = least;
                self.keys.insert(Arc::clone(key), Key { owner, expires });
                Ok(false)
            }
        }
    }

    fn refuse(&mut self, key: &str, remaining: Duration, waits: bool, now: Instant) -> Reply {
        if waits {
            self.notes.insert(stripe(key), now.after(NOTE));
        }
        Reply::Held {
            remaining: Some(remaining),
        }
    }

    fn grant(&mut self, key: &str, proposal: Token, was_ours: bool, now: Instant) -> Reply {
        let stripe = stripe(key);
        let counter = self.counters.entry(stripe).or_default();
        *counter = Token(counter.0 + 1).max(proposal);
        let note = self.notes.get(&stripe);
        Reply::Granted {
            counter: *counter,
            was_ours,
            awaited: note.is_some_and(|&until| now < until),
        }
    }

    fn expire(&mut self, key: &str, now: Instant) {
        if self.keys.get(key).is_some_and(|held| held.expires <= now) {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_store_for_as_long_as_it_is_used() {
        let first = Memory::named("memory-unit-test");
        assert!(Arc::ptr_eq(&first, &Memory::named("memory-unit-test")));
        assert!(!Arc::ptr_eq(&first, &Memory::named("memory-unit-test-2")));
        drop(first);
        let again = Memory::named("memory-unit-test");
        assert_eq!(Arc::strong_count(&again), 1);
    }
}
