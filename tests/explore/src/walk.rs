//! Walks at random, where there are too many states to visit each.

use std::{
    collections::HashMap,
    mem::{self, Discriminant},
};

use crate::search::{Found, Model, Step, Violation};

/// Goes `walks` times up to `length` steps at random. In each walk some kinds of steps are far more
/// likely than others, and different ones each time: if all were alike, what ends something would
/// happen as often as what carries it on, and little would ever be complete.
pub(crate) fn walk<M: Model>(model: &M, walks: usize, length: usize, seed: u64) -> Found {
    let mut found = Found::default();
    let mut random = Random(seed);
    let starts = model.starts();
    for _ in 0..walks {
        let mut state = starts[random.below(starts.len())];
        let mut likelihoods = HashMap::new();
        let mut words = Vec::new();
        for _ in 0..length {
            let steps = model.all_steps(&state);
            let Some(step) = pick(steps, &mut likelihoods, &mut random) else {
                break;
            };
            found.steps += 1;
            words.push(step.by);
            if let Some(rule) = step.wrong {
                let course = words.iter().map(|by| format!("{by:?}")).collect();
                found.violation = Some(Violation { rule, course });
                return found;
            }
            state = step.next;
        }
    }
    found
}

/// One of these steps. How likely each kind is stays the same in one walk. First a kind is picked, so that
/// many steps of one do not crowd out the others.
fn pick<M, S>(
    mut steps: Vec<Step<M, S>>,
    likelihoods: &mut HashMap<Discriminant<M>, usize>,
    random: &mut Random,
) -> Option<Step<M, S>> {
    let mut kinds: Vec<(Discriminant<M>, usize)> = Vec::new();
    for step in &steps {
        let kind = mem::discriminant(&step.by);
        if kinds.iter().all(|(other, _)| *other != kind) {
            let drawn = || 1 << (2 * random.below(5));
            kinds.push((kind, *likelihoods.entry(kind).or_insert_with(drawn)));
        }
    }
    let sum: usize = kinds.iter().map(|(_, likelihood)| likelihood).sum();
    let mut left = random.below(sum.max(1));
    let (kind, _) = kinds.into_iter().find(|(_, likelihood)| {
        let is_it = left < *likelihood;
        left = left.saturating_sub(*likelihood);
        is_it
    })?;
    steps.retain(|step| mem::discriminant(&step.by) == kind);
    let place = random.below(steps.len());
    Some(steps.swap_remove(place))
}

/// The same numbers for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}
