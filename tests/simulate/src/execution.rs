//! What requests do at nodes, and what the checker learns from that and from the replies.

use redlock_protocol::{Act, Evidence, NodeId, Owner, Reply, Request, Token, majority};

use crate::{
    checker::{Rule, Tag, owner_of},
    faults::Fault,
    made::Effect,
    names::{KEYS, index_of},
    network::{Replied, Sent},
    node::refused,
    plan::Profile,
    trace,
    world::{Reseed, World},
};

/// In microseconds.
const HOUR: u64 = 3_600_000_000;

impl World {
    pub(crate) fn execute(&mut self, node: usize, connection: usize, sent: &Sent) -> Reply {
        let Sent { id, body, tag, .. } = sent;
        if self.random.chance(50) {
            self.nodes[node].expire_all(self.now);
        }
        let (voted, top) = (self.nodes[node].votes(), self.top(node, body));
        let is_blind = self.is_blind(connection);
        let client = self.connections[connection].client;
        let ailment = self.clients[client].links[node].ailment;
        let (reply, effect) = match ailment.and_then(|ailment| ailment.refusal(body)) {
            Some(words) => (refused(words), Effect::Nothing),
            None => self.nodes[node].run(connection, is_blind, body, *tag, self.now),
        };
        if !voted && self.nodes[node].votes() {
            self.on_reseed(node, (body, top), *tag);
        }
        trace!(self, "   node {node} <- {body:?} = {reply:?}");
        if self.connections[connection].broken {
            self.hit(Fault::Overtaken, Some(client));
        }
        if let Effect::Deleted(owned) | Effect::Extended(owned) | Effect::Kept(owned) = effect
            && owned != *tag
            && !matches!(body, Request::Watch { .. })
        {
            let what = format!("{body:?} of attempt {tag:?} hit the key of {owned:?}");
            self.violation(Rule::ForeignUnlock, what);
        }
        self.vanished(node);
        if let Some((key, owner)) = owner_of(body) {
            let index = index_of(key);
            if effect == Effect::Made && self.checker.is_overtaken(node, owner, *id) {
                self.nodes[node].mark_orphan(index, owner);
            }
            self.hear(node, owner, sent, &reply);
            if matches!(effect, Effect::Made | Effect::Deleted(_)) {
                self.on_keys_changed(index);
            }
            let mut tasks = self.clients[client].tasks.iter();
            let is_stuck = tasks.any(|task| task.is_stuck_with((index, Some(owner))));
            if matches!(effect, Effect::Deleted(_)) && is_stuck {
                // Nobody else could have had it before.
                self.on_idle(index);
            }
        }
        reply
    }

    /// What a reply says of the key.
    fn hear(&mut self, node: usize, owner: Owner, sent: &Sent, reply: &Reply) {
        let Some(client) = self.checker.attempted(owner).map(|owner| owner.client) else {
            return;
        };
        let had_it = match (&sent.body, reply) {
            (Request::Release { .. }, reply) => {
                return self.checker.release_ran(node, owner, sent.id, reply);
            }
            (Request::Vote(_, Act::Acquire(_)), Reply::Held { .. } | Reply::Queued(_)) => {
                self.checker.refused(node, owner, sent.id);
                false
            }
            (Request::Vote(_, Act::PutBack), Reply::Held { .. }) => {
                self.checker.refused(node, owner, sent.id);
                return;
            }
            (_, Reply::Extended { .. } | Reply::Ours) => true,
            (_, Reply::Granted { .. }) => false,
            (_, Reply::NotOwner | Reply::Taken | Reply::Free) => {
                self.checker.refused(node, owner, sent.id);
                false
            }
            _ => return,
        };
        self.checker.on_word(client, node, owner, sent.id, had_it);
    }

    /// A reply has come to the client, who believes it.
    pub(crate) fn look_at_reply(&mut self, client: usize, node: NodeId, replied: &Replied) {
        let Replied { sent, reply, .. } = replied;
        let body = &sent.body;
        match reply {
            Reply::Record(_) => {
                let is_good = replied.is_good;
                self.checker
                    .on_reading(client, node.0, replied.ran, is_good);
            }
            Reply::Granted { .. } | Reply::Extended { .. } => {
                let times = (sent.at, self.now);
                self.checker.on_vote((client, node), (body, reply), times);
            }
            Reply::Held { .. }
            | Reply::Queued(_)
            | Reply::NotAdmitted
            | Reply::Refused {
                is_untouched: true, ..
            } if matches!(body, Request::Vote(_, Act::Acquire(_) | Act::PutBack)) => {
                self.checker.denied(client, node.0, body, sent.id);
            }
            Reply::NotOwner | Reply::Taken | Reply::Free
                if !matches!(body, Request::Release { .. }) =>
            {
                self.checker.denied(client, node.0, body, sent.id);
            }
            _ => {}
        }
    }

