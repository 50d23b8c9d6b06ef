//! Visits all states that can be reached, each once, breadth first.
//!
//! A state that was visited is known by a fingerprint of 128 bits. That two of a hundred million
//! states have the same is less likely than one in 10^22.

use std::{
    collections::HashSet,
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// What can happen.
pub(crate) trait Model {
    /// One moment.
    type State: Copy + Hash;
    /// What leads from one moment to the next.
    type Move: Copy + PartialEq + fmt::Debug;

    /// Where a course can begin.
    fn starts(&self) -> Vec<Self::State>;

    /// Hands every state that can follow to `take`.
    fn steps(&self, state: &Self::State, take: &mut impl FnMut(Step<Self::Move, Self::State>));

    /// The state without what cannot matter any more.
    fn simple(&self, state: &Self::State) -> Self::State;

    /// The same, with nodes and clients in an order that is the same for most states that differ by
    /// nothing else.
    fn canonical(&self, state: &Self::State) -> Self::State;
}

/// One step of a course.
#[derive(Debug)]
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

/// How a state was first reached.
struct Origin<M> {
    from: u32,
    /// `None` for a start.
    by: Option<M>,
}

/// What has been visited, and is to be visited next.
struct Visited<M: Model> {
    known: HashSet<u128, BuildHasherDefault<Fingerprints>>,
    origins: Vec<Origin<M::Move>>,
    next_layer: Vec<M::State>,
}

impl<M: Model> Visited<M> {
    fn take(&mut self, from: u32, by: Option<M::Move>, state: M::State) {
        if self.known.insert(fingerprint(&state)) {
            self.origins.push(Origin { from, by });
            self.next_layer.push(state);
        }
    }
}

/// A fingerprint is a hash already.
#[derive(Default)]
struct Fingerprints(u64);

impl Hasher for Fingerprints {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("fingerprints are numbers");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }
}

/// Visits all states, those that are reached in the fewest steps first.
pub(crate) fn explore<M: Model>(model: &M) -> Found {
    let mut found = Found::default();
    let mut visited = Visited::<M> {
        known: HashSet::default(),
        origins: Vec::new(),
        next_layer: Vec::new(),
    };
    for start in model.starts() {
        visited.take(0, None, model.canonical(&start));
    }
    while !visited.next_layer.is_empty() {
        let layer = std::mem::take(&mut visited.next_layer);
        let first = visited.origins.len() - layer.len();
        for (place, state) in layer.iter().enumerate() {
            let from = (first + place) as u32;
            let mut wrong = None;
            model.steps(state, &mut |step| {
                found.steps += 1;
                if step.wrong.is_some() && wrong.is_none() {
                    wrong = Some(step);
                } else {
                    visited.take(from, Some(step.by), model.canonical(&step.next));
                }
            });
            if let Some(step) = wrong {
                found.states = visited.origins.len();
                found.violation = Some(Violation {
                    rule: step.wrong.unwrap_or_default(),
                    course: course(model, &visited.origins, from, step.by),
                });
                return found;
            }
        }
    }
    found.states = visited.origins.len();
    found
}

/// The steps that lead to a state, and one more. Canonical states swap their nodes as they like, so
/// the course is taken a second time without that.
fn course<M: Model>(model: &M, origins: &[Origin<M::Move>], to: u32, last: M::Move) -> Vec<String> {
    let mut moves = vec![last];
    let mut at = to;
    while let Origin { from, by: Some(by) } = origins[at as usize] {
        moves.push(by);
        at = from;
    }
    moves.reverse();
    let mut starts = model.starts().into_iter();
    let retraced = starts.find_map(|start| retrace(model, start, &moves));
    retraced.unwrap_or_else(|| {
        let mut words = vec!["(nodes and clients change places from step to step)".to_owned()];
        words.extend(moves.iter().map(|by| format!("{by:?}")));
        words
    })
}

/// The fingerprints along a course that begins here, if there is one with these moves.
fn leads_along<M: Model>(model: &M, start: &M::State, moves: &[M::Move]) -> Option<Vec<u128>> {
    let mut state = model.canonical(start);
    let mut along = Vec::new();
    for &by in moves {
        let mut next = None;
        model.steps(&state, &mut |step| {
            if step.by == by {
                next = Some(step.next);
            }
        });
        state = model.canonical(&next?);
        along.push(fingerprint(&state));
    }
    Some(along)
}

/// The same course with every node in its place.
fn retrace<M: Model>(model: &M, start: M::State, moves: &[M::Move]) -> Option<Vec<String>> {
    let mut state = start;
    let mut words = Vec::new();
    for to in leads_along(model, &start, moves)? {
        let mut found = None;
        model.steps(&state, &mut |step| {
            if found.is_none() && fingerprint(&model.canonical(&step.next)) == to {
                found = Some((step.by, step.next));
            }
        });
        let (by, next) = found?;
        words.push(format!("{by:?}"));
        state = next;
    }
    Some(words)
}

