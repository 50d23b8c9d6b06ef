//! A busy set: a majority is asked first.

use super::*;

/// After this time a lock that is held is on all nodes.
const SPREAD: Duration = Duration::from_millis(25);

#[test]
fn a_busy_minority_of_bad_nodes_costs_no_time_once_it_is_known() {
    // Four times what a majority took, but as long as timers are coarse.
    let patience = Duration::from_millis(10);
    for (bad, first) in [
        (Mood::Dead, ROUND_TRIP),
        (Mood::Mute, patience + ROUND_TRIP),
        (
            Mood::Slow(Duration::from_millis(900)),
            patience + ROUND_TRIP,
        ),
    ] {
        let mut world = World::busy(5);
        for node in [0, 2] {
            world.nodes[node].mood = bad;
            if bad == Mood::Dead {
                world.break_connection(node);
            }
        }
        for lease in 1..=5 {
            let asked = world.now;
            world.ask(lease, "k", terms());
            assert!(
                matches!(world.answer(lease), Answer::Granted { .. }),
                "{bad:?}"
            );
            // One for each bad node that is found out.
            let takes = if lease <= 2 { first } else { ROUND_TRIP };
            let took = world.now.since(asked);
            assert!(took <= takes, "{bad:?}, lease {lease}: {took:?}");
            world.end(lease);
        }
    }
}

#[test]
fn a_busy_set_is_asked_for_a_majority_and_a_lock_that_is_held_for_longer_is_spread() {
    let mut world = World::busy(5);
    world.ask(1, "k", terms());
    world.answer(1);
    assert_eq!(world.sends(is_acquire).len(), 3);
    world.run_for(SPREAD);
    assert_eq!(world.holders("k"), [0, 1, 2, 3, 4]);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.holders("k"), []);
    world.ask(2, "k", terms());
    world.answer(2);
    world.end(2);
    world.run_for(SPREAD);
    assert_eq!(world.sends(is_acquire).len(), 5 + 3);
    assert_eq!(world.sends(is_release).len(), 5 + 3);
}

#[test]
fn the_first_renewal_finds_the_lock_on_all_nodes() {
    let mut world = World::busy(5);
    world.ask(1, "k", terms());
    world.answer(1);
    world.handle(Event::Extend { lease: LeaseId(1) });
    assert!(matches!(world.answer(1), Answer::Extended { .. }));
    world.run_for(2 * HOP);
    assert_eq!(world.holders("k"), [0, 1, 2, 3, 4]);
    let nodes = world.sends(is_acquire).len();
    world.run_for(SPREAD);
    assert_eq!(
        world.sends(is_acquire).len(),
        nodes,
        "nobody is asked twice"
    );
}

#[test]
fn one_refusal_among_the_first_is_made_up_for_by_the_others() {
    let mut world = World::busy(5);
    let first = stripe("k") as usize % 5;
    let expires = world.now.after(LEASE);
    world.nodes[first]
        .keys
        .insert("k".into(), (Owner(7), expires));
    let asked = world.now;
    world.ask(1, "k", terms());
    assert!(matches!(world.answer(1), Answer::Granted { .. }));
    assert_eq!(world.now.since(asked), 2 * ROUND_TRIP);
    assert_eq!(world.holders("k").len(), 5);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.holders("k"), [first], "which is another's");
    assert_eq!(world.sends(is_release).len(), 4);
}

#[test]
fn a_node_that_was_slow_is_tried_again_after_a_while() {
    let mut world = World::busy(3);
    let first = stripe("k") as usize % 3;
    world.nodes[first].mood = Mood::Slow(Duration::from_millis(40));
    let asks_it = |world: &mut World, lease| {
        let before = world.sends(is_acquire).len();
        world.ask(lease, "k", terms());
        world.answer(lease);
        world.end(lease);
        let asked = world.sends(is_acquire).split_off(before);
        asked.iter().any(|(_, node)| node.0 == first)
    };
    assert!(asks_it(&mut world, 1));
    world.run_for(Duration::from_millis(200));
    assert!(!asks_it(&mut world, 2));
    world.nodes[first].mood = Mood::Well;
    world.run_for(Duration::from_secs(2));
    assert!(asks_it(&mut world, 3));
    world.run_for(Duration::from_millis(200));
    assert!(asks_it(&mut world, 4));
}

