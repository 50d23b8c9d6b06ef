//! What is known of the owners of keys: what was asked for them, where, and what became of it.

use redlock_protocol::{Act, Evidence, Owner, Reply, Request, RequestId, Vote};

use super::{Broken, Checker, Rule, bit};
use crate::names::index_of;

/// One attempt, as it was in truth: also where two of them carry the same owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// Of requests about the node, or about another client's lock.
    const NONE: Self = Self(u32::MAX);
    /// Of the word that a node may vote again, with the counters of so many others that one of
    /// them is in every majority that the node was part of.
    pub(crate) const RESEED: Self = Self(u32::MAX - 1);
    /// Of clients of other libraries.
    pub(crate) const FOREIGN: Self = Self(u32::MAX - 2);
    /// Of the same word with the counters of fewer, by a client that was not connected to so many that
    /// remember theirs.
    pub(crate) const CUT_OFF: Self = Self(u32::MAX - 3);
    /// And by one that was.
    pub(crate) const CARELESS: Self = Self(u32::MAX - 4);
}

/// What is known of an owner. The masks have a bit for each node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempted {
    pub(crate) client: usize,
    pub(crate) incarnation: u32,
    pub(crate) tag: Tag,
    pub(super) asked: u8,
    /// By the client's clock: when the key of the last request has expired at the latest.
    pub(crate) expires: u64,
    release_sent: bool,
    release_ran: u8,
    /// Were told to release it, and replied with an error.
    pub(crate) release_refused: u8,
    /// Were told to keep the key for a while after the release.
    pub(crate) kept_by: u8,
    /// Have told the client that they have nothing of it.
    pub(crate) denied: u8,
    /// The last request of each node that can make the key.
    requests: [RequestId; 8],
    /// The last one that each has refused.
    refused: [RequestId; 8],
}

/// Who sends a request, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) client: usize,
    pub(crate) incarnation: u32,
    /// By the client's clock.
    pub(crate) now: u64,
    /// When the node that the request is for lost its memory.
    pub(crate) lost_at: u64,
    /// Too few others could be asked for their counters.
    pub(crate) is_cut_off: bool,
}

impl Checker {
    /// Looks at a request that is about to be sent.
    pub(crate) fn on_send(
        &mut self,
        sender: Sender,
        node: usize,
        (id, request): (RequestId, &Request),
    ) -> (Tag, Option<Broken>) {
        let client = sender.client;
        self.clients[client].sent = Some(id);
        let Some((key, owner)) = owner_of(request) else {
            return (self.tag_of(sender, node, request), None);
        };
        let next = Tag(self.tags);
        let mut used = false;
        let attempted = self.owners.entry(owner.0).or_insert_with(|| {
            used = true;
            Attempted::new(&sender, next)
        });
        let mut broken = None;
        if attempted.release_sent && !matches!(request, Request::Release { .. }) {
            let what = format!("client {client} sends {request:?} after its release");
            broken = Some((Rule::AfterRelease, what));
            if is_acquire(request) {
                // Another attempt under the same owner.
                used = true;
                *attempted = Attempted::new(&sender, next);
            }
        }
        self.tags += u32::from(used);
        let line = &mut self.clients[client].lines[index_of(key)];
        match request {
            Request::Vote(vote, Act::Extend { spare, .. }) => {
                self.spare = self.spare.max(*spare);
                attempted.expires = sender.now + (vote.ttl + *spare).as_nanos() as u64;
            }
            Request::Vote(vote, _) => {
                attempted.expires = sender.now + vote.ttl.as_nanos() as u64;
                attempted.asked |= bit(node);
                attempted.denied &= !bit(node);
                attempted.requests[node] = id;
                if is_acquire(request) {
                    line.latest = Some(owner);
                    broken = broken.or_else(|| line.open(client, owner));
                }
                match &mut line.open {
                    Some((open, nodes)) if *open == owner => *nodes |= bit(node),
                    Some(_) => {}
                    None => line.open = Some((owner, bit(node))),
                }
            }
            Request::Release { .. } => {
                attempted.release_sent = true;
                line.stuck.retain(|stuck| *stuck != owner);
                if line.open.is_some_and(|(open, _)| open == owner) {
                    line.open = None;
                }
            }
            _ => {}
        }
        (attempted.tag, broken)
    }

