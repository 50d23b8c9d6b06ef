//! What only the servers reveal of a configuration, and whether they are enough.

use crate::{
    config::{ConfigError, ConfigProblem, ProblemKind},
    health::{Health, NodeState, NodeStatus, Rejection, WhyKind, remedy},
    observe,
    redlock::Redlock,
    status::Stopped,
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
                NodeState::SameServer { twin } => same.push(ConfigProblem::new(
                    ProblemKind::SameServer,
                    address.clone(),
                    format!("{twin} and {address} are the same server, which must not vote twice"),
                    "name each server once",
                )),
                NodeState::Down { why } if why.kind == WhyKind::Denied => {
                    useless.push(denied(address, &why.text, None));
                }
                NodeState::Refuses {
                    reason: reason @ (Rejection::NoPermission | Rejection::NotAuthenticated),
                    message,
                } => useless.push(denied(address, message, remedy(*reason))),
                NodeState::Evicts { policy } => useless.push(ConfigProblem::new(
                    ProblemKind::EvictingNode,
                    address,
                    format!("deletes keys when memory runs out (maxmemory-policy {policy}), locks included"),
                    "set the policy to noeviction",
                )),
                NodeState::OtherMaxLease { theirs, ours } => useless.push(ConfigProblem::new(
                    ProblemKind::OtherMaxLease,
                    address,
                    format!(
                        "is used with another `max_lease` or `guard_band`: keys of other processes live for up \
                         to {theirs:.1?}, those of this one for up to {ours:.1?}"
                    ),
                    "give all processes the same values",
                )),
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
            observe::waits(&self.health());
        }
        self.shared.engine.when(is_decided).await.map_err(gone)?;
        let health = self.health();
        if health.has_quorum() {
            return Ok(());
        }
        Err(ConfigError::of(ConfigProblem::no_quorum(health)))
    }
}

fn denied(address: String, message: &str, remedy: Option<&'static str>) -> ConfigProblem {
    let fact = format!("refuses access ({message})");
    let remedy = remedy.unwrap_or("check user and password");
    ConfigProblem::new(ProblemKind::AccessDenied, address, fact, remedy)
}

fn gone(_: Stopped) -> ConfigError {
    ConfigError::of(ConfigProblem::no_engine("its runtime is gone"))
}

/// Whether waiting may lead to a majority, also of nodes of which it is not known how long that takes.
fn may_gain_quorum(health: &Health) -> bool {
    let is_handing_over = |node: &NodeStatus| match node.state() {
        NodeState::Down { why } => why.kind == WhyKind::HandingOver,
        _ => false,
    };
    let may_vote =
        |node: &&NodeStatus| node.is_up() || node.remaining().is_some() || is_handing_over(node);
    let voters = health.nodes().iter().filter(may_vote).count();
    voters >= redlock_protocol::majority(health.nodes().len())
}
