//! The fingerprints of all states that were visited.
//!
//! Nearly all the time of an exploration goes into waiting for memory, so a fingerprint is found with one
//! look at it, and many are looked for together.

/// A table with open addresses; zero is an empty place.
pub(crate) struct Known {
    places: Vec<u128>,
    len: usize,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            places: vec![0; 1 << 10],
            len: 0,
        }
    }
}

impl Known {
    /// Calls memory for these at once, so that it need not be waited for one by one.
    pub(crate) fn call(&self, fingerprints: impl Iterator<Item = u128>) {
        let parts = fingerprints.map(|fingerprint| self.places[self.place(fingerprint)] as u64);
        std::hint::black_box(parts.fold(0, |all, part| all ^ part));
    }

    /// True if it was not known.
    pub(crate) fn insert(&mut self, fingerprint: u128) -> bool {
        let fingerprint = fingerprint.max(1);
        if !Self::put(&mut self.places, fingerprint) {
            return false;
        }
        self.len += 1;
        if self.len > self.places.len() / 2 {
            let more = vec![0; 2 * self.places.len()];
            let places = std::mem::replace(&mut self.places, more);
            for fingerprint in places.into_iter().filter(|&fingerprint| fingerprint != 0) {
                Self::put(&mut self.places, fingerprint);
            }
        }
        true
    }

    fn put(places: &mut [u128], fingerprint: u128) -> bool {
        let last = places.len() - 1;
        let mut at = fingerprint as usize & last;
        loop {
            if places[at] == fingerprint {
                return false;
            }
            if places[at] == 0 {
                places[at] = fingerprint;
                return true;
            }
            at = (at + 1) & last;
        }
    }

    const fn place(&self, fingerprint: u128) -> usize {
        fingerprint as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_though_many_have_the_same_place() {
        let mut known = Known::default();
        let all = || (0..5_000_u128).map(|number| (number << 64) | (number % 7));
        assert!(all().skip(1).all(|fingerprint| known.insert(fingerprint)));
        assert!(!all().any(|fingerprint| known.insert(fingerprint.max((1 << 64) | 1))));
        assert_eq!(known.len, 4_999);
    }
}
