//! A lock rests on a bare majority, and one node of it loses its memory while its holder is cut off.
//! When that node may vote again depends on what the other nodes tell, and on when they are asked.

use redlock_protocol::{LockParams, majority};

use crate::{
    MILLI, agenda::Happening, callers::Stage, network::Notice, node::Left, plan::nanos,
    random::Random, trace, world::World,
};

/// What becomes of the other nodes that have the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Witnesses {
    /// They tell of it.
    Sound,
    /// They are down, and those that never had it are up.
    Down,
    /// They have lost their memory, too.
    Forgetful,
    /// One of them grants it only after the first has lost its memory.
    Late,
}

impl Witnesses {
    pub(crate) fn draw(random: &mut Random) -> Self {
        use Witnesses::{Down, Forgetful, Late, Sound};
        // In most histories the holder does not get the lock that late.
        random.pick(&[Sound, Down, Forgetful, Late, Late, Late])
    }
}

impl World {
    /// The nodes that grant the lock, first of all the one that is to forget it.
    fn witnesses(&self) -> impl Iterator<Item = usize> + use<> {
        let nodes = self.nodes.len();
        let first = self.plan.lease as usize / 1_000 % nodes;
        (first..first + majority(nodes)).map(move |place| place % nodes)
    }

    /// A caller that is not the one whose lock is forgotten: for a much shorter time.
    pub(crate) fn short_params(&self, params: LockParams) -> LockParams {
        let lease = nanos(self.plan.lease / 64);
        LockParams {
            lease,
            guard_band: nanos(self.plan.guard_band),
            node_timeout: lease,
            min_validity: lease / 10,
            renew: None,
            max_hold: None,
            at_least: params.at_least.min(lease),
            ..params
        }
    }

    /// Waits for the lock, and then lets a node forget it.
    pub(crate) fn forget_one(&mut self, witnesses: Witnesses, step: u64) -> Option<u64> {
        let granting: Vec<usize> = self.witnesses().collect();
        let end = self.plan.active;
        if step == 0 {
            for node in (0..self.nodes.len()).filter(|node| !granting.contains(node)) {
                self.clients[0].links[node].block(end);
            }
            return Some(100 * MILLI);
        }
        let first = granting[0];
        let others = &granting[1..];
        let stage = self.clients[0].tasks[0].stage;
        let is_late = matches!(witnesses, Witnesses::Late);
        if is_late && self.nodes[first].votes() {
            self.clients[0].links[others[0]].block(self.now + 150 * MILLI);
            let owner = self.checker.latest_owner(0, 0);
            let part = self.nodes[first].part(0, owner, self.now);
            if matches!(stage, Stage::Asking { .. }) && part.is_some() {
                self.flush(first);
            }
            return Some(MILLI);
        }
        if !matches!(stage, Stage::Holding { .. }) {
            return (self.now < end / 2).then_some(MILLI);
        }
        trace!(self, "!! the holder is cut off: {witnesses:?}");
        for node in 0..self.nodes.len() {
            self.clients[0].links[node].block(end);
        }
        if !is_late {
            self.flush(first);
        }
        for &node in others {
            match witnesses {
                Witnesses::Down => self.down(node, None, Notice::Soon),
                Witnesses::Forgetful => {
                    self.down(node, Some(Left::Nothing), Notice::Soon);
                    let at = self.now + MILLI;
                    self.agenda.at(at, Happening::Up { node });
                }
                Witnesses::Sound | Witnesses::Late => {}
            }
        }
        None
    }
}
