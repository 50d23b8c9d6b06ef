//! What only the servers reveal of a configuration, and whether they are enough.

use crate::{
    announce,
    config::{ConfigError, ConfigProblem},
    engine::Stopped,
    health::NodeState,
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
                NodeState::Down { reason: message } | NodeState::Refuses { message }
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
            health.has_quorum() || !health.may_gain_quorum()
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

/// True for an error message about a wrong or missing user or password, or about missing rights: in the
/// words of the server, or of the driver.
fn is_denial(reason: &str) -> bool {
    [
        "WRONGPASS",
        "NOAUTH",
        "NOPERM",
        "NoPerm",
        "AuthenticationFailed",
    ]
    .iter()
    .any(|code| reason.contains(code))
}
