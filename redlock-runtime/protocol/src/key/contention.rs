//! What a key knows of others that want it. Most keys nobody else ever asks for, and a process may
//! hold a hundred thousand, so this is in a box that is made when a lock cannot be had at once.

use super::{Key, fairness::TurnOrder};
use crate::{
    action::Refusal,
    message::{NodeId, Owner},
    time::Instant,
};

#[derive(Debug)]
pub(super) struct Contention {
    pub(super) order: TurnOrder,
    /// The lock is left to other processes until then.
    pub(super) stand_back_until: Option<Instant>,
    /// The owner that held the lock when all nodes were asked last.
    pub(super) holder: Option<Option<Owner>>,
    /// The nodes that refused when all were asked last and the time before, and for whom. Not those
    /// of attempts that end a split.
    pub(super) refused: [Vec<(NodeId, Option<Owner>)>; 2],
    /// Why the last attempt failed: what a waiter is told that gives up.
    pub(super) last_refusal: Refusal,
}

impl Default for Contention {
    fn default() -> Self {
        Self {
            order: TurnOrder::default(),
            stand_back_until: None,
            holder: None,
            refused: Default::default(),
            last_refusal: Refusal::CONTENDED,
        }
    }
}

impl Contention {
    pub(super) fn on_own_turn(&mut self) {
        self.last_refusal = Refusal::CONTENDED;
        self.order.on_own_turn();
    }
}

impl Key {
    pub(super) fn contention(&mut self) -> &mut Contention {
        self.contention.get_or_insert_default()
    }

    pub(super) fn stand_back_until(&self) -> Option<Instant> {
        self.contention.as_ref()?.stand_back_until
    }

    pub(super) fn last_refusal(&self) -> &Refusal {
        static NONE: Refusal = Refusal::CONTENDED;
        let contention = self.contention.as_ref();
        contention.map_or(&NONE, |contention| &contention.last_refusal)
    }
}
