//! Fencing tokens: that they are unique, in which order they rise, and what each of them rests on.

use redlock_protocol::{Act, BlockRequest, Mode, NodeId, Owner, Reply, Request, Token, majority};

use super::Checker;
use crate::names::{LOCKS, index_of};

/// A block of tokens that a node has reported to a client. Times are true ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vote {
    node: usize,
    first: u64,
    round: Round,
    sent: u64,
    heard: u64,
}

/// Requests of one round have the same of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    owner: Owner,
    is_extension: bool,
    block: BlockRequest,
}

/// A token that was handed out, in true times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// The place of the process, and which one there.
    pub(crate) process: (usize, u32),
    pub(crate) token: Token,
    mode: Mode,
    /// It is the token of other keys, too.
    is_of_several: bool,
    pub(crate) at: u64,
    /// When the first request was sent that got its block.
    pub(crate) began: u64,
    /// From then to the reply that made a majority.
    pub(crate) took: u64,
    /// The highest token up to this one.
    highest: Token,
}

/// The tokens of one key, in the order of grants.
#[derive(Debug, Default)]
pub(super) struct Grants(Vec<Grant>);

/// What is wrong with a token.
#[derive(Debug)]
pub(crate) enum WrongToken {
    /// No majority has reported it to one round.
    Unreported,
    /// It is not above the last one that was handed out under this owner.
    NotRising,
    /// It is out of order with these.
    OutOfOrder(Vec<Grant>),
}

impl Grants {
    fn highest(&self) -> Token {
        self.0.last().map_or(Token(0), |grant| grant.highest)
    }
}

impl Checker {
    /// A node's reply to a request for tokens has come to the client.
    pub(crate) fn on_vote(
        &mut self,
        (client, node): (usize, NodeId),
        (request, reply): (&Request, &Reply),
        (sent, heard): (u64, u64),
    ) {
        let Request::Vote(vote, act) = request else {
            return;
        };
        let Some(block) = &vote.block else {
            return;
        };
        let (key, owner) = (&vote.key, &vote.owner);
        let is_extension = matches!(act, Act::Extend { .. });
        let first = match reply {
            Reply::Granted { first, .. }
            | Reply::Extended {
                first: Some(first), ..
            } => first.0,
            _ => return,
        };
        let round = Round {
            owner: *owner,
            is_extension,
            block: *block,
        };
        self.clients[client].lines[index_of(key)].votes.push(Vote {
            node: node.0,
            first,
            round,
            sent,
            heard,
        });
    }

    /// The key for which a majority has reported this token to the client; the last one, if nodes that
    /// have lost their memory have reported it for several.
    pub(crate) fn key_of(&self, client: usize, token: Token) -> Option<usize> {
        let lines = self.clients[client].lines[..LOCKS].iter().enumerate();
        let won = lines.flat_map(|(key, line)| {
            let votes = line.votes.iter().filter(|vote| vote.has(token));
            votes.filter_map(move |vote| Some((line.won(vote, self.nodes)?.1, key)))
        });
        won.max().map(|(_, key)| key)
    }

    /// A majority has reported this token for this key.
    pub(crate) fn is_reported(&self, client: usize, key: usize, token: Token) -> bool {
        let block = self.clients[client].lines[key].block_of(token, self.nodes);
        block.is_some()
    }

    /// The holders of other permits that have had this token.
    pub(crate) fn given_twice(&self, key: usize, token: Token) -> Option<WrongToken> {
        let others = (0..LOCKS).filter(|&other| other != key);
        let grants = others.flat_map(|other| &self.grants[other].0);
        let same: Vec<Grant> = grants.filter(|it| it.token == token).copied().collect();
        (!same.is_empty()).then_some(WrongToken::OutOfOrder(same))
    }

    /// Looks at the token of a grant. While leases are exclusive, tokens rise in the order of grants,
    /// but among readers. A section that has several keys was asked for at `of_several`: another one of
    /// them may have brought the token.
    pub(crate) fn on_token(
        &mut self,
        (process, key): ((usize, u32), usize),
        (token, mode): (Token, Mode),
        (of_several, at): (Option<u64>, u64),
        exclusive: bool,
    ) -> (Grant, Option<WrongToken>) {
        let nodes = self.nodes;
        let line = &mut self.clients[process.0].lines[key];
        let this = line.latest.map(|owner| (owner, token));
        let before = std::mem::replace(&mut line.handed_out, this);
        let is_of_several = of_several.is_some();
        let is_rising = match (before, this) {
            (Some((before, last)), Some((owner, token))) => before != owner || last < token,
            _ => true,
        };
        let round = match of_several {
            Some(asked) => Some((asked, at)),
            None => line.block_of(token, nodes),
        };
        line.forget_below(token, mode);
        let grants = &mut self.grants[key];
        let (began, won) = round.unwrap_or((at, at));
        let grant = Grant {
            process,
            token,
            mode,
            is_of_several,
            at,
            began,
            took: won - began,
            highest: grants.highest().max(token),
        };
        let wrong = if round.is_none() {
            Some(WrongToken::Unreported)
        } else if !is_rising && !is_of_several {
            Some(WrongToken::NotRising)
        } else if token > grants.highest() {
            None
        } else {
            grants.out_of_order(&grant, exclusive)
        };
        grants.0.push(grant);
        (grant, wrong)
    }
}

impl Grants {
    fn out_of_order(&self, grant: &Grant, exclusive: bool) -> Option<WrongToken> {
        let is_wrong = |other: &&Grant| {
            let same = other.process == grant.process;
            let both_read = (other.mode, grant.mode) == (Mode::Shared, Mode::Shared);
            // The token of one that has other keys, too, may be theirs, and old when it begins.
            if both_read && (other.is_of_several || grant.is_of_several) {
                return false;
            }
            let came_before = exclusive && !both_read || same || other.at < grant.began;
            other.token == grant.token || came_before && other.token > grant.token
        };
        let wrong: Vec<Grant> = self.0.iter().filter(is_wrong).copied().collect();
        (!wrong.is_empty()).then_some(WrongToken::OutOfOrder(wrong))
    }
}

impl super::Line {
    /// When the first request of the round was sent that has won a block with this token, and when it
    /// had won it.
    fn block_of(&self, token: Token, nodes: usize) -> Option<(u64, u64)> {
        self.votes
            .iter()
            .filter(|vote| vote.has(token))
            .find_map(|vote| self.won(vote, nodes))
    }

    /// Who shares the key may have had an earlier token before, and begin later.
    fn forget_below(&mut self, token: Token, mode: Mode) {
        if mode == Mode::Exclusive {
            self.votes.retain(|vote| vote.end() > token.0);
        }
    }

    fn won(&self, vote: &Vote, nodes: usize) -> Option<(u64, u64)> {
        let same = |other: &&Vote| other.first == vote.first && other.round == vote.round;
        let mut mask = 0_u8;
        let mut sent = u64::MAX;
        for other in self.votes.iter().filter(same) {
            mask |= super::bit(other.node);
            sent = sent.min(other.sent);
            if mask.count_ones() as usize >= majority(nodes) {
                return Some((sent, other.heard));
            }
        }
        None
    }
}

impl Vote {
    const fn end(&self) -> u64 {
        self.first.saturating_add(self.round.block.length)
    }

    const fn has(&self, token: Token) -> bool {
        self.first <= token.0 && token.0 < self.end()
    }
}
