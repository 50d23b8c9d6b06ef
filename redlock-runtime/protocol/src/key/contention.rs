//! What a key knows of other processes that want it. No other process ever asks for most keys, and a process
//! may hold a hundred thousand, so this is in a box that is made when a lock cannot be had at once.

use super::{Cx, Key, fairness::TurnOrder, round::Round};
use crate::{
    action::Refusal,
    message::{NodeId, Owner},
    rules::quorum,
    time::Instant,
};

/// A node that has the key of another owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    node: NodeId,
    owner: Option<Owner>,
    /// It was so when it was asked first.
    since: Instant,
}

#[derive(Debug)]
pub(super) struct Contention {
    pub(super) order: TurnOrder,
    /// The lock is left to other processes until then.
    pub(super) stand_back_until: Option<Instant>,
    /// The owner that held the lock when all nodes were asked last.
    pub(super) holder: Option<Option<Owner>>,
    /// The nodes that refused when all were asked last. Not those of attempts that end a split.
    refused: Vec<Refused>,
    /// Why the last attempt failed: what a waiter is told that gives up.
    pub(super) last_refusal: Refusal,
}

impl Default for Contention {
    fn default() -> Self {
        Self {
            order: TurnOrder::default(),
            stand_back_until: None,
            holder: None,
            refused: Vec::new(),
            last_refusal: Refusal::CONTENDED,
        }
    }
}

impl Contention {
    pub(super) fn on_own_turn(&mut self) {
        self.last_refusal = Refusal::CONTENDED;
        self.order.on_own_turn();
    }

    /// Nodes other than the leader have been asked as well, and the lock was not to be had.
    pub(super) fn on_refusal(
        &mut self,
        round: &Round,
        is_held: bool,
        is_split: bool,
        now: Instant,
    ) {
        // All readers go by one name: those that are met next may be others, or what some have left.
        let is_one = |holder: &Option<Owner>| *holder != Some(Owner::READERS);
        self.holder = round.holder().filter(|_| is_held).filter(is_one);
        if is_split {
            self.refused
                .retain(|one| round.is_held_by(one.node, one.owner) != Some(false));
            return;
        }
        let before = std::mem::take(&mut self.refused);
        let refused = round.holders.iter().map(|&(node, owner)| {
            let is_same = |one: &&Refused| one.node == node && one.owner == owner;
            let known = before.iter().find(is_same).copied();
            let since = now;
            known.unwrap_or(Refused { node, owner, since })
        });
        self.refused = refused.collect();
    }
}

impl Key {
    /// The nodes that, when this began, had one owner's key for longer than an attempt waits for silent nodes.
    /// None of the processes that have just asked at once is that owner: all of them would be refused there,
    /// and their split would go on. And whether the nodes that refused are a minority.
    pub(super) fn leftovers(&self, began: Instant, cx: &Cx<'_>) -> (Vec<NodeId>, bool) {
        let Some(contention) = &self.contention else {
            return (Vec::new(), true);
        };
        let before = began.before(2 * cx.nodes.hedge_delay());
        let old = contention.refused.iter().filter(|one| one.since < before);
        let is_minority = contention.refused.len() < quorum::majority(cx.nodes.count());
        (old.map(|one| one.node).collect(), is_minority)
    }

    pub(super) fn contention(&mut self) -> &mut Contention {
        self.contention.get_or_insert_default()
    }

    /// The process has had its share, and leaves the lock to others until then.
    pub(crate) fn stand_back_until(&self) -> Option<Instant> {
        self.contention.as_ref()?.stand_back_until
    }

    pub(super) fn last_refusal(&self) -> &Refusal {
        static NONE: Refusal = Refusal::CONTENDED;
        let contention = self.contention.as_ref();
        contention.map_or(&NONE, |contention| &contention.last_refusal)
    }
}
