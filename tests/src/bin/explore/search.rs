//! All states that can be reached, each once.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
};

use crate::model::{Rules, State};

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) tokens: usize,
    /// What is wrong with the first token that is; nothing is explored after it.
    pub(crate) wrong: Option<String>,
}

pub(crate) fn explore(rules: &Rules) -> Found {
    let mut found = Found::default();
    let mut known: HashSet<State, BuildHasherDefault<Mixer>> = HashSet::default();
    let mut open = vec![State::default()];
    known.insert(State::default());
    while let (Some(state), None) = (open.pop(), &found.wrong) {
        if found.states == rules.most {
            break;
        }
        found.states += 1;
        state.steps(rules, |step| {
            found.steps += 1;
            found.tokens += usize::from(step.is_won);
            if step.wrong.is_some() {
                found.wrong = step.wrong;
            } else if known.insert(step.next) {
                open.push(step.next);
            }
        });
    }
    found
}

/// Far faster than the standard one, and nobody chooses the states to make it slow.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
