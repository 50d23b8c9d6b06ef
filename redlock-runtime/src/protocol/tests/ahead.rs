//! Leases that are asked for before their turn.

use super::*;

/// Sections are known to be short: lease 2 holds the lock, and those up to `last` have been asked for
/// ahead.
fn brisk(nodes: usize, last: u64) -> World {
    let mut world = World::new(nodes);
    for lease in 1..=last {
        world.ask(lease, "k", waiting(LEASE));
    }
    world.answer(1);
    world.end(1);
    world.answer(2);
    world.run_for(ROUND_TRIP);
    world
}

fn granted(world: &mut World, lease: u64) -> (Instant, Token) {
    match world.answer(lease) {
        Answer::Granted { deadline, token } => (deadline, token),
        other => panic!("lease {lease}: {other:?}"),
    }
}

#[test]
fn several_are_granted_in_one_round_and_each_begins_when_the_one_before_ends() {
    for nodes in 1..=5 {
        let mut world = brisk(nodes, 6);
        let majority = nodes / 2 + 1;
        assert_eq!(world.sends(is_acquire).len(), nodes + 5 * majority);
        let (asked, _) = *world.sends(is_acquire).last().unwrap();
        let mut before = Token(0);
        for lease in 3..=6 {
            let ended = world.now;
            world.end(lease - 1);
            let (deadline, token) = granted(&mut world, lease);
            assert_eq!(world.now, ended, "{nodes} nodes, lease {lease}");
            assert_eq!(
                deadline,
                asked.after(LEASE),
                "it counts from its own question"
            );
            assert!(token > before);
            before = token;
        }
        world.end(6);
        world.run_for(10 * HOP);
        assert_eq!(world.holders("k"), []);
        assert_eq!(world.sends(is_release).len(), nodes);
    }
}

#[test]
fn what_was_asked_for_long_ago_is_asked_for_anew() {
    let mut world = brisk(3, 3);
    world.run_for(line::LONGEST_TURN);
    let ended = world.now;
    world.end(2);
    let (deadline, _) = granted(&mut world, 3);
    assert_eq!(world.now.since(ended), ROUND_TRIP);
    assert_eq!(deadline, ended.after(LEASE));
}

#[test]
fn nothing_is_asked_ahead_where_sections_are_long() {
    let mut world = World::new(3);
    for lease in 1..=4 {
        world.ask(lease, "k", waiting(LEASE));
    }
    for lease in 1..=3 {
        world.answer(lease);
        world.run_for(Duration::from_millis(15));
        world.end(lease);
    }
    assert_eq!(world.sends(is_acquire).len(), 3 + 3 * 2);
}

#[test]
fn who_was_asked_for_ahead_and_goes_away_leaves_the_others_their_order() {
    let mut world = brisk(3, 5);
    world.end(4);
    world.end(2);
    let (_, third) = granted(&mut world, 3);
    world.end(3);
    let (_, fifth) = granted(&mut world, 5);
    assert!(third < fifth);
    world.end(5);
    world.run_for(10 * HOP);
    assert_eq!(world.holders("k"), []);
}

#[test]
fn who_was_asked_for_ahead_waits_no_longer_than_it_wants() {
    let mut world = World::new(3);
    let wait = Duration::from_millis(100);
    world.ask(1, "k", waiting(LEASE));
    world.ask(2, "k", waiting(LEASE));
    let asked = world.now;
    world.ask(3, "k", waiting(wait));
    world.answer(1);
    world.end(1);
    world.answer(2);
    assert!(matches!(world.answer(3), Answer::Refused(_)));
    assert_eq!(world.now, asked.after(wait));
}

#[test]
fn a_lock_that_is_lost_takes_along_what_was_asked_for_ahead() {
    let mut world = brisk(3, 3);
    for node in 0..3 {
        world.nodes[node].keys.clear();
    }
    assert!(matches!(world.answer(2), Answer::Over(Loss::Lost { .. })));
    let lost = world.now;
    let (deadline, _) = granted(&mut world, 3);
    assert!(
        deadline >= lost.after(LEASE),
        "asked for anew, with a key of its own"
    );
}

#[test]
fn who_wants_to_hear_of_its_release_hears_what_was_said_after_it() {
    let mut world = brisk(3, 3);
    for node in 0..3 {
        world.nodes[node].keys.clear();
    }
    let (lease, report) = (LeaseId(2), true);
    world.handle(Event::End { lease, report });
    assert_eq!(world.answer(2), Answer::Released(Outcome::AlreadyExpired));
}

#[test]
fn a_number_from_before_the_last_one_is_not_used() {
    let mut world = brisk(3, 4);
    // Lease 3 wants to hear of the release of lease 2, and so is asked for after it: its number is
    // larger than that of lease 4, which was asked for ahead.
    let (lease, report) = (LeaseId(2), true);
    for node in &mut world.nodes {
        node.counter = Token(node.counter.0 + 100);
    }
    world.handle(Event::End { lease, report });
    let (_, third) = granted(&mut world, 3);
    world.end(3);
    let (_, fourth) = granted(&mut world, 4);
    assert!(third < fourth, "{third:?} before {fourth:?}");
}
