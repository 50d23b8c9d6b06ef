//! One attempt to acquire a lock: what it takes, what it costs, and what it leaves behind.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

#[test]
fn a_free_lock_takes_one_round_trip_and_its_lease_counts_from_before_the_first_request() {
    for nodes in 1..=5 {
        let mut world = World::new(nodes);
        let asked = world.now;
        let (deadline, token) = world.lock(1, "k", params());
        assert_eq!(deadline, asked.after(LEASE));
        assert_eq!(world.now.since(asked), ROUND_TRIP);
        assert!(token.is_plausible());
        world.assert_lives_until(deadline.after(params().guard_band));
        assert_eq!(world.carriers("k").len(), nodes);
        assert_eq!(world.sends(is_acquire).len(), nodes);
    }
}

#[test]
fn counters_that_disagree_cost_more_rounds_once_and_tokens_rise() {
    // The others of a busy set are asked, because they may agree with one of the first.
    for (mut world, rounds) in [(World::new(5), 2), (World::busy(5), 3)] {
        for (node, counter) in world.nodes.iter_mut().zip([30, 10, 20, 10, 0]) {
            node.set_counter("k", counter);
        }
        let asked = world.now;
        let (deadline, first) = world.lock(1, "k", params());
        assert!(first > Token(20), "not above a majority: {first}");
        assert_eq!(world.now.since(asked), rounds * ROUND_TRIP);
        assert!(deadline <= asked.after((rounds - 1) * ROUND_TRIP).after(LEASE));
        world.end(1);
        world.run_for(ROUND_TRIP);
        let asked = world.now;
        let (_, second) = world.lock(2, "k", params());
        assert!(second > first);
        assert_eq!(world.now.since(asked), ROUND_TRIP);
    }
}

#[test]
fn a_minority_of_bad_nodes_costs_no_time() {
    for bad in [
        Behavior::Dead,
        Behavior::Unresponsive,
        Behavior::Slow(Duration::from_millis(900)),
        Behavior::Refusing(Refuses::Everything),
        Behavior::Refusing(Refuses::Writes),
    ] {
        let mut world = World::new(5);
        world.behave([0, 2], bad);
        let asked = world.now;
        world.lock(1, "k", params());
        assert_eq!(world.now.since(asked), ROUND_TRIP, "{bad:?}");
    }
}

#[test]
fn silent_nodes_are_waited_for_until_the_node_timeout_and_no_longer() {
    let mut world = World::new(3);
    world.behave([0, 1], Behavior::Unresponsive);
    let asked = world.now;
    world.ask(1, "k", params());
    let refusal = world.refusal(1);
    assert_eq!(refusal.cause, Cause::NoQuorum);
    assert_eq!(refusal.verdicts.len(), 3);
    let silent = |verdict: &&Verdict| **verdict == Verdict::TimedOut;
    assert_eq!(refusal.verdicts.iter().filter(silent).count(), 2);
    assert_eq!(world.now.since(asked), params().node_timeout);
}

#[test]
fn a_lock_that_another_fleet_holds_is_refused_with_the_time_that_its_keys_still_live() {
    let mut world = World::new(3);
    world.occupy_all("k", OTHER);
    world.ask(1, "k", params());
    let after = world.contended(1).expect("it is known");
    let whole = Duration::from_secs(60);
    assert!(after <= whole && after >= whole - 20 * HOP, "{after:?}");
    world.run_for(10 * HOP);
    assert_eq!(world.majority_owner("k"), Some(OTHER));
}

#[test]
fn a_lock_that_never_expires_is_refused_without_a_time() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.set_plain_key("k");
    }
    world.ask(1, "k", params());
    assert_eq!(world.refused(1), Cause::Contended { retry_after: None });
}

#[test]
fn a_lock_that_a_task_of_this_process_holds_is_refused_without_asking_a_node() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.run_for(100 * HOP);
    let asked = world.sends(is_acquire).len();
    let before = world.now;
    world.ask(2, "k", params());
    let after = world.contended(2).expect("it is known");
    assert!(after <= LEASE);
    assert_eq!(world.now, before);
    assert_eq!(world.sends(is_acquire).len(), asked);
}

#[test]
fn a_caller_that_does_not_wait_learns_of_an_outage_and_not_of_contention() {
    let mut world = World::starting(&[Behavior::Dead; 3]);
    world.ask(1, "k", waiting(LEASE));
    world.ask(2, "k", params());
    assert_eq!(world.refused(2), Cause::NoQuorum);
}

#[test]
fn waiting_ends_in_time_with_a_last_attempt() {
    let mut world = World::new(3);
    world.occupy_all("k", OTHER);
    let asked = world.now;
    let wait = Duration::from_millis(100);
    world.ask(1, "k", waiting(wait));
    world.ask(2, "k", waiting(wait / 2));
    world.contended(2);
    assert_eq!(world.now.since(asked), wait / 2);
    assert!(world.contended(1).is_some());
    assert_eq!(world.now.since(asked), wait + ROUND_TRIP);
}

/// The driver was late, or the process was stopped: the replies are there, and the lease is not.
#[test]
fn grants_that_are_seen_after_the_round_has_timed_out_do_not_count() {
    for (lease, node_timeout, pause) in [(5, 250, 260), (60, 30_000, 1_100)] {
        let mut world = World::new(3);
        let lease = Duration::from_secs(lease);
        let node_timeout = Duration::from_millis(node_timeout);
        let params = within(node_timeout, params_of(lease));
        world.ask(1, "k", params);
        world.client(0).pause_for(Duration::from_millis(pause));
        assert!(
            matches!(world.answer(1), Answer::Refused(_)),
            "votes of {pause} ms ago"
        );
        world.run_for(10 * HOP);
        assert_eq!(world.carriers("k"), [], "and they are released");
    }
}

#[test]
fn a_lease_of_which_too_little_would_be_left_is_not_granted() {
    let mut world = World::new(3);
    let lease = Duration::from_millis(100);
    let params = LockParams {
        node_timeout: LEASE,
        min_validity: lease / 2,
        ..params_of(lease)
    };
    world.behave(0..3, Behavior::Delayed(Duration::from_millis(60)));
    let asked = world.now;
    world.ask(1, "k", params);
    assert!(matches!(world.answer(1), Answer::Refused(_)));
    world.assert_within(lease / 2, asked);
    world.run_for(lease);
    assert_eq!(world.carriers("k"), []);
}

/// The round that brought the block was begun for a longer lease, and took long.
#[test]
fn a_section_begins_with_a_lease_that_is_worth_having() {
    let mut world = World::new(3);
    let lease = Duration::from_millis(200);
    let short = waiting_for(LEASE, params_of(lease));
    let long = within(2 * lease, params_of(4 * lease));
    for delay in (10..=300).step_by(10) {
        world.behave(0..3, Behavior::Healthy);
        world.lock(delay, "k", long);
        world.run_for(20 * HOP);
        world.behave(0..3, Behavior::Delayed(delay as u32 * HOP));
        world.ask(1_000 + delay, "k", short);
        world.extend(delay);
        world.run_for(2 * HOP);
        world.end(delay);
        if let Answer::Granted { deadline, .. } = world.answer(1_000 + delay) {
            let left = deadline.since(world.now);
            assert!(left >= short.min_validity, "{delay} ms: {left:?}");
            world.end(1_000 + delay);
        }
        world.run_for(LEASE);
    }
}
