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
            let state = node.state();
            let (kind, fact, remedy) = match state {
                NodeState::SameServer { .. } => {
                    let remedy = "name each server once";
                    (ProblemKind::SameServer, node.to_string(), remedy)
                }
                NodeState::Down { reason: why } if why.kind == WhyKind::Denied => {
                    (ProblemKind::AccessDenied, denied(&why.text), CHECK_USER)
                }
                NodeState::Refuses {
                    reason: reason @ (Rejection::NoPermission | Rejection::NotAuthenticated),
                    message,
                } => {
                    let remedy = remedy(*reason).unwrap_or(CHECK_USER);
                    (ProblemKind::AccessDenied, denied(message), remedy)
                }
                // Their texts have the remedy.
                NodeState::Evicts { .. } => (ProblemKind::EvictingNode, state.to_string(), ""),
                NodeState::OtherMaxLease { .. } => {
                    (ProblemKind::OtherMaxLease, state.to_string(), "")
                }
                _ => continue,
            };
            let problem = ConfigProblem::new(kind, node.address().to_owned(), fact, remedy);
            match kind {
                ProblemKind::SameServer => same.push(problem),
                _ => useless.push(problem),
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

const CHECK_USER: &str = "check user and password";

fn denied(message: &str) -> String {
    format!("refuses access ({message})")
}

fn gone(_: Stopped) -> ConfigError {
    ConfigError::of(ConfigProblem::no_engine("its runtime is gone"))
}

/// Whether waiting may lead to a majority, also of nodes of which it is not known how long that takes.
fn may_gain_quorum(health: &Health) -> bool {
    let is_handing_over = |node: &NodeStatus| match node.state() {
        NodeState::Down { reason } => reason.kind == WhyKind::HandingOver,
        _ => false,
    };
    let may_vote =
        |node: &&NodeStatus| node.is_up() || node.remaining().is_some() || is_handing_over(node);
    let voters = health.nodes().iter().filter(may_vote).count();
    voters >= redlock_protocol::majority(health.nodes().len())
}
