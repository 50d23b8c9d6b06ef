//! Leases that are asked for before their turn.

use super::*;

fn with_line(nodes: usize, leases: u64, terms: Terms) -> World {
    let mut world = World::new(nodes);
    for lease in 1..=leases {
        world.ask(lease, "k", terms);
    }
    world
}

/// Sections are known to be short: lease 2 holds the lock, and those up to `last` have been asked for
/// ahead.
fn brisk(nodes: usize, last: u64) -> World {
    let mut world = with_line(nodes, last, waiting(LEASE));
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
    let mut world = with_line(3, 4, waiting(LEASE));
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
    world.release(2);
    assert_eq!(world.answer(2), Answer::Released(Outcome::AlreadyExpired));
}

#[test]
fn a_number_from_before_the_last_one_is_not_used() {
    let mut world = brisk(3, 4);
    // Lease 3 wants to hear of the release of lease 2, and so is asked for after it: its number is
    // larger than that of lease 4, which was asked for ahead.
    for node in &mut world.nodes {
        node.counter = Token(node.counter.0 + 100);
    }
    world.release(2);
    let (_, third) = granted(&mut world, 3);
    world.end(3);
    let (_, fourth) = granted(&mut world, 4);
    assert!(third < fourth, "{third:?} before {fourth:?}");
}

/// Sections of this length, one lease after the other. How many began when the one before ended.
fn begin_at_once(
    world: &mut World,
    leases: std::ops::RangeInclusive<u64>,
    section: Duration,
) -> usize {
    let mut at_once = 0;
    for lease in leases {
        let ended = world.now;
        granted(world, lease);
        at_once += usize::from(world.now == ended);
        world.run_for(section);
        world.end(lease);
    }
    at_once
}

/// Lease 2 has just been granted, and the next ones have just been asked for.
fn about_to_hear(leases: u64, terms: Terms) -> World {
    let mut world = with_line(3, leases, terms);
    world.answer(1);
    world.run_for(4 * HOP);
    world.end(1);
    world.answer(2);
    world
}

#[test]
fn what_is_granted_late_ahead_does_not_count_for_what_is_asked_later() {
    let terms = Terms {
        guard_band: HOP,
        ..waiting(10 * LEASE)
    };
    let mut world = about_to_hear(4, terms);
    for node in &mut world.nodes {
        node.mood = Mood::Late(200 * HOP);
    }
    world.run_for(190 * HOP);
    for node in &mut world.nodes {
        node.mood = Mood::Slow(10 * LEASE);
    }
    world.end(2);
    let answer = world.answer(3);
    let keys = world.nodes.iter().map(|node| node.keys["k"].1);
    if let Answer::Granted { deadline, .. } = answer {
        assert!(keys.filter(|&expires| expires >= deadline).count() >= 2);
    }
}

#[test]
fn who_is_asked_for_once_more_is_not_granted_before_a_node_has_heard_that() {
    let mut world = about_to_hear(4, waiting(10 * LEASE));
    world.run_for(HOP);
    for node in &mut world.nodes {
        node.mood = Mood::Slow(100 * HOP);
    }
    let ended = world.now;
    world.release(2);
    granted(&mut world, 3);
    assert!(world.now.since(ended) > 100 * HOP);
}

#[test]
fn a_node_that_was_down_is_not_waited_for() {
    let mut world = World::new(3);
    let [_, second, down] = order("k", 3)[..] else {
        unreachable!()
    };
    world.nodes[down].mood = Mood::Dead;
    world.break_connection(down);
    for lease in 1..=4 {
        world.ask(lease, "k", waiting(LEASE));
    }
    world.answer(1);
    world.end(1);
    world.answer(2);
    world.break_connection(second);
    let ended = world.now;
    world.end(2);
    granted(&mut world, 3);
    assert!(world.now.since(ended) < terms().round_timeout() / 2);
}

#[test]
fn short_sections_are_not_watched_and_nothing_is_asked_in_vain() {
    for section in [1, 3, 5, 8] {
        let mut world = with_line(5, 50, waiting(10 * LEASE));
        let at_once = begin_at_once(&mut world, 1..=50, Duration::from_millis(section));
        assert!(at_once >= 47, "sections of {section} ms: {at_once}");
        assert_eq!(
            world.sends(|body| matches!(body, Request::Watch { .. })),
            []
        );
        assert_eq!(world.sends(is_acquire).len(), 5 + 49 * 3);
    }
}

#[test]
fn who_awaits_releases_is_not_asked_for_ahead() {
    let mut world = with_line(3, 20, waiting(10 * LEASE));
    for lease in 1..=20 {
        granted(&mut world, lease);
        world.run_for(HOP);
        world.release(lease);
    }
    assert_eq!(world.sends(is_acquire).len(), 3 + 19 * 2);
}

#[test]
fn after_a_long_section_short_ones_are_asked_for_ahead_again() {
    let mut world = brisk(3, 40);
    world.run_for(Duration::from_millis(100));
    world.end(2);
    let at_once = begin_at_once(&mut world, 3..=20, 4 * HOP);
    assert!(at_once >= 16, "{at_once}");
}

#[test]
fn after_one_that_awaits_its_release_the_others_are_asked_for_ahead_again() {
    let mut world = with_line(3, 40, waiting(10 * LEASE));
    begin_at_once(&mut world, 1..=9, HOP);
    granted(&mut world, 10);
    world.release(10);
    let at_once = begin_at_once(&mut world, 11..=40, HOP);
    assert!(at_once >= 26, "{at_once}");
}

#[test]
fn who_has_lost_the_lock_hears_so_although_it_was_asked_for_ahead() {
    let mut world = with_line(3, 20, waiting(10 * LEASE));
    begin_at_once(&mut world, 1..=5, 4 * HOP);
    // Lease 6 asks for more ahead, which makes the key anew.
    world.nodes.iter_mut().for_each(|node| node.keys.clear());
    granted(&mut world, 6);
    assert!(matches!(world.answer(6), Answer::Over(Loss::Lost { .. })));
}

#[test]
fn who_waits_in_another_process_is_heard_of_by_those_who_were_asked_for_ahead() {
    let mut world = with_line(3, 60, waiting(10 * LEASE));
    begin_at_once(&mut world, 1..=30, 5 * HOP);
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.is_awaited = true);
    let mut more = 0;
    while world.sends(is_release).is_empty() {
        begin_at_once(&mut world, 31 + more..=31 + more, 5 * HOP);
        more += 1;
    }
    assert!(more <= 6, "{more} sections more, of a turn that was over");
}
