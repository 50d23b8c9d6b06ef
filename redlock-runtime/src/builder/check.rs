//! What only the servers reveal of a configuration, and whether they are enough.

use crate::{
    announce,
    config::{ConfigError, ConfigProblem},
    engine::Stopped,
    health::{Health, NodeState, NodeStatus, is_denial},
    node::HANDING_OVER,
    redlock::Redlock,
};

impl Redlock {
    /// The mistakes in a configuration that only the servers reveal.
    pub(super) async fn check_servers(&self) -> Result<(), ConfigError> {
        self.shared.engine.settled().await.map_err(gone)?;
        let health = self.health();
        let mut same = Vec::new();
        let mut useless = Vec::new();
        for node in health.nodes() {
            let address = node.address().to_owned();
            match node.state() {
                NodeState::SameServer { twin } => same.push(ConfigProblem::SameServer {
                    first: twin.to_string(),
                    second: address,
                }),
                NodeState::Down { reason: message } | NodeState::Refuses { message, .. }
                    if is_denial(message) =>
                {
                    let message = message.to_string();
                    useless.push(ConfigProblem::AccessDenied { address, message });
                }
                NodeState::Evicts { policy } => {
                    let policy = policy.to_string();
                    useless.push(ConfigProblem::EvictingNode { address, policy });
                }
                &NodeState::OtherMaxLease { theirs, ours } => {
                    useless.push(ConfigProblem::OtherMaxLease {
                        address,
                        theirs,
                        ours,
                    });
                }
                _ => {}
            }
        }
        // Fewer than that are an outage of single nodes, which must not keep a service from
        // starting.
        if redlock_protocol::out_of_reach(health.nodes().len(), useless.len()) {
            same.extend(useless);
        }
        ConfigError::unless_empty(same)
    }

    /// Returns once a majority votes, and fails once it is known that none will.
    pub(super) async fn await_quorum(&self) -> Result<(), ConfigError> {
        let is_decided = || {
            let health = self.health();
            health.has_quorum() || !may_gain_quorum(&health)
        };
        if !is_decided() {
            announce::waits(self);
        }
        self.shared.engine.when(is_decided).await.map_err(gone)?;
        let health = self.health();
        if health.has_quorum() {
            return Ok(());
        }
        Err(ConfigError::of(ConfigProblem::NoQuorum { health }))
    }
}

fn gone(_: Stopped) -> ConfigError {
    ConfigError::of(ConfigProblem::NoEngine {
        message: "its runtime is gone".to_owned(),
    })
}

/// Whether waiting may lead to a majority, also of nodes of which it is not known how long that takes.
fn may_gain_quorum(health: &Health) -> bool {
    let is_handing_over = |node: &NodeStatus| match node.state() {
        NodeState::Down { reason } => reason.contains(HANDING_OVER),
        _ => false,
    };
    let may_vote =
        |node: &&NodeStatus| node.is_up() || node.remaining().is_some() || is_handing_over(node);
    let voters = health.nodes().iter().filter(may_vote).count();
    voters >= redlock_protocol::majority(health.nodes().len())
}
