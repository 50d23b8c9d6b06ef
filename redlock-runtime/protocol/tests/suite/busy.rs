//! A busy set is asked for a majority first.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

/// For how long a majority is asked before the others are.
const HEDGE: Duration = Duration::from_millis(8);

#[test]
fn a_busy_set_is_asked_for_a_majority_and_a_lock_that_is_kept_is_put_on_the_rest() {
    let mut world = World::busy(5);
    world.lock(1, "k", params());
    assert_eq!(world.sends(is_acquire).len(), 3);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.carriers("k"), [0, 1, 2, 3, 4]);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), []);
    world.lock(2, "k", params());
    world.end(2);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.sends(is_acquire).len(), 3 + 3);
}

#[test]
fn one_refusal_among_the_first_nodes_of_a_busy_set_is_made_up_for_by_the_others() {
    let mut world = World::busy(5);
    let leader = world.leader("k");
    world.occupy(leader, "k", OTHER, LEASE);
    let asked = world.now;
    world.lock(1, "k", params());
    world.assert_within(3 * ROUND_TRIP, asked);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), [leader], "which is another's");
}

#[test]
fn a_node_of_a_busy_set_that_was_not_asked_is_not_waited_for() {
    let mut world = World::busy(4);
    let order = world.order("k");
    for node in [order[1], order[2]] {
        world.occupy(node, "k", OTHER, LEASE);
    }
    let asked = world.now;
    world.ask(1, "k", params());
    world.run_until(|world| world.sends(is_acquire).len() > 3);
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

#[test]
fn a_refusal_on_a_busy_set_names_the_nodes_that_were_not_asked() {
    let mut world = World::busy(5);
    world.occupy_all("k", OTHER);
    world.ask(1, "k", params());
    let refusal = world.refusal(1);
    assert!(refusal.verdicts.contains(&Verdict::NotAsked));
}

#[test]
fn a_silent_node_makes_no_set_busy() {
    let mut world = World::new(5);
    world.behave([2], Behavior::Unresponsive);
    for section in 1..=20 {
        world.lock(section, "k", params());
        world.end(section);
        world.run_for(ROUND_TRIP);
    }
    assert_eq!(world.sends(is_acquire).len(), 20 * 5);
}

#[test]
fn a_minority_of_bad_nodes_of_a_busy_set_costs_little_time_once() {
    for (bad, costs) in [
        (Behavior::Dead, Duration::ZERO),
        (Behavior::Unresponsive, HEDGE),
        (Behavior::Slow(Duration::from_millis(900)), HEDGE),
        (Behavior::Refusing(Refuses::Everything), ROUND_TRIP),
    ] {
        let mut world = World::busy(5);
        world.behave([0, 2], bad);
        for (section, costs) in [(1, costs), (2, Duration::ZERO)] {
            let asked = world.now;
            world.lock(section, "k", params());
            assert_eq!(world.now.since(asked), costs + ROUND_TRIP, "{bad:?}");
            world.end(section);
            world.run_for(HEDGE);
        }
    }
}

/// It is tried again ten times a second.
#[test]
fn a_node_that_is_always_late_or_refuses_for_good_delays_few_locks_while_the_set_is_busy() {
    use Behavior::{Delayed, Refusing};
    for bad in [Delayed(20 * HOP), Refusing(Refuses::Writes)] {
        let mut world = World::busy(5);
        world.behave([world.leader("k")], bad);
        let mut delayed = 0;
        let began = world.now;
        for section in 1..=200 {
            let asked = world.now;
            world.lock(section, "k", params());
            delayed += u128::from(world.now.since(asked) > ROUND_TRIP);
            world.end(section);
            world.run_for(2 * ROUND_TRIP);
        }
        let tenths = world.now.since(began).as_millis() / 100;
        assert!(delayed <= tenths + 1, "{bad:?}: {delayed} locks");
        assert!(delayed >= 5, "{bad:?}: {delayed} locks");
    }
}