    /// Remembers its counters and can be asked for them.
    fn can_tell(&self, node: usize) -> bool {
        let one = &self.nodes[node];
        let replies = !one.down && one.silent_until <= self.now;
        one.remembers && one.votes() && self.can_vote(node) && replies
    }

    /// So few other nodes that one of them need not have been in a quorum of before.
    fn are_too_few(&self, node: usize, can_tell: impl Fn(usize) -> bool) -> bool {
        let nodes = self.nodes.len();
        let others = (0..nodes).filter(|&other| other != node && can_tell(other));
        others.count() <= nodes - majority(nodes)
    }

    /// A client is about to admit a node: has it been connected to too few that can tell, when it asked
    /// all for their counters?
    pub(crate) fn is_cut_off(&self, client: usize, node: usize) -> bool {
        let one = &self.clients[client];
        let asked = self.checker.read_at(client, node);
        let asked = asked.saturating_sub(self.round_trip(client));
        let by = one.clock.read(asked);
        let was_asked = |other: usize| {
            let link = &one.links[other];
            link.up && link.up_since <= by && !link.is_sick()
        };
        self.are_too_few(node, |other| self.can_tell(other) && was_asked(other))
    }

    /// A node votes again.
    fn on_reseed(&mut self, node: usize, (body, top): (&Request, Token), tag: Tag) {
        let now = self.now;
        let least = self.plan.least_quarantine();
        let is_bounded = self.is_bounded(node, (body, top));
        let is_excused = is_bounded
            || match tag {
                Tag::CUT_OFF => true,
                Tag::CARELESS => false,
                // Nobody builds on a counter that has gone beyond what is believed.
                _ => self.are_too_few(node, |other| {
                    let top = self.nodes[other].record(now).top;
                    self.can_tell(other) && top <= Token::HIGHEST_PLAUSIBLE
                }),
            };
        let one = &mut self.nodes[node];
        if one.remembers && !is_bounded {
            return;
        }
        let out = now - one.lost_at;
        // A node's clock that steps can end its quarantine.
        let in_time = self.plan.profile == Profile::Outside && out < least;
        one.remembers = tag == Tag::RESEED && !in_time && !is_bounded;
        let is_short = !one.remembers;
        self.tally.reseeds[usize::from(is_short)] += 1;
        if is_short && is_excused {
            self.short_reseeds.push(Reseed {
                at: now,
                is_bounded,
            });
        }
    }

    /// The highest number of a node that is to be let in.
    fn top(&self, node: usize, body: &Request) -> Token {
        match body {
            Request::Admit { .. } => self.nodes[node].record(self.now).top,
            _ => Token::default(),
        }
    }

    /// A node is let in: was it told of a number that is further ahead than sound ones are, or did it have one? It
    /// must not count on from it.
    fn is_bounded(&mut self, node: usize, (body, before): (&Request, Token)) -> bool {
        let Request::Admit {
            floor,
            wall_micros,
            evidence,
            ..
        } = body
        else {
            return false;
        };
        let one = &self.nodes[node];
        let clock = one.moment(self.now).wall_micros;
        let latest = clock.max(*wall_micros) + HOUR;
        let top = one.record(self.now).top;
        let starts_anew = !matches!(evidence, Evidence::Durable { .. });
        if starts_anew && top > Token(latest) {
            let what = format!("node {node} counts from {top}, more than an hour after all clocks");
            self.violation(Rule::Token, what);
        }
        // Nodes count whole seconds of theirs.
        starts_anew && before.max(*floor).0 + 1_000_000 > latest
    }

    /// Keys have expired on a node.
    pub(crate) fn vanished(&mut self, node: usize) {
        for index in std::mem::take(&mut self.nodes[node].vanished) {
            self.on_key_lost(index);
            self.on_keys_changed(index);
        }
    }

    /// What a node kept of all keys is gone or old.
    pub(crate) fn forgot(&mut self, node: usize) {
        self.losses = true;
        trace!(self, "   node {node} has lost its memory");
        for index in 0..KEYS {
            self.on_key_lost(index);
            self.on_keys_changed(index);
        }
    }
}