fn fingerprint<S: Hash>(state: &S) -> u128 {
    let mut lanes = Lanes::default();
    state.hash(&mut lanes);
    lanes.both()
}

/// Collects bytes to words of eight, and mixes those into two numbers.
struct Lanes {
    word: u64,
    bytes: u32,
    one: u64,
    two: u64,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            word: 0,
            bytes: 0,
            one: 0x9e37_79b9_7f4a_7c15,
            two: 0xd6e8_feb8_6659_fd93,
        }
    }
}

impl Lanes {
    #[inline(always)]
    fn mix(&mut self) {
        let one = (self.one ^ self.word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.one = (one ^ (one >> 32))
            .wrapping_mul(0xc4ce_b9fe_1a85_ec53)
            .rotate_left(29);
        let two = (self.two ^ self.word).wrapping_mul(0xa076_1d64_78bd_642f);
        self.two = (two ^ (two >> 29))
            .wrapping_mul(0xe703_7ed1_a0b4_28db)
            .rotate_left(31);
        self.word = 0;
        self.bytes = 0;
    }

    #[inline(always)]
    fn both(mut self) -> u128 {
        self.mix();
        let (one, two) = (self.one ^ (self.one >> 31), self.two ^ (self.two >> 33));
        u128::from(one) << 64 | u128::from(two)
    }
}

impl Hasher for Lanes {
    fn finish(&self) -> u64 {
        self.one ^ self.two
    }

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }

    #[inline(always)]
    fn write_u8(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (8 * self.bytes);
        self.bytes += 1;
        if self.bytes == 8 {
            self.mix();
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
    /// that differ only by the order of things are the same: `images` are all orders of one.
    fn reached<M: Model>(
        model: &M,
        images: impl Fn(&M::State) -> Vec<M::State>,
        in_place: bool,
    ) -> HashSet<u128> {
        let mut known = HashSet::new();
        let mut reached = Orbits::new(&images);
        let mut open = model.starts();
        while let Some(state) = open.pop() {
            if known.insert(fingerprint(&state)) {
                reached.take_in(&model.simple(&state));
                model.steps(&state, &mut |step| {
                    open.push(if in_place {
                        step.next
                    } else {
                        model.canonical(&step.next)
                    });
                });
            }
        }
        reached.least
    }

    /// One fingerprint for all orders of a state.
    struct Orbits<I> {
        images: I,
        known: HashSet<u128>,
        least: HashSet<u128>,
    }

    impl<I> Orbits<I> {
        fn new(images: I) -> Self {
            let (known, least) = (HashSet::new(), HashSet::new());
            Self {
                images,
                known,
                least,
            }
        }

        fn take_in<S: Hash>(&mut self, state: &S)
        where
            I: Fn(&S) -> Vec<S>,
        {
            if self.known.insert(fingerprint(state)) {
                let images = (self.images)(state);
                self.least.extend(images.iter().map(fingerprint).min());
            }
        }
    }

    /// Nothing that can happen is lost when each state is replaced by its canonical form.
    pub(crate) fn assert_canonical_forms_lose_nothing<M: Model>(
        model: &M,
        images: impl Fn(&M::State) -> Vec<M::State>,
    ) {
        let all = reached(model, &images, true);
        let canonical = reached(model, &images, false);
        assert!(all.len() > 100);
        assert_eq!(all.difference(&canonical).count(), 0, "lost");
        assert_eq!(canonical.difference(&all).count(), 0, "impossible");
    }

    /// Nothing that can happen without sliding numbers is lost with them.
    pub(crate) fn assert_sliding_loses_nothing<M: Model>(
        fixed: &M,
        sliding: &M,
        images: impl Fn(&M::State) -> Vec<M::State>,
    ) {
        let mut known = HashSet::new();
        let mut slid = Orbits::new(&images);
        let mut open = fixed.starts();
        while let Some(state) = open.pop() {
            if known.insert(fingerprint(&state)) {
                slid.take_in(&sliding.simple(&state));
                fixed.steps(&state, &mut |step| open.push(fixed.canonical(&step.next)));
            }
        }
        let reached = reached(sliding, &images, false);
        assert!(slid.least.len() > 100);
        assert_eq!(slid.least.difference(&reached).count(), 0, "lost");
    }

    #[test]
    fn fingerprints_differ_wherever_states_do() {
        let mut fingerprints = HashSet::new();
        for one in 0..100_u8 {
            for two in 0..100_u8 {
                assert!(fingerprints.insert(fingerprint(&[one, 0, 0, 0, 0, 0, 0, 0, 0, two])));
            }
        }
    }
}
