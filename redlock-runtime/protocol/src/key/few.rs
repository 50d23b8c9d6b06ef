//! Lists that are short nearly always.

use std::ops::Deref;

/// Nearly always empty. Takes one word then, where a `Vec` takes three: each key has some.
#[derive(Debug)]
#[allow(
    clippy::box_collection,
    reason = "the list itself is the box's content"
)]
pub(super) struct Few<T>(Option<Box<Vec<T>>>);

impl<T> Few<T> {
    pub(super) fn push(&mut self, one: T) {
        self.0.get_or_insert_default().push(one);
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flat_map(|list| list.iter_mut())
    }

    /// Takes out one that is `out`. The last one takes its place.
    pub(super) fn take(&mut self, out: impl FnMut(&T) -> bool) -> Option<T> {
        let place = self.iter().position(out)?;
        let taken = self.0.as_mut()?.swap_remove(place);
        self.0.take_if(|list| list.is_empty());
        Some(taken)
    }

    /// Takes out all that are `out`, and keeps the order of the others.
    pub(super) fn extract(&mut self, out: impl FnMut(&mut T) -> bool) -> Vec<T> {
        let taken = self
            .0
            .as_mut()
            .map(|list| list.extract_if(.., out).collect());
        self.0.take_if(|list| list.is_empty());
        taken.unwrap_or_default()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| list.into()))
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list)
    }
}
