//! Visits all states that can be reached, each once, breadth first.
//!
//! A state that was visited is known by a fingerprint of 128 bits. That two of a hundred million
//! states have the same is less likely than one in 10^22.

use std::{
    collections::HashSet,
    fmt,
    hash::{Hash, Hasher},
};

/// What can happen.
pub(crate) trait Model {
    /// One moment.
    type State: Copy + Hash;
    /// What leads from one moment to the next.
    type Move: fmt::Debug;

    /// Where a course can begin.
    fn starts(&self) -> Vec<Self::State>;

    /// Hands every state that can follow to `take`.
    fn steps(&self, state: &Self::State, take: &mut impl FnMut(Step<Self::Move, Self::State>));

    /// The state without what cannot matter any more.
    fn simple(&self, state: &Self::State) -> Self::State;

    /// The same, with nodes and clients in an order that is the same for most states that differ by
    /// nothing else.
    fn canonical(&self, state: &Self::State) -> Self::State;

    /// Every step that can follow.
    fn all_steps(&self, state: &Self::State) -> Vec<Step<Self::Move, Self::State>> {
        let mut steps = Vec::new();
        self.steps(state, &mut |step| steps.push(step));
        steps
    }
}

/// One step of a course.
pub(crate) struct Step<M, S> {
    pub(crate) by: M,
    pub(crate) next: S,
    /// Which rule is broken by it.
    pub(crate) wrong: Option<String>,
}

impl<M, S> Step<M, S> {
    pub(crate) const fn new(by: M, next: S) -> Self {
        Self {
            by,
            next,
            wrong: None,
        }
    }

    /// What follows if only this changes.
    pub(crate) fn change(state: &S, by: M, change: impl FnOnce(&mut S)) -> Self
    where
        S: Copy,
    {
        let mut next = *state;
        change(&mut next);
        Self::new(by, next)
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// The shortest course that breaks a rule.
    pub(crate) violation: Option<Violation>,
}

/// A course that breaks a rule.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: String,
    /// Its steps.
    pub(crate) course: Vec<String>,
}

/// How a state was first reached: from which one, and by which of its steps; `None` for a start.
type Origin = (u32, Option<u16>);

/// What has been visited, and is to be visited next.
struct Visited<S> {
    known: HashSet<u128>,
    origins: Vec<Origin>,
    next_layer: Vec<S>,
}

impl<S: Hash> Visited<S> {
    fn take(&mut self, origin: Origin, state: S) {
        if self.known.insert(fingerprint(&state)) {
            self.origins.push(origin);
            self.next_layer.push(state);
        }
    }
}

/// Visits all states, those that are reached in the fewest steps first.
pub(crate) fn explore<M: Model>(model: &M) -> Found {
    let mut found = Found::default();
    let mut visited = Visited {
        known: HashSet::new(),
        origins: Vec::new(),
        next_layer: Vec::new(),
    };
    for start in model.starts() {
        visited.take((0, None), model.canonical(&start));
    }
    while !visited.next_layer.is_empty() {
        let layer = std::mem::take(&mut visited.next_layer);
        let first = visited.origins.len() - layer.len();
        for (place, state) in layer.iter().enumerate() {
            let from = (first + place) as u32;
            let mut number = 0;
            let mut wrong = None;
            model.steps(state, &mut |step| {
                match step.wrong {
                    Some(rule) if wrong.is_none() => wrong = Some((rule, number)),
                    _ => visited.take((from, Some(number)), model.canonical(&step.next)),
                }
                number += 1;
            });
            found.steps += usize::from(number);
            if let Some((rule, last)) = wrong {
                found.states = visited.origins.len();
                found.violation = Some(Violation {
                    rule,
                    course: course(model, &visited.origins, (from, last)),
                });
                return found;
            }
        }
    }
    found.states = visited.origins.len();
    found
}

