//! Sections that follow each other within one turn, without a round of their own.

use std::{ops::RangeInclusive, time::Duration};

use redlock_protocol::*;

use crate::{world::*, *};

fn queue(world: &mut World, sections: RangeInclusive<u64>, params: LockParams) {
    for section in sections {
        world.ask(section, "k", params);
    }
}

/// What was seen of a row of sections.
struct Row {
    /// How many began at the moment at which the one before ended.
    at_once: usize,
    last: Token,
}

/// One section after the other, each of this length.
fn run_sections(world: &mut World, sections: RangeInclusive<u64>, length: Duration) -> Row {
    let mut row = Row {
        at_once: 0,
        last: Token(0),
    };
    for section in sections {
        let ended = world.now;
        let (deadline, token) = world.granted(section);
        assert!(token > row.last, "{token} after {}", row.last);
        assert!(deadline > world.now);
        row.at_once += usize::from(world.now == ended);
        row.last = token;
        world.run_for(length);
        world.end(section);
    }
    row
}

#[test]
fn short_sections_follow_each_other_without_a_node() {
    for nodes in 1..=5 {
        for length in [0, 1, 3, 8] {
            let mut world = World::new(nodes);
            world.client(0).start_wall_clock();
            queue(&mut world, 1..=100, waiting(LONG));
            let began = world.now;
            let row = run_sections(&mut world, 1..=100, length * HOP);
            let at_once = row.at_once;
            assert!(at_once >= 95, "sections of {length} ms: {at_once}");
            let took = world.now.since(began);
            assert!(took <= 100 * length * HOP + 5 * ROUND_TRIP, "{took:?}");
            assert_eq!(world.sends(is_acquire).len(), nodes);
            let rounds = world.sends(is_extend).len() / nodes;
            let expected = took.as_millis() as usize / 20 + 3;
            assert!(rounds <= expected, "{rounds} rounds in {took:?}");
            world.run_for(10 * HOP);
            let released = world.sends(is_release).len();
            assert_eq!(released, nodes, "the turn is released once");
            assert_eq!(world.carriers("k"), []);
        }
    }
}

#[test]
fn more_sections_than_a_block_has_tokens_take_another_block() {
    let mut world = World::new(3);
    world.client(0).start_wall_clock();
    queue(&mut world, 1..=2_000, waiting(LONG));
    let began = world.now;
    run_sections(&mut world, 1..=2_000, Duration::ZERO);
    world.assert_within(12 * ROUND_TRIP, began);
}

#[test]
fn a_section_begins_only_while_the_last_round_is_young() {
    for (lease, youth) in [(5_000, 50), (400, 20)] {
        let (lease, youth) = (Duration::from_millis(lease), Duration::from_millis(youth));
        for length in [1, 7, 19, 60] {
            let mut world = World::new(3);
            queue(&mut world, 1..=40, lasting(lease));
            for section in 1..=40 {
                let (deadline, _) = world.granted(section);
                let left = deadline.since(world.now);
                let case = format!("sections of {length} ms, {section}");
                assert!(left >= lease - youth, "{case}: {left:?} of {lease:?}");
                world.run_for(length * HOP);
                world.end(section);
            }
        }
    }
}

#[test]
fn after_a_long_section_the_next_one_begins_within_a_round_trip() {
    let mut world = World::new(3);
    queue(&mut world, 1..=10, waiting(LONG));
    for section in 1..=10 {
        let ended = world.now;
        let (deadline, _) = world.granted(section);
        assert!(world.now.since(ended) <= ROUND_TRIP, "section {section}");
        assert!(deadline >= ended.after(LEASE - Duration::from_millis(50)));
        world.run_for(Duration::from_millis(200));
        world.end(section);
    }
    assert_eq!(world.sends(is_acquire).len(), 3);
}

/// Waits for long, for a lease of this length.
fn lasting(lease: Duration) -> LockParams {
    waiting_for(LONG, params_of(lease))
}

/// A process that dies must keep others from the lock for no longer than its own lease lasts.
#[test]
fn the_keys_of_a_short_lease_behind_a_long_one_do_not_live_for_as_long_as_those() {
    let mut world = World::new(3);
    world.ask(1, "k", lasting(12 * LEASE));
    world.ask(2, "k", lasting(LEASE / 5));
    world.granted(1);
    world.end(1);
    let (deadline, _) = world.granted(2);
    for expiry in world.expiries("k") {
        let longer = expiry.since(deadline);
        assert!(longer <= LEASE, "{longer:?}");
    }
}

