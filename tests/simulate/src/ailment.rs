//! What can be wrong for good between one client and one node, and with neither of them.

use redlock_protocol::Request;

use crate::{MILLI, draws::Draw, plan::Plan, random::Random, sickness::Sickness};

/// So long that the node timeout is mostly shorter.
const SLOWEST: u64 = 300 * MILLI;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// No connection can be made.
    Shut,
    /// Connections are made, and carry no request.
    Mute,
    /// Each message takes so much longer.
    Slow(u64),
    /// Requests go through one by one, and each takes so long.
    Narrow(u64),
    /// The user of this client has not the rights that others have.
    Refused(Sickness),
}

impl Ailment {
    pub(crate) fn refusal(self, request: &Request) -> Option<&'static str> {
        match self {
            Self::Refused(sickness) => sickness.refusal(request),
            Self::Shut | Self::Mute | Self::Slow(_) | Self::Narrow(_) => None,
        }
    }

    /// A client that gives connections up sooner never hears anything over this link.
    const fn slowest_reply(self) -> u64 {
        match self {
            Self::Slow(by) => 3 * by,
            Self::Narrow(by) => 4 * by,
            _ => 0,
        }
    }
}

impl Plan {
    /// No reply to the process in this place takes longer, but where nothing is promised.
    pub(crate) fn slowest_reply(&self, place: usize) -> u64 {
        let ailments = self.ailments(place).into_iter().flatten();
        let slowest = ailments.map(Ailment::slowest_reply).max().unwrap_or(0);
        slowest + 6 * self.far
    }

    /// What is wrong for good between the process in this place and each of the nodes. A majority is well.
    pub(crate) fn ailments(&self, place: usize) -> Vec<Option<Ailment>> {
        let nodes = self.servers.count;
        let mut ailments = vec![None; nodes];
        if !self.draws.has(Draw::SickLinks) {
            return ailments;
        }
        let mut random = Random::new(self.link_seed ^ place as u64);
        let (first, count) = (random.index(nodes), random.index(nodes.div_ceil(2)));
        for node in first..first + count {
            let slow = random.pick(&[self.node_timeout / 8, self.node_timeout, self.lease / 4]);
            let slow = slow.min(SLOWEST);
            if self.draws.has(Draw::NarrowLinks) {
                let by = random.pick(&[self.lease / 64, self.lease / 8]);
                ailments[node % nodes] = Some(Ailment::Narrow(by.min(SLOWEST)));
                continue;
            }
            let refused = random.pick(&Sickness::FOR_GOOD);
            ailments[node % nodes] = Some(random.pick(&[
                Ailment::Shut,
                Ailment::Mute,
                Ailment::Slow(slow),
                Ailment::Refused(refused),
            ]));
        }
        ailments
    }
}