/// The steps that lead to a state, and one more. Canonical states swap their nodes as they like, so
/// the course is taken a second time without that, by the steps that lead to the same ones.
fn course<M: Model>(model: &M, origins: &[Origin], (to, last): (u32, u16)) -> Vec<String> {
    let mut numbers = vec![last];
    let mut at = to as usize;
    while let (from, Some(number)) = origins[at] {
        numbers.push(number);
        at = from as usize;
    }
    let mut state = model.starts()[at];
    let mut canonical = model.canonical(&state);
    let mut words = Vec::new();
    for number in numbers.into_iter().rev() {
        let step = model.all_steps(&canonical).swap_remove(usize::from(number));
        canonical = model.canonical(&step.next);
        let to = fingerprint(&canonical);
        let leads_there = |same: &Step<_, _>| fingerprint(&model.canonical(&same.next)) == to;
        let same = model.all_steps(&state).into_iter().find(leads_there);
        let step = same.unwrap_or_else(|| {
            words.push("(nodes and clients change places)".to_owned());
            step
        });
        words.push(format!("{:?}", step.by));
        state = step.next;
    }
    words
}

fn fingerprint<S: Hash>(state: &S) -> u128 {
    let mut fnv = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    state.hash(&mut fnv);
    fnv.0
}

/// FNV-1a of 128 bits.
struct Fnv(u128);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
        }
    }

    /// The tag of an enum: there are few.
    #[inline(always)]
    fn write_isize(&mut self, tag: isize) {
        self.write_u8(tag as u8);
    }

    /// The length of an array, which is always the same.
    #[inline(always)]
    fn write_usize(&mut self, _length: usize) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every order of so many things.
    pub(crate) fn orders(things: usize) -> Vec<Vec<usize>> {
        let Some(last) = things.checked_sub(1) else {
            return vec![Vec::new()];
        };
        let mut orders = Vec::new();
        for order in self::orders(last) {
            for place in 0..things {
                let mut order = order.clone();
                order.insert(place, last);
                orders.push(order);
            }
        }
        orders
    }

    /// All states that can be reached, replaced by their canonical forms on the way, or not. States
    /// that differ only by the order of things are the same, with one fingerprint: `images` are all
    /// orders of one.
    fn reached<M: Model>(
        model: &M,
        replaced: impl Fn(&M::State) -> M::State,
        simple: impl Fn(&M::State) -> M::State,
        images: impl Fn(&M::State) -> Vec<M::State>,
    ) -> HashSet<u128> {
        let (mut known, mut known_simple) = (HashSet::new(), HashSet::new());
        let mut least = HashSet::new();
        let mut open = model.starts();
        while let Some(state) = open.pop() {
            if !known.insert(fingerprint(&state)) {
                continue;
            }
            let simple = simple(&state);
            if known_simple.insert(fingerprint(&simple)) {
                least.extend(images(&simple).iter().map(fingerprint).min());
            }
            model.steps(&state, &mut |step| open.push(replaced(&step.next)));
        }
        assert!(least.len() > 100);
        least
    }

    /// Nothing that can happen is lost when each state is replaced by its canonical form.
    pub(crate) fn assert_canonical_forms_lose_nothing<M: Model>(
        model: &M,
        images: impl Fn(&M::State) -> Vec<M::State>,
    ) {
        let simple = |state: &M::State| model.simple(state);
        let all = reached(model, |state| *state, simple, &images);
        let canonical = reached(model, |state| model.canonical(state), simple, &images);
        assert_eq!(all.difference(&canonical).count(), 0, "lost");
        assert_eq!(canonical.difference(&all).count(), 0, "impossible");
    }

    /// Nothing that can happen without sliding numbers is lost with them.
    pub(crate) fn assert_sliding_loses_nothing<M: Model>(
        fixed: &M,
        sliding: &M,
        images: impl Fn(&M::State) -> Vec<M::State>,
    ) {
        let simple = |state: &M::State| sliding.simple(state);
        let all = reached(fixed, |state| fixed.canonical(state), simple, &images);
        let slid = reached(sliding, |state| sliding.canonical(state), simple, &images);
        assert_eq!(all.difference(&slid).count(), 0, "lost");
    }
}
