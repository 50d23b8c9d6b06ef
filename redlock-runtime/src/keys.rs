//! What a section locks.

use std::sync::Arc;

use redlock_protocol::{Member, Mode};

/// What is locked, at least one.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Arc<str>),
    /// In a box, since each section has this.
    Listed(Arc<Listed>),
}

/// Several keys, all or none, or one or more of the permits of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// One member, if they are permits.
    members: Vec<Member>,
    are_permits: bool,
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
        Self::listed_as(members, false, problem)
    }

    /// One or more of the permits of a lock.
    pub(crate) fn permits_of(member: Member) -> Self {
        Self::listed_as(vec![member], true, None)
    }

    fn listed_as(members: Vec<Member>, are_permits: bool, problem: Option<&'static str>) -> Self {
        Self::Listed(Arc::new(Listed {
            text: text_of(&members),
            members,
            are_permits,
            problem,
        }))
    }

    fn as_listed(&self) -> Option<&Listed> {
        match self {
            Self::One(_) => None,
            Self::Listed(listed) => Some(listed),
        }
    }

    /// What is wrong with them, if they are several.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        self.as_listed()?.problem
    }

    /// All or none of them, if they are several.
    pub(crate) fn several(&self) -> Option<&[Member]> {
        let listed = self.as_listed()?;
        (!listed.are_permits).then_some(&*listed.members)
    }

    /// How many permits the lock has, if they are some of its permits.
    pub(crate) fn permits(&self) -> Option<u32> {
        let listed = self.as_listed()?;
        listed.are_permits.then(|| listed.members[0].permits)
    }

    /// Each of them, unless it is one key.
    pub(crate) fn listed(&self) -> &[Member] {
        self.as_listed().map_or(&[], |listed| &listed.members)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        let one = match self {
            Self::One(key) => Some(key),
            Self::Listed(_) => None,
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
            Self::Listed(listed) => listed.members.clone(),
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
            Self::Listed(listed) => {
                let listed = Arc::make_mut(listed);
                let members = listed.members.iter_mut();
                members.for_each(|member| put_before(&mut member.key));
                listed.text = text_of(&listed.members);
            }
        }
    }

    /// What errors name.
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::One(key) => key,
            Self::Listed(listed) => &listed.text,
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
