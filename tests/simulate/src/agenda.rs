//! What is going to happen, in the order of time, and of scheduling where times are equal.

use std::{cmp::Reverse, collections::BinaryHeap};

use redlock_protocol::SectionId;

use crate::{foreign::Letter, network::Arrival};

#[derive(Debug)]
pub(crate) enum Happening {
    /// A message reaches a node.
    AtNode(Arrival),
    /// A message, or the news of a connection, reaches a client.
    AtClient(Arrival),
    /// The engine of a client wakes.
    Wake {
        client: usize,
    },
    /// A caller goes on, if it has done nothing else since.
    Turn {
        client: usize,
        task: usize,
        turn: u32,
    },
    /// A new process begins.
    Join,
    /// Something goes wrong.
    Strike,
    /// What a scenario has planned goes on.
    Act {
        step: u64,
    },
    /// A client's pause is over, if it is.
    Resume {
        client: usize,
    },
    /// A node's silence is over, if it is.
    Speak {
        node: usize,
    },
    /// A node that was down is up.
    Up {
        node: usize,
    },
    /// A client of another library goes on.
    ForeignTurn {
        foreign: usize,
        attempt: u64,
    },
    ForeignAtNode(Letter),
    ForeignReply {
        letter: Letter,
        is_set: bool,
    },
    /// By now the holder must know that no majority has had its key since then.
    CheckLoss {
        client: usize,
        section: SectionId,
        since: u64,
    },
    /// By now the node must vote, if it is still this process.
    CheckVote {
        node: usize,
        process: u64,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Agenda {
    order: BinaryHeap<Reverse<(u64, u32, u32)>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<u32>,
    scheduled: u32,
}

impl Agenda {
    pub(crate) fn at(&mut self, time: u64, happening: Happening) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() as u32 - 1
        });
        self.happenings[slot as usize] = Some(happening);
        self.order.push(Reverse((time, self.scheduled, slot)));
        self.scheduled += 1;
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((time, ..))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Happening)> {
        let Reverse((time, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        let happening = self.happenings[slot as usize].take()?;
        Some((time, happening))
    }
}
