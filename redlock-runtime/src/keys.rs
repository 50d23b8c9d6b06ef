//! What a section locks.

use std::sync::Arc;

use redlock_protocol::Mode;

/// What is locked, at least one.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// In a box, since each section has this.
    Other(Arc<Other>),
}

#[derive(Clone, Debug)]
pub(crate) enum Other {
    /// All or none.
    All(All),
    /// One of this number of permits.
    Permit(Arc<str>, u32),
}

#[derive(Clone, Debug)]
pub(crate) struct All {
    keys: Vec<Arc<str>>,
    /// Of each key.
    kinds: Vec<Kind>,
    /// What is wrong with a member, or with two of them.
    problem: Option<&'static str>,
}

/// Beside whom a section has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) mode: Mode,
    /// Zero if it is no permit.
    pub(crate) permits: u32,
}

impl Keys {
    /// Each of them once. Of one key, too, the rules are those of several: how many there are may be known at
    /// run time only.
    pub(crate) fn all(
        members: impl IntoIterator<Item = (Arc<str>, Kind, Option<&'static str>)>,
    ) -> Self {
        let (mut keys, mut kinds, mut problem) = (Vec::new(), Vec::<Kind>::new(), None);
        for (key, kind, of_member) in members {
            problem = problem.or(of_member);
            let is_same = |(other, its): (&Arc<str>, &Kind)| {
                *other == key && its.is_permit() == kind.is_permit()
            };
            match keys.iter().zip(&kinds).position(is_same) {
                Some(place) if kinds[place] == kind => {}
                Some(_) => problem = Some("a key is in the list twice, in two ways"),
                None => {
                    keys.push(key);
                    kinds.push(kind);
                }
            }
        }
        let all = All {
            keys,
            kinds,
            problem,
        };
        Self::Other(Other::All(all).into())
    }

    fn as_all(&self) -> Option<&All> {
        match self {
            Self::Other(other) => match &**other {
                Other::All(all) => Some(all),
                Other::Permit(..) => None,
            },
            Self::One(_) => None,
        }
    }

    /// What is wrong with them, if they are several.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        self.as_all()?.problem
    }

    /// Empty if they are not several.
    pub(crate) fn members(&self) -> Vec<redlock_protocol::Member> {
        let all = self.as_all();
        let pairs = all
            .into_iter()
            .flat_map(|all| all.keys.iter().zip(&all.kinds));
        let member = |(key, kind): (&Arc<str>, &Kind)| redlock_protocol::Member {
            key: Arc::clone(key),
            permits: kind.permits,
            mode: kind.mode,
        };
        pairs.map(member).collect()
    }

    /// Each key, and in which way; all are shared if `is_shared` says so and they are not several.
    fn kinds(&self, is_shared: bool) -> impl Iterator<Item = (&Arc<str>, Kind)> {
        let mode = match is_shared {
            true => Mode::Shared,
            false => Mode::Exclusive,
        };
        let permits = self.permits().unwrap_or_default();
        let all = self.as_all();
        let keys = self.as_slice().iter().enumerate();
        keys.map(move |(place, key)| {
            let kind = all.map_or(Kind { mode, permits }, |all| all.kinds[place]);
            (key, kind)
        })
    }

    /// It is to have one of them alone that the others share. If they are not several, `is_shared` says of each whether
    /// it shares its key.
    pub(crate) fn upgrade(&self, others: &Self, is_shared: (bool, bool)) -> bool {
        self.kinds(is_shared.0).any(|(key, kind)| {
            let is_it = |(other, its): (&Arc<str>, Kind)| {
                other == key && its.mode == Mode::Shared && !kind.is_permit()
            };
            kind.mode == Mode::Exclusive && others.kinds(is_shared.1).any(is_it)
        })
    }

    pub(crate) fn put_before(&mut self, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        let prefixed = |key: &Arc<str>| Arc::from(format!("{prefix}{key}"));
        match self {
            Self::One(key) => *key = prefixed(key),
            Self::Other(other) => match Arc::make_mut(other) {
                Other::All(all) => all.keys = all.keys.iter().map(prefixed).collect(),
                Other::Permit(key, _) => *key = prefixed(key),
            },
        }
    }

    /// What errors name.
    pub(crate) fn text(&self) -> Arc<str> {
        match self.as_slice() {
            [only] => Arc::clone(only),
            keys => keys.join(", ").into(),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Other(other) => match &**other {
                Other::All(all) => &all.keys,
                Other::Permit(key, _) => std::slice::from_ref(key),
            },
        }
    }

    /// All or none of them.
    pub(crate) fn are_several(&self) -> bool {
        self.as_all().is_some()
    }

    /// Who has the others needs none of these: no key is beside them. One of many permits is none of
    /// fewer.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        let mut keys = self.kinds(false);
        keys.all(|(key, kind)| {
            let is_it = |(other, its): (&Arc<str>, Kind)| {
                other == key && kind.is_permit() == its.is_permit() && kind.permits >= its.permits
            };
            others.kinds(false).any(is_it)
        })
    }

    pub(crate) fn permits(&self) -> Option<u32> {
        match self {
            Self::Other(other) => match **other {
                Other::Permit(_, permits) => Some(permits),
                Other::All(_) => None,
            },
            Self::One(_) => None,
        }
    }

    /// One of them is among these. The permits of a key are another lock than the key.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        self.kinds(false).any(|(key, kind)| {
            let is_it = |(other, its): (&Arc<str>, Kind)| {
                other == key && kind.is_permit() == its.is_permit()
            };
            others.kinds(false).any(is_it)
        })
    }
}

impl Kind {
    pub(crate) const EXCLUSIVE: Self = Self {
        mode: Mode::Exclusive,
        permits: 0,
    };

    const fn is_permit(self) -> bool {
        self.permits > 0
    }
}
