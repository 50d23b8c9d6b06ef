//! Nodes, of which the first keeps the queue.

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use redlock_protocol::{
    BlockRequest, Instant, Mode, Owner, Process, Reply, Request, SectionId, Ticket, Token,
    model::{Key, Model},
};

use super::{Fair, Mutant, PROCESSES, State};
use crate::server::{ADMISSION, NOW, voting};

/// Since when each process waits, in the order of coming; zero: it has no place.
pub(super) type Queue = [u8; PROCESSES];

/// What a process sends to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Message {
    /// For the key, by a caller that came then.
    Ask {
        came: u8,
    },
    Release,
    /// A place, since then.
    Place {
        came: u8,
    },
    Leave,
}

/// What the protocol's model of a node replies. There are few different questions, so each is put once.
#[derive(Clone, Debug, Default)]
pub(super) struct Leader(RefCell<HashMap<Asked, Replied>>);

/// Whose key the node has, who waits there, if it is the leader, and who sends what.
type Asked = (u8, Option<Queue>, usize, Message);

/// What it makes of the key and the queue, and whether it has granted the key.
type Replied = (u8, Queue, bool);

const KEY: &str = "lock";

/// A caller that came by so much later has waited for so much less.
const STEP: Duration = Duration::from_secs(1);

/// More than ever come one after the other, as states count them.
const LATEST: u32 = 20;

impl Fair {
    /// True if the key is granted.
    pub(super) fn carry_out(
        &self,
        state: &mut State,
        process: usize,
        node: usize,
        message: Message,
    ) -> bool {
        let is_leader = node == 0 && !self.has(Mutant::QueueIgnored);
        let asked = (
            state.keys[node],
            is_leader.then_some(state.queue),
            process,
            message,
        );
        let known = self.leader.0.borrow().get(&asked).copied();
        let (key, queue, is_granted) = known.unwrap_or_else(|| {
            let replied = ask_model(asked);
            self.leader.0.borrow_mut().insert(asked, replied);
            replied
        });
        state.keys[node] = key;
        if node == 0 {
            state.queue = queue;
        }
        is_granted
    }
}

fn ask_model((key, queue, process, message): Asked) -> Replied {
    let mut model = voting();
    let waiting = queue.into_iter().flatten().enumerate();
    for (other, came) in waiting.filter(|(_, came)| *came > 0) {
        model.run(&place(other, Some(came)), NOW);
    }
    let held = |owner: u8| Key {
        owner: Some(owner_of(usize::from(owner) - 1)),
        expires: Some(NOW.now.after(STEP)),
    };
    model.set_key(KEY.into(), (key > 0).then(|| held(key)));
    let reply = model.run(&request(process, message, queue.is_some()), NOW);
    let owner = model.key(KEY, NOW.now).and_then(|key| key.owner);
    let key = owner.map_or(0, |owner| owner.process().0 as u8);
    let is_granted = matches!(reply, Reply::Granted { .. });
    (key, queue_of(&model), is_granted)
}

fn queue_of(model: &Model) -> Queue {
    let mut queue = Queue::default();
    for (process, since) in model.places(KEY) {
        let before = NOW.now.since(Instant::from_nanos(0)).as_millis() as i64 - since;
        let came = i64::from(LATEST) - before / STEP.as_millis() as i64;
        queue[process.0 as usize - 1] = came as u8;
    }
    queue
}

fn owner_of(process: usize) -> Owner {
    Owner((process as u128 + 1) << 64 | 1)
}

fn ticket(came: u8) -> Ticket {
    Ticket {
        waiter: SectionId(1),
        waited: STEP * (LATEST - u32::from(came)),
        patience: Ticket::LASTS,
    }
}

fn place(process: usize, since: Option<u8>) -> Request {
    Request::Place {
        key: KEY.into(),
        process: Process(process as u64 + 1),
        ticket: since.map(ticket),
    }
}

fn request(process: usize, message: Message, is_in_order: bool) -> Request {
    let key: Arc<str> = KEY.into();
    let owner = owner_of(process);
    match message {
        Message::Ask { came } => Request::Acquire {
            key,
            owner,
            mode: Mode::Exclusive,
            ttl: STEP,
            block: BlockRequest {
                proposal: Token(1),
                length: 1,
            },
            admission: ADMISSION,
            waits: false,
            ticket: is_in_order.then(|| ticket(came)),
        },
        Message::Release => Request::Release {
            key,
            owner,
            mode: Mode::Exclusive,
            keep: None,
        },
        Message::Place { came } => place(process, Some(came)),
        Message::Leave => place(process, None),
    }
}