    fn tag_of(&self, sender: Sender, node: usize, request: &Request) -> Tag {
        let Request::Admit { evidence, .. } = request else {
            return Tag::NONE;
        };
        let wait = match evidence {
            Evidence::Waited { wait, .. } | Evidence::FirstStart { wait, .. } => *wait,
            // It is let in once more, with evidence.
            Evidence::Assumed { .. } => std::time::Duration::ZERO,
            Evidence::Durable { .. } => return Tag::NONE,
        };
        // Clocks differ by less than this.
        let since = sender.lost_at + wait.as_nanos() as u64 / 100 * 99;
        if self.knows_floor(sender.client, node, since) {
            Tag::RESEED
        } else if sender.is_cut_off {
            Tag::CUT_OFF
        } else {
            Tag::CARELESS
        }
    }

    /// A client hears that a node has nothing of an owner: there is nothing to release.
    pub(crate) fn denied(&mut self, client: usize, node: usize, request: &Request, id: RequestId) {
        let Some((key, owner)) = owner_of(request) else {
            return;
        };
        let Some(attempted) = self.owners.get_mut(&owner.0) else {
            return;
        };
        if attempted.requests[node] > id {
            return;
        }
        attempted.denied |= bit(node);
        let line = &mut self.clients[client].lines[index_of(key)];
        line.close(node, Some(owner));
    }

    /// A node does not hear of the requests of a connection that is gone: its release has to
    /// wait, and nobody in the line waits for that.
    pub(crate) fn link_down(&mut self, client: usize, node: usize) {
        for line in &mut self.clients[client].lines {
            line.close(node, None);
        }
    }

    /// A node refuses to make a key.
    pub(crate) fn refused(&mut self, node: usize, owner: Owner, request: RequestId) {
        if let Some(attempted) = self.owners.get_mut(&owner.0) {
            let refused = &mut attempted.refused[node];
            *refused = request.max(*refused);
        }
    }

    /// A request makes a key when a later one, for the same owner, has been refused, or when the
    /// release has been there.
    pub(crate) fn is_overtaken(&self, node: usize, owner: Owner, request: RequestId) -> bool {
        self.owners.get(&owner.0).is_some_and(|attempted| {
            attempted.release_ran & bit(node) != 0 || request < attempted.refused[node]
        })
    }

    /// A release was carried out, or refused.
    pub(crate) fn release_ran(
        &mut self,
        node: usize,
        owner: Owner,
        asked: RequestId,
        reply: &Reply,
    ) {
        let Some(attempted) = self.owners.get_mut(&owner.0) else {
            return;
        };
        let client = attempted.client;
        match reply {
            Reply::Deleted | Reply::Kept | Reply::NotOwner => {
                attempted.release_ran |= bit(node);
                attempted.kept_by |= u8::from(*reply == Reply::Kept) << node;
                self.on_word(client, node, owner, asked, *reply != Reply::NotOwner);
            }
            Reply::Refused { .. } | Reply::Garbled { .. } => {
                attempted.release_refused |= bit(node);
            }
            _ => {}
        }
    }

    pub(crate) fn attempted(&self, owner: Owner) -> Option<&Attempted> {
        self.owners.get(&owner.0)
    }
}

impl super::Line {
    /// The process asks for a lock under this owner.
    fn open(&self, client: usize, owner: Owner) -> Option<Broken> {
        let is_other = |open: &Owner| *open != owner && !self.stuck.contains(open);
        let (open, _) = self.open.filter(|(open, _)| is_other(open))?;
        let what = format!("client {client} asks for {owner:?} while {open:?} is not released");
        Some((Rule::Line, what))
    }

    /// Nothing is open on this node any more.
    fn close(&mut self, node: usize, owner: Option<Owner>) {
        if let Some((open, nodes)) = self.open
            && owner.is_none_or(|owner| owner == open)
        {
            let left = nodes & !bit(node);
            self.open = (left != 0).then_some((open, left));
        }
    }
}

impl Attempted {
    fn new(sender: &Sender, tag: Tag) -> Self {
        Self {
            client: sender.client,
            incarnation: sender.incarnation,
            tag,
            ..Self::default()
        }
    }
}

pub(crate) const fn is_acquire(request: &Request) -> bool {
    matches!(request, Request::Vote(_, Act::Acquire(_)))
}

/// The key and the owner that a request is about, unless it is about another client's lock.
pub(crate) const fn owner_of(request: &Request) -> Option<(&std::sync::Arc<str>, Owner)> {
    match request {
        Request::Vote(Vote { key, owner, .. }, _)
        | Request::Watch {
            key,
            owner: Some(owner),
            ..
        }
        | Request::Release { key, owner, .. } => Some((key, *owner)),
        Request::Stand { .. }
        | Request::Watch { owner: None, .. }
        | Request::Identify
        | Request::Probe
        | Request::ReportLoss { .. }
        | Request::Admit { .. } => None,
    }
}
