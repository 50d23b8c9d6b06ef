//! What the numbers that nodes reply to a round add up to. The decisions are the protocol's own.

use std::array;

use redlock_protocol::{Token, majority, rules::agreement::Numbers};

/// The first numbers that the nodes have replied to a round; zero is none.
pub(super) type Votes<const N: usize> = [u8; N];

/// The number that a majority reports.
pub(super) fn agreed<const N: usize>(votes: &Votes<N>) -> Option<u8> {
    let heard = votes.iter().filter(|&&vote| vote != 0).count();
    if heard < majority(N) {
        return None;
    }
    hear(votes).agreed(N).map(|token| token.0 as u8)
}

/// What may be proposed after these: it depends on how many of the others can still reply. One above them,
/// and not more as by the protocol: the closer the numbers, the more often they collide.
pub(super) fn next_proposals<const N: usize>(votes: &Votes<N>) -> Vec<u8> {
    let numbers = hear(votes);
    let pending = 0..=votes.iter().filter(|&&vote| vote == 0).count();
    let proposals = pending.map(|pending| numbers.reached(N, pending, 0).0 + 1);
    let mut proposals: Vec<u8> = proposals.map(|proposal| proposal as u8).collect();
    proposals.dedup();
    proposals
}

fn hear<const N: usize>(votes: &Votes<N>) -> Numbers {
    let mut numbers = Numbers::default();
    for vote in votes.iter().filter(|&&vote| vote != 0) {
        numbers.hear(Token(u64::from(*vote)));
    }
    numbers
}

/// Every choice of so many replies or more that can have arrived before the others.
pub(super) fn heard_first<const N: usize>(
    votes: &Votes<N>,
    least: usize,
) -> impl Iterator<Item = Votes<N>> {
    (1_u8..1 << N).filter_map(move |chosen| {
        let is_chosen = |node: usize| chosen >> node & 1 == 1;
        let all_there = (0..N).all(|node| !is_chosen(node) || votes[node] != 0);
        let heard = array::from_fn(|node| if is_chosen(node) { votes[node] } else { 0 });
        (all_there && chosen.count_ones() as usize >= least).then_some(heard)
    })
}

/// Which nodes have replied, a bit for each.
pub(super) fn which<const N: usize>(votes: &Votes<N>) -> u8 {
    (0..N).map(|node| u8::from(votes[node] != 0) << node).sum()
}

/// The first number that each node has replied, or the least that it will.
pub(super) fn least<const N: usize>(votes: &Votes<N>, counters: &[u8; N], proposal: u8) -> [u8; N] {
    array::from_fn(|node| match votes[node] {
        0 => (counters[node] + 1).max(proposal),
        vote => vote,
    })
}

/// The lowest number that a majority can come to agree on, if the nodes report these or more.
pub(super) fn lowest_of_majority<const N: usize>(mut numbers: [u8; N]) -> u8 {
    numbers.sort_unstable();
    numbers[majority(N) - 1]
}

/// Forgets votes for numbers that no majority can report any more; other nodes can report a number
/// only while their counters are below it. A course in which such a vote was not given, but something
/// else has raised the counter, leads to the same.
pub(super) fn forget_lost<const N: usize>(votes: &mut Votes<N>, counters: &[u8; N], proposal: u8) {
    let before = *votes;
    let can_report = |node: usize, number: u8| match before[node] {
        0 => counters[node] < number && proposal <= number,
        vote => vote == number,
    };
    for vote in votes {
        let reports = (0..N).filter(|&node| can_report(node, *vote)).count();
        if reports < majority(N) {
            *vote = 0;
        }
    }
}

/// The same proposal; none if it is not above what the counters lead to by themselves.
pub(super) fn lower_proposal<const N: usize>(
    proposal: u8,
    by: u8,
    votes: &Votes<N>,
    counters: &[u8; N],
) -> u8 {
    let proposal = proposal.saturating_sub(by);
    let open = (0..N).filter(|&node| votes[node] == 0);
    match open.map(|node| counters[node] + 1).min() {
        Some(next) if proposal > next => proposal,
        _ => 0,
    }
}
