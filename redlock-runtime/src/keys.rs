//! What a section locks.

use std::sync::Arc;

use redlock_protocol::{Member, Mode};

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
    /// One or more of the permits of a lock.
    Permits(Member),
}

#[derive(Clone, Debug)]
pub(crate) struct All {
    members: Vec<Member>,
    /// What errors name.
    text: Arc<str>,
    /// What is wrong with a member, or with two of them.
    problem: Option<&'static str>,
}

impl Keys {
    /// Each of them once. Of one key, too, the rules are those of several: how many there are may be known at
    /// run time only.
    pub(crate) fn all(listed: impl IntoIterator<Item = (Member, Option<&'static str>)>) -> Self {
        let (mut members, mut problem) = (Vec::<Member>::new(), None);
        for (member, of_member) in listed {
            problem = problem.or(of_member);
            match members.iter().find(|known| are_one_lock(known, &member)) {
                Some(known) if *known == member => {}
                Some(_) => problem = Some("a key is in the list twice, in two ways"),
                None => members.push(member),
            }
        }
        let text = text_of(&members);
        Self::Other(
            Other::All(All {
                members,
                text,
                problem,
            })
            .into(),
        )
    }

    fn as_all(&self) -> Option<&All> {
        match self {
            Self::Other(other) => match &**other {
                Other::All(all) => Some(all),
                Other::Permits(_) => None,
            },
            Self::One(_) => None,
        }
    }

    /// What is wrong with them, if they are several.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        self.as_all()?.problem
    }

    /// All or none of them, if they are several.
    pub(crate) fn several(&self) -> Option<&[Member]> {
        Some(&self.as_all()?.members)
    }

    /// Each of them, unless it is one key.
    pub(crate) fn listed(&self) -> &[Member] {
        match self {
            Self::One(_) => &[],
            Self::Other(other) => match &**other {
                Other::All(all) => &all.members,
                Other::Permits(member) => std::slice::from_ref(member),
            },
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        let one = match self {
            Self::One(key) => Some(key),
            Self::Other(_) => None,
        };
        let listed = self.listed().iter().map(|member| &member.key);
        one.into_iter().chain(listed)
    }

    /// Each of them; all are shared if `is_shared` says so and they are not several.
    fn members(&self, is_shared: bool) -> Vec<Member> {
        let mode = match is_shared {
            true => Mode::Shared,
            false => Mode::Exclusive,
        };
        match self {
            Self::One(key) => vec![Member {
                mode,
                ..Member::alone(Arc::clone(key))
            }],
            Self::Other(_) => self.listed().to_vec(),
        }
    }

    /// It is to have one of them alone that the others share. If they are not several, `is_shared` says of each whether
    /// it shares its key.
    pub(crate) fn upgrade(&self, others: &Self, is_shared: (bool, bool)) -> bool {
        let others = others.members(is_shared.1);
        self.members(is_shared.0).iter().any(|own| {
            let is_shared = |other: &Member| own.key == other.key && other.mode == Mode::Shared;
            own.mode == Mode::Exclusive && own.permits == 0 && others.iter().any(is_shared)
        })
    }

    pub(crate) fn put_before(&mut self, prefix: &str) {
        if prefix.is_empty() {
            return;
        }
        let put_before = |key: &mut Arc<str>| *key = format!("{prefix}{key}").into();
        match self {
            Self::One(key) => put_before(key),
            Self::Other(other) => match Arc::make_mut(other) {
                Other::All(all) => {
                    let members = all.members.iter_mut();
                    members.for_each(|member| put_before(&mut member.key));
                    all.text = text_of(&all.members);
                }
                Other::Permits(member) => put_before(&mut member.key),
            },
        }
    }

    /// What errors name.
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::One(key) => key,
            Self::Other(other) => match &**other {
                Other::All(all) => &all.text,
                Other::Permits(member) => &member.key,
            },
        }
    }

    /// Who has the others needs none of these: no key is beside them, and no more of its permits. One of many permits
    /// is none of fewer.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        let others = others.members(false);
        self.members(false).iter().all(|own| {
            let is_it = |other: &Member| {
                let is_enough = own.permits >= other.permits && own.weight <= other.weight;
                are_one_lock(own, other) && is_enough
            };
            others.iter().any(is_it)
        })
    }

    pub(crate) fn permits(&self) -> Option<u32> {
        match self {
            Self::Other(other) => match &**other {
                Other::Permits(member) => Some(member.permits),
                Other::All(_) => None,
            },
            Self::One(_) => None,
        }
    }

    /// One of them is among these.
    pub(crate) fn meet(&self, others: &Self) -> bool {
        let others = others.members(false);
        let is_there = |own: &Member| others.iter().any(|other| are_one_lock(own, other));
        self.members(false).iter().any(is_there)
    }
}

fn text_of(members: &[Member]) -> Arc<str> {
    if let [only] = members {
        return Arc::clone(&only.key);
    }
    let keys: Vec<&str> = members.iter().map(|member| &*member.key).collect();
    keys.join(", ").into()
}

/// The permits of a key are another lock than the key.
fn are_one_lock(one: &Member, other: &Member) -> bool {
    one.key == other.key && (one.permits > 0) == (other.permits > 0)
}
