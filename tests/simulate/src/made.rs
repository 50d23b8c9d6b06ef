//! What is known of keys beyond what their nodes know: which attempts made them, and what a request did
//! to them.

use redlock_protocol::{Act, Instant, Owner, Reply, Request, model::Key};

use crate::checker::{Tag, owner_of};

/// What is known of what one owner has under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    /// `None` for clients of other libraries.
    pub(crate) owner: Option<Owner>,
    /// The attempt that made it.
    pub(crate) tag: Tag,
    /// Made after its owner's release had been here, or from an old copy: nobody will come for it.
    pub(crate) orphan: bool,
    /// Since when it counts for its owner: what is put back does not, until it is extended.
    pub(crate) counts_since: Option<u64>,
}

/// What a script did, beyond its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// Made a key, or a part of one.
    Made,
    /// Deleted what this attempt had.
    Deleted(Tag),
    /// Extended what this attempt has.
    Extended(Tag),
    /// Said that what this attempt has is the asker's, and left it as it is.
    Kept(Tag),
}

/// One key on one node: several only if they share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Vec<Made>);

impl Parts {
    pub(crate) fn of_foreign() -> Self {
        Self(vec![Made {
            owner: None,
            tag: Tag::FOREIGN,
            orphan: false,
            counts_since: Some(0),
        }])
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, owner: Option<Owner>) -> Option<&Made> {
        self.0.iter().find(|made| made.owner == owner)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Made> {
        self.0.iter()
    }

    pub(crate) fn mark_orphans(&mut self, is_one: impl Fn(&Made) -> bool) {
        for made in self.0.iter_mut().filter(|made| is_one(made)) {
            made.orphan = true;
        }
    }

    /// Takes in what a request has done, and whether something has gone that had expired. What it did to
    /// others comes first. `now` is the node's time, and `at` is the world's.
    pub(crate) fn follow(
        &mut self,
        (before, after): (&[Key], &[Key]),
        (request, tag, reply): (&Request, Tag, &Reply),
        (now, at): (Instant, u64),
    ) -> (Effect, bool) {
        let of = |owner: Option<Owner>, among: &[Key]| {
            among.iter().find(|key| key.owner == owner).copied()
        };
        let mut effects = Vec::new();
        let mut has_expired = false;
        for key in before {
            let owned = self.get(key.owner).map_or(tag, |made| made.tag);
            match of(key.owner, after) {
                None => {
                    self.0.retain(|made| made.owner != key.owner);
                    has_expired |= !key.lives(now);
                    if key.lives(now) {
                        effects.push(Effect::Deleted(owned));
                    }
                }
                Some(after) if !key.lives(now) && after.lives(now) => {
                    self.0.retain(|made| made.owner != key.owner);
                }
                Some(after) if after != *key => effects.push(Effect::Extended(owned)),
                Some(_) => {}
            }
        }
        for key in after {
            if self.get(key.owner).is_none() {
                self.0.push(Made {
                    owner: key.owner,
                    tag,
                    orphan: false,
                    counts_since: (!matches!(request, Request::Vote(_, Act::PutBack)))
                        .then_some(at),
                });
                effects.push(Effect::Made);
            }
        }
        let owner = owner_of(request).map(|(_, owner)| owner);
        if let Reply::Extended { .. } = reply {
            for made in self.0.iter_mut().filter(|made| made.owner == owner) {
                made.counts_since.get_or_insert(at);
            }
        }
        let of_another = |effect: &&Effect| match effect {
            Effect::Deleted(owned) | Effect::Extended(owned) => *owned != tag,
            _ => false,
        };
        let first = effects.iter().find(of_another).or_else(|| effects.first());
        if let Some(effect) = first {
            return (*effect, has_expired);
        }
        let effect = match self.get(owner).or_else(|| self.0.first()) {
            Some(made) if is_ours(reply) => Effect::Kept(made.tag),
            _ => Effect::Nothing,
        };
        (effect, has_expired)
    }
}

/// The node says that the key is the asker's.
const fn is_ours(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Granted { .. } | Reply::Extended { .. } | Reply::PutBack | Reply::Ours
    )
}
