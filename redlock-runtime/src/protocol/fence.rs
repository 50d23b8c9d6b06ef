//! Fencing tokens: which number a set of grants yields, so that no two acquisitions of a key get
//! the same one, and a later one always gets a larger.
//!
//! Every grant raises the node's counter for the key and reports it. If a majority reports the
//! same number, that is the token. Otherwise it is the highest number reported, once a majority of
//! *the nodes whose grants are known* has confirmed, still owned, that its counter is no lower.
//! Any two majorities share a node, on which one acquisition came first and the other got a larger
//! number. That needs no clock: a key may expire at any time. A node that owns the key but whose
//! grant was not heard must not confirm, because its counter may be above the token already. Nor is
//! there a confirmation for a lock that is handed over: its owner was that of other leases before, so
//! that it still owns the key does not tell that nobody else had it in between.

use super::{
    message::{NodeId, Token},
    quorum,
};

/// Counters are kept for so many groups of keys: few enough that they never need to expire, and a
/// shared one leaves gaps in the tokens of a key but keeps their order.
const STRIPES: u64 = 1_024;

/// The group of a key. Part of the wire format: all clients must agree on it (FNV-1a, 64 bits).
pub(crate) fn stripe(key: &str) -> u64 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash % STRIPES
}

/// The grants whose replies have been heard.
#[derive(Debug, Default)]
pub(super) struct Grants {
    heard: Vec<(NodeId, Token)>,
}

impl Grants {
    pub(super) fn hear(&mut self, node: NodeId, counter: Token) {
        self.heard.push((node, counter));
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.heard.iter().map(|&(node, _)| node)
    }

    /// The number that a majority of `nodes` agrees on.
    pub(super) fn agreed(&self, nodes: usize) -> Option<Token> {
        let reports = |token| self.heard.iter().filter(|heard| heard.1 == token).count();
        let mut tokens = self.heard.iter().map(|&(_, token)| token);
        tokens.find(|&token| reports(token) >= quorum::majority(nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(counters: &[u64]) -> Grants {
        let mut grants = Grants::default();
        for (node, counter) in counters.iter().enumerate() {
            grants.hear(NodeId(node), Token(*counter));
        }
        grants
    }

    #[test]
    fn only_a_majority_of_all_nodes_agrees() {
        assert_eq!(grants(&[7, 7, 7]).agreed(5), Some(Token(7)));
        assert_eq!(grants(&[9, 7, 7, 7]).agreed(5), Some(Token(7)));
        assert_eq!(grants(&[9, 7, 7]).agreed(5), None);
        assert_eq!(grants(&[7, 7]).agreed(4), None);
    }

    #[test]
    fn stripes_are_the_same_for_every_client() {
        assert_eq!(stripe(""), 0xcbf2_9ce4_8422_2325 % STRIPES);
        assert_eq!(stripe("a"), 0xaf63_dc4c_8601_ec8c % STRIPES);
        assert_eq!(stripe("foobar"), 0x8594_4171_f739_67e8 % STRIPES);
    }
}
