//! Mutates inputs as long as they do something new, without another compiler or instrumentation: a target says
//! itself what an input has done. Its chance is that of other tests, too.
//!
//! The inputs in `corpus/<target>` are tried first, so that each test run replays them. These variables change a run:
//!
//! - `REDLOCK_FUZZ_INPUTS`: how many mutated inputs are tried, by default 2 000
//! - `REDLOCK_FUZZ_SEED`: which ones
//! - `REDLOCK_FUZZ_SAVE=1`: the inputs that did what few others did replace those in the folder
//!
//! ```text
//! REDLOCK_FUZZ_INPUTS=10000000 REDLOCK_FUZZ_SAVE=1 cargo test --release -p redlock-runtime --lib fuzz_replies
//! ```
//!
//! Cargo does not optimize a crate of macros, not even for its tests. With
//! `CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL=3`, its targets are three times as fast.

use std::{
    collections::HashMap,
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    str::FromStr,
};

/// Inputs are cut to this length.
const LONGEST: usize = 600;

/// So many are saved for each target.
const SAVED: usize = 30;

/// What an input has done: each feature that no input before it had makes it worth to be mutated.
#[derive(Debug, Default)]
pub struct Features(Vec<u64>);

impl Features {
    /// Notes one; best of a kind of which there are some hundred.
    pub fn add(&mut self, feature: impl Hash) {
        let mut hasher = DefaultHasher::new();
        feature.hash(&mut hasher);
        self.0.push(hasher.finish());
    }

    /// Notes the words of a message without what was quoted, and without numbers.
    pub fn add_message(&mut self, message: &str) {
        let is_odd = |place: usize| place % 2 == 1;
        let parts = message.split('`').enumerate();
        let plain = parts.filter(|(place, _)| !is_odd(*place)).map(|(_, it)| it);
        let words: String = plain
            .flat_map(str::chars)
            .filter(|it| it.is_ascii_alphabetic())
            .collect();
        self.add(words);
    }
}

/// Tries the inputs of the corpus `name` on `target`, and then mutated ones, made of them and of `words`.
///
/// # Panics
///
/// If `target` does. What it was given is written to stderr.
pub fn fuzz(name: &str, words: &[&str], mut target: impl FnMut(&[u8], &mut Features)) {
    let mut run = Run {
        random: Random::new(setting("REDLOCK_FUZZ_SEED", 1)),
        words,
        pool: Vec::new(),
        counts: HashMap::new(),
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let saved = saved(&folder);
    assert!(
        !saved.is_empty(),
        "there is nothing in {}",
        folder.display()
    );
    for input in &saved {
        run.attempt(input, &mut target);
    }
    for _ in 0..setting("REDLOCK_FUZZ_INPUTS", 2_000) {
        let input = run.mutated();
        run.attempt(&input, &mut target);
    }
    if env::var_os("REDLOCK_FUZZ_SAVE").is_some() {
        eprintln!(
            "{name}: {} features, {} inputs",
            run.counts.len(),
            run.pool.len()
        );
        for path in fs::read_dir(&folder).expect("it was read").flatten() {
            fs::remove_file(path.path()).expect("it can be replaced");
        }
        for (place, input) in run.rarest().iter().enumerate() {
            fs::write(folder.join(format!("{place:02}")), input).expect("it can be written");
        }
    }
}

/// In the order of their names.
fn saved(folder: &PathBuf) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).expect("the file can be read");
    paths.iter().map(read).collect()
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    let set = env::var(name).ok();
    set.and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Says what was tried when something panics.
struct Tried<'a>(&'a [u8]);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("tried b\"{}\"", self.0.escape_ascii());
        }
    }
}

struct Run<'a> {
    random: Random,
    words: &'a [&'a str],
    /// Those that did something new, and what they did.
    pool: Vec<(Vec<u8>, Vec<u64>)>,
    /// How many inputs had each feature.
    counts: HashMap<u64, u64>,
}

impl Run<'_> {
    fn attempt(&mut self, input: &[u8], target: &mut impl FnMut(&[u8], &mut Features)) {
        let mut features = Features::default();
        {
            let _tried = Tried(input);
            target(input, &mut features);
        }
        let mut features = features.0;
        features.sort_unstable();
        features.dedup();
        let mut is_new = false;
        for feature in &features {
            let count = self.counts.entry(*feature).or_default();
            is_new |= *count == 0;
            *count += 1;
        }
        if is_new {
            self.pool.push((input.to_vec(), features));
        }
    }

    fn mutated(&mut self) -> Vec<u8> {
        let mut input = self.parent();
        for _ in 0..=self.random.index(4) {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn parent(&mut self) -> Vec<u8> {
        let place = self.random.index(self.pool.len().max(1));
        self.pool
            .get(place)
            .map_or_else(Vec::new, |(input, _)| input.clone())
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.index(input.len() + 1);
        let to = (at + self.random.index(8)).min(input.len());
        match self.random.index(8) {
            0 | 1 if !self.words.is_empty() => {
                let word = self.words[self.random.index(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            2 if !self.words.is_empty() => {
                let word = self.words[self.random.index(self.words.len())];
                input.splice(at..to, word.bytes());
            }
            3 => drop(input.drain(at..to)),
            4 => {
                let copy = input[at..to].to_vec();
                let there = self.random.index(input.len() + 1);
                input.splice(there..there, copy);
            }
            5 => {
                let other = self.parent();
                let from = self.random.index(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            6 if at < input.len() => {
                input[at] = input[at].wrapping_add(1 + self.random.index(2) as u8)
            }
            _ => {
                let byte = self.random.next() as u8;
                input.splice(at..to.min(at + 1), [byte]);
            }
        }
    }

    /// The inputs one feature of which the fewest others had.
    fn rarest(&self) -> Vec<&[u8]> {
        let rarity = |features: &[u64]| features.iter().map(|it| self.counts[it]).min();
        let mut inputs: Vec<_> = self.pool.iter().collect();
        inputs.sort_by_key(|(input, features)| (rarity(features), input.len()));
        let inputs = inputs.iter().take(SAVED);
        inputs.map(|(input, _)| &**input).collect()
    }
}

/// Chance that repeats itself: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From zero up to, but not including, `end`; zero if there is nothing below it.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A place among so many.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    /// Two times out of three.
    pub fn maybe<T>(&mut self, value: T) -> Option<T> {
        (!self.one_in(3)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes three steps is found, because each of them is new.
    #[test]
    fn what_does_something_new_is_mutated_further() {
        let mut found = false;
        let mut run = Run {
            random: Random::new(1),
            words: &["a", "b", "c"],
            pool: Vec::new(),
            counts: HashMap::new(),
        };
        let mut target = |input: &[u8], features: &mut Features| {
            let depth = input
                .iter()
                .zip(b"abcabc")
                .take_while(|(one, other)| one == other);
            let depth = depth.count();
            features.add(depth);
            found |= depth == 6;
        };
        run.attempt(b"", &mut target);
        for _ in 0..20_000 {
            let input = run.mutated();
            run.attempt(&input, &mut target);
        }
        assert!(found);
        assert!(run.rarest()[0].starts_with(b"abcabc"));
    }

    #[test]
    fn messages_are_alike_if_only_what_they_quote_differs() {
        let features = |message: &str| {
            let mut features = Features::default();
            features.add_message(message);
            features.0
        };
        assert_eq!(
            features("no `a` in 5 places"),
            features("no `b` in 7 places")
        );
        assert_ne!(
            features("no `a` in 5 places"),
            features("one `a` in 5 places")
        );
    }
}
