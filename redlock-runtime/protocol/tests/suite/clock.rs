//! Nodes whose clocks run ahead, and so drop keys early.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

fn set_forward(world: &mut World, nodes: impl IntoIterator<Item = usize>, by: Duration) {
    for node in nodes {
        world.nodes[node].clock_ahead += by;
    }
}

#[test]
fn one_step_within_the_guard_band_seen_by_many_locks_is_one_step() {
    let mut world = World::new(3);
    for section in 1..=20 {
        world.lock(section, &format!("lock {section}"), renewing());
    }
    world.run_for(Duration::from_millis(100));
    // All servers' clocks are set forward by 200 ms: the guard band is 500 ms.
    set_forward(&mut world, 0..3, Duration::from_millis(200));
    world.run_for(Duration::from_millis(1_800));
    world.lock(30, "another", params());
    world.run_for(2 * LEASE);
    world.expired(30);
    assert!(!world.is_any_over(), "{:?}", world.answers());
    world.assert_all_vote();
}

#[test]
fn small_steps_that_add_up_to_more_than_the_guard_band_within_a_lease_are_no_steps() {
    let mut world = World::new(1);
    world.lock(1, "k", renewing());
    let mut renewals = 0;
    while matches!(world.answer(1), Answer::Extended { .. }) {
        set_forward(&mut world, [0], Duration::from_millis(300));
        renewals += 1;
        assert!(renewals < 10, "300 ms in each third of a lease");
    }
    assert!(matches!(world.state(0), NodeState::ClockAhead { .. }));
}

#[test]
fn a_node_whose_clock_runs_ahead_does_not_vote_until_all_that_it_may_have_dropped_has_expired() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.run_for(100 * HOP);
    set_forward(&mut world, [0], Duration::from_millis(800));
    world.extended(1);
    world.run_for(ROUND_TRIP);
    let NodeState::ClockAhead { by, until } = world.state(0) else {
        panic!("operators are told")
    };
    assert_between(by, 700 * HOP, 900 * HOP);
    assert!(until >= world.now.after(settings().max_ttl - LEASE));
    let is_vote = |request: &Request| is_acquire(request) || is_extend(request);
    let votes = |world: &World| world.sends_to(0, is_vote).len();
    let before = votes(&world);
    world.break_connections(0);
    while world.next().is_some_and(|next| next < until) {
        assert_eq!(votes(&world), before, "nor by a new connection");
        assert!(world.step());
    }
    world.run_for(LEASE);
    assert!(votes(&world) > before);
    assert_eq!(world.state(0), NodeState::Up);
    assert!(!world.is_any_over());
}

#[test]
fn a_renewal_counts_no_vote_of_a_clock_that_runs_ahead() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.run_for(100 * HOP);
    set_forward(&mut world, [0], Duration::from_millis(800));
    world.kill(1);
    assert!(matches!(world.answer(1), Answer::Over(_)));
}

#[test]
fn a_clock_that_is_faster_than_the_guard_band_allows_is_found_out() {
    for (gain, is_found) in [(50, false), (200, true)] {
        let mut world = World::new(3);
        world.nodes[0].set_clock_gain(gain, world.now);
        world.lock(1, "k", renewing());
        world.run_for(4 * LEASE);
        let is_ahead = matches!(world.state(0), NodeState::ClockAhead { .. });
        assert_eq!(is_ahead, is_found, "{gain} thousandths");
        assert!(!world.is_any_over());
    }
}

/// A node whose vote was asked for while it was away is given the key once more when it is back,
/// with the longer time that the turn has by then.
#[test]
fn a_key_that_is_put_back_for_longer_says_nothing_about_the_clock() {
    for early in 0..20 {
        let mut world = World::new(3);
        world.behave([1], Behavior::Delayed(100 * HOP));
        world.break_connections(1);
        world.run_for(20 * HOP);
        let lease = Duration::from_secs(1);
        world.lock(1, "k", params_of(lease));
        world.ask(2, "k", waiting(LEASE));
        world.run_for((100 - early) * HOP);
        // The round is still open when the node turns out to vote.
        world.extend(1);
        world.run_for(lease / 2);
        assert_eq!(world.state(1), NodeState::Up, "{early} ms early");
        assert_eq!(world.carriers("k"), [0, 1, 2]);
    }
}