#[test]
fn a_refusal_tells_who_was_not_asked() {
    let mut world = World::busy(5);
    let expires = world.now.after(LEASE);
    for node in &mut world.nodes {
        node.keys.insert("k".into(), (Owner(7), expires));
    }
    world.ask(1, "k", terms());
    let Answer::Refused(refusal) = world.answer(1) else {
        panic!("held by another");
    };
    let not_asked = |vote: &&Vote| **vote == Vote::NotAsked;
    assert_eq!(refusal.votes.iter().filter(not_asked).count(), 2);
}

/// The nodes that have granted nothing yet are asked who has the lock before they are asked for it.
#[test]
fn that_a_majority_has_lost_a_lock_is_not_hidden_by_those_it_is_spread_to() {
    for extends in [false, true] {
        let mut world = World::busy(5);
        world.ask(1, "k", renewing());
        world.answer(1);
        for node in &world.holders("k")[..2] {
            world.nodes[*node].keys.clear();
        }
        if extends {
            world.handle(Event::Extend { lease: LeaseId(1) });
        }
        assert!(matches!(world.answer(1), Answer::Over(Loss::Lost { .. })));
    }
}

#[test]
fn nor_by_nodes_that_come_back() {
    let mut world = World::new(5);
    for node in [3, 4] {
        world.nodes[node].mood = Mood::Dead;
        world.break_connection(node);
    }
    world.ask(1, "k", renewing());
    world.answer(1);
    world.run_for(SPREAD);
    for node in [1, 2] {
        world.nodes[node].keys.clear();
    }
    for node in [3, 4] {
        world.nodes[node].mood = Mood::Well;
    }
    world.run_for(Duration::from_secs(1));
    assert!(matches!(world.answer(1), Answer::Over(Loss::Lost { .. })));
}

#[test]
fn a_node_that_refuses_a_lock_that_is_held_is_asked_again() {
    let mut world = World::busy(5);
    world.ask(1, "k", renewing());
    world.answer(1);
    let holders = world.holders("k");
    let expires = world.now.after(2 * SPREAD);
    let others = (0..5).filter(|node| !holders.contains(node));
    for node in others {
        let key = (Owner(7), expires);
        world.nodes[node].keys.insert("k".into(), key);
    }
    world.run_for(LEASE);
    assert_eq!(world.holders("k"), [0, 1, 2, 3, 4]);
    assert!(world.nodes.iter().all(|node| node.keys["k"].0 != Owner(7)));
}

#[test]
fn a_node_that_falls_silent_in_the_second_round_is_made_up_for() {
    let mut world = World::busy(5);
    let first = stripe("k") as usize % 5;
    world.nodes[first].counter = Token(30);
    let asked = world.now;
    world.ask(1, "k", terms());
    let confirms = |request: &Request| matches!(request, Request::Confirm { .. });
    while world.sends(confirms).is_empty() {
        assert!(world.step());
    }
    world.nodes[(first + 1) % 5].mood = Mood::Mute;
    assert_eq!(token(world.answer(1)), Token(31));
    assert_eq!(world.now.since(asked), 2 * ROUND_TRIP);
}

#[test]
fn a_silent_node_makes_no_set_busy() {
    let mut world = World::new(5);
    world.nodes[2].mood = Mood::Mute;
    for lease in 1..=20 {
        world.ask(lease, "k", terms());
        world.answer(lease);
        world.end(lease);
    }
    assert_eq!(world.sends(is_acquire).len(), 20 * 5);
}
