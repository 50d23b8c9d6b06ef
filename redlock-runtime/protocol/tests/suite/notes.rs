//! What holders say to those who look at their locks.

use redlock_protocol::*;

use crate::{world::*, *};

/// What each node shows beside the key.
fn notes<'a>(world: &'a World, key: &str) -> Vec<Option<&'a str>> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.note(key, world.now)).collect()
}

#[test]
fn a_note_is_on_the_nodes_for_as_long_as_the_lock_is_held() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 2);
        world.lock(1, "k", renewing());
        assert_eq!(notes(&world, "k"), vec![None; nodes]);
        world.client(0).note(1, "ours");
        world.run_for(HOP);
        assert_eq!(notes(&world, "k"), vec![Some("ours"); nodes]);
        // Renewals let it live on with the key.
        for _ in 0..30 {
            world.run_for(LEASE / 10);
            assert_eq!(notes(&world, "k"), vec![Some("ours"); nodes]);
        }
        world.end(1);
        world.client(1).lock(2, "k", waiting(LEASE));
        assert_eq!(notes(&world, "k"), vec![None; nodes]);
    }
}

#[test]
fn without_renewals_a_note_costs_one_round_and_no_lease_is_longer_for_it() {
    let mut world = World::new(3);
    let (deadline, _) = world.lock(1, "k", params());
    world.client(0).note(1, "ours");
    world.run_for(LEASE / 2);
    assert_eq!(world.sends(is_extend).len(), 3);
    assert_eq!(notes(&world, "k"), vec![Some("ours"); 3]);
    world.expired(1);
    world.assert_over(deadline);
}

#[test]
fn the_next_section_of_the_process_has_an_owner_and_a_note_of_its_own() {
    let mut world = World::new(3);
    let (_, first) = world.lock(1, "k", params());
    world.client(0).note(1, "first");
    world.ask(2, "k", waiting(LEASE));
    world.ask(3, "k", waiting(LEASE));
    world.run_for(ROUND_TRIP);
    let owner = world.majority_owner("k");
    world.end(1);
    let (_, second) = world.granted(2);
    assert!(second > first);
    assert_ne!(world.majority_owner("k"), owner);
    assert_eq!(notes(&world, "k"), vec![None; 3]);
    world.client(0).note(2, "second");
    world.run_for(ROUND_TRIP);
    assert_eq!(notes(&world, "k"), vec![Some("second"); 3]);
    world.client(0).note(3, "of one that waits");
    world.client(0).note(1, "of one that is over");
    world.run_for(ROUND_TRIP);
    assert_eq!(notes(&world, "k"), vec![Some("second"); 3]);
}

#[test]
fn a_node_that_gets_the_key_back_gets_the_note_with_the_next_renewal() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.client(0).note(1, "ours");
    world.run_for(ROUND_TRIP);
    world.nodes[0].flush();
    world.run_for(LEASE);
    assert_eq!(notes(&world, "k")[1..], [Some("ours"); 2]);
    world.await_vote(0);
    world.run_for(LEASE);
    assert_eq!(notes(&world, "k"), vec![Some("ours"); 3]);
}

#[test]
fn a_note_of_several_keys_is_beside_each() {
    let mut world = World::new(3);
    world.client(0).ask_all(1, &["a", "b"], params());
    world.granted(1);
    world.client(0).note(1, "both");
    world.run_for(ROUND_TRIP);
    for key in ["a", "b"] {
        assert_eq!(notes(&world, key), vec![Some("both"); 3]);
    }
}

#[test]
fn a_permit_has_the_note_of_its_holder() {
    let mut world = World::with_clients(3, 2);
    for client in 0..2 {
        world.client(client).lock(1, POOL, params());
        world.client(client).note(1, ["one", "two"][client]);
    }
    world.run_for(ROUND_TRIP);
    let slots = [0, 1].map(|slot| slot_key(POOL, slot));
    let mut found: Vec<_> = slots.iter().flat_map(|slot| notes(&world, slot)).collect();
    found.sort_unstable();
    let (one, two) = (Some("one"), Some("two"));
    assert_eq!(found, [one, one, one, two, two, two]);
}

#[test]
fn readers_have_no_note() {
    let mut world = World::new(3);
    world.lock(1, "k", shared(params()));
    world.client(0).note(1, "of a reader");
    world.run_for(LEASE / 2);
    assert_eq!(notes(&world, "k"), vec![None; 3]);
}