#[test]
fn one_round_tells_the_releases_of_all_who_let_go_in_a_while() {
    let mut world = World::new(3);
    queue(&mut world, 1..=40, waiting(LONG));
    // The second one brings the tokens for those behind it.
    run_sections(&mut world, 1..=2, HOP);
    let before = world.sends(is_extend).len();
    for section in 3..=12 {
        world.granted(section);
        world.run_for(HOP / 10);
        world.release(section);
    }
    assert_eq!(world.sends(is_extend).len(), before);
    for section in 3..=12 {
        assert_eq!(world.answer(section), Answer::Released(Release::Released));
    }
    assert_eq!(world.sends(is_extend).len(), before + 3);
}

#[test]
fn what_is_said_of_a_release_was_found_out_after_the_section_had_ended() {
    // Sections follow each other, and the keys are deleted while the third one runs.
    for (told, nodes) in [(false, 3), (true, 3), (false, 5), (true, 5)] {
        let mut world = World::new(nodes);
        if !told {
            world.tell_nothing();
        }
        queue(&mut world, 1..=10, waiting(LONG));
        run_sections(&mut world, 1..=2, HOP);
        world.granted(3);
        world.forget_all("k");
        world.assert_release(3, Release::AlreadyExpired);
    }
}

#[test]
fn an_awaited_release_on_silent_nodes_is_unknown_after_the_node_timeout() {
    for waiters in [0, 3] {
        let mut world = World::new(3);
        world.ask(1, "k", params());
        queue(&mut world, 2..=1 + waiters, waiting(LONG));
        world.granted(1);
        world.run_for(100 * HOP);
        world.behave(0..3, Behavior::Unresponsive);
        let ended = world.now;
        world.assert_release(1, Release::Unknown);
        let took = world.now.since(ended);
        assert_eq!(took, params().round_timeout(), "{waiters} waiters");
    }
}

#[test]
fn a_section_that_is_stuck_blocks_its_turn_and_not_for_ever() {
    let mut world = World::new(3);
    queue(&mut world, 1..=30, waiting(LONG));
    run_sections(&mut world, 1..=20, HOP);
    let began = world.now;
    world.granted(21);
    world.expired(21);
    let owner = world.majority_owner("k");
    world.run_for(Duration::from_millis(400));
    assert_eq!(world.answers(), []);
    assert_eq!(world.majority_owner("k"), owner, "it has not let go");
    assert!(owner.is_some());
    world.granted(22);
    let (took, ttl) = (world.now.since(began), params().key_ttl());
    assert_between(took, ttl - 50 * HOP, ttl + 200 * HOP);
    // It lets go of what is not its own any more.
    world.end(21);
    world.run_for(10 * HOP);
    assert!(world.majority_owner("k").is_some());
    assert_eq!(world.answers(), []);
}

#[test]
fn one_refresh_is_under_way_at_a_time() {
    let lag = Duration::from_millis(40);
    let mut world = World::new(3);
    world.behave(0..3, Behavior::Delayed(lag));
    queue(&mut world, 1..=200, waiting(LONG));
    run_sections(&mut world, 1..=200, HOP);
    let sent = world.sends_to(0, is_extend);
    let follows = |pair: &[Instant]| pair[1].since(pair[0]) >= lag;
    assert!(sent.windows(2).all(follows), "{sent:?}");
}

/// Else others would wait for as long after a crash, though the section was to have the lock for a moment.
#[test]
fn keys_live_no_longer_for_a_waiter_with_a_longer_lease() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", renewing());
    world.ask(2, "k", lasting(12 * LEASE));
    for _ in 0..10 {
        world.run_for(LEASE / 10);
        let last = world.now.after(params().key_ttl() + 20 * HOP);
        let expiries = world.expiries("k");
        assert!(expiries.iter().all(|&at| at <= last), "{expiries:?}");
    }
    // It gets its own once it has the lock.
    world.end(1);
    let ended = world.now;
    world.granted(2);
    world.assert_within(2 * ROUND_TRIP, ended);
    world.assert_lives_until(world.now.after(12 * LEASE));
}
