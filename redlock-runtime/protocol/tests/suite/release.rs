//! Releases: what is sent where, again and again until it has been done, and what callers learn.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

fn held(nodes: usize) -> World {
    let mut world = World::new(nodes);
    world.lock(1, "k", params());
    world.run_for(2 * HOP);
    world
}

fn releases_to(world: &World, node: usize) -> usize {
    world.sends_to(node, is_release).len()
}

#[test]
fn the_outcome_of_a_release_is_what_the_nodes_reply() {
    let check = |spoil: fn(&mut World), outcome| {
        let mut world = held(3);
        spoil(&mut world);
        world.assert_release(1, outcome);
    };
    let forget_two = |world: &mut World| {
        world.nodes[0].forget_key("k");
        world.nodes[2].forget_key("k");
    };
    let refuse = |world: &mut World| {
        world.behave(0..2, Behavior::Refusing(Refuses::Everything));
    };
    check(|_| {}, Release::Released);
    check(|world| world.kill(2), Release::Released);
    check(forget_two, Release::AlreadyExpired);
    check(|world| world.expired(1), Release::AlreadyExpired);
    check(
        |world| world.behave(0..3, Behavior::Unresponsive),
        Release::Unknown,
    );
    check(refuse, Release::Unknown);
}

/// One node said so before the round that was to tell, and one after its reply to it.
#[test]
fn a_release_of_keys_that_a_majority_has_lost_is_no_mystery() {
    let mut world = World::new(3);
    for section in 1..=2 {
        world.ask(section, "k", waiting(LEASE));
    }
    world.granted(1);
    world.run_for(30 * HOP);
    world.delete(0, "k");
    world.run_for(4 * HOP);
    world.behave([2], Behavior::Delayed(50 * HOP));
    world.release(1);
    world.granted(2);
    world.run_for(3 * HOP);
    world.nodes[1].forget_key("k");
    world.client(0).hear_of_change(1, Some("k"));
    world.lost(2);
    assert_eq!(world.answer(1), Answer::Released(Release::AlreadyExpired));
}

#[test]
fn the_release_of_an_unknown_section_is_answered() {
    let mut world = World::new(3);
    world.assert_release(7, Release::Unknown);
    let mut world = held(3);
    world.release(1);
    // The second one is answered first.
    world.assert_release(1, Release::Unknown);
    assert_eq!(world.answer(1), Answer::Released(Release::Released));
}

#[test]
fn a_release_that_a_broken_connection_took_along_is_sent_again() {
    let mut world = held(3);
    world.behave([0], Behavior::Slow(Duration::from_secs(3_600)));
    world.end(1);
    world.behave([0], Behavior::Healthy);
    world.break_connections(0);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), [0]);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.carriers("k"), []);
}

/// The first one may have been carried out, so the second one tells nothing.
#[test]
fn a_release_that_was_sent_twice_and_finds_nothing_is_unknown() {
    let mut world = held(3);
    world.release(1);
    world.run_for(HOP);
    world.break_connections(0);
    world.break_connections(1);
    assert_eq!(world.answer(1), Answer::Released(Release::Unknown));
    assert_eq!(world.carriers("k"), []);
}

#[test]
fn a_node_that_stays_away_is_forgotten_once_its_key_has_expired() {
    let mut world = held(3);
    world.kill(0);
    world.end(1);
    world.run_for(2 * params().key_ttl());
    world.behave([0], Behavior::Healthy);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.state(0), NodeState::Up);
    assert_eq!(releases_to(&world, 0), 0);
    assert!(world.client(0).is_idle());
}

/// A script that blocks the server, say: it would answer each of them with the same error.
#[test]
fn a_node_that_refuses_many_releases_is_asked_with_one_and_then_gets_them_all() {
    let mut world = World::new(3);
    world.behave([0], Behavior::Refusing(Refuses::Releases));
    for section in 1..=300 {
        world.ask(section, "k", waiting(LONG));
        world.granted(section);
        world.end(section);
        world.run_for(2 * ROUND_TRIP);
    }
    let releases = world.sends_to(0, is_release).len();
    assert!(releases <= 310, "{releases}");
    world.behave([0], Behavior::Healthy);
    world.run_for(Duration::from_secs(2));
    let releases = world.sends_to(0, is_release).len() - releases;
    assert!((300..=301).contains(&releases), "{releases}");
}

/// A user that may not delete: each release is tried a few times while the key lives.
#[test]
fn a_node_that_refuses_releases_is_asked_less_and_less_often() {
    let mut world = held(3);
    world.behave([0], Behavior::Refusing(Refuses::Releases));
    world.end(1);
    world.run_for(Duration::from_secs(30));
    let times = world.sends_to(0, is_release);
    assert!(times.len() >= 3 && times.len() <= 20, "{}", times.len());
    let last = times[times.len() - 1].since(times[times.len() - 2]);
    assert!(last >= Duration::from_millis(250), "{last:?}");
    assert_eq!(releases_to(&world, 1), 1);
}

#[test]
fn a_node_that_has_carried_nothing_out_is_not_released() {
    for what in [Refuses::Everything, Refuses::Writes] {
        let mut world = World::new(3);
        world.behave([0], Behavior::Refusing(what));
        for section in 1..=200 {
            world.lock(section, "k", params());
            world.run_for(HOP);
            world.end(section);
            world.run_for(2 * HOP);
        }
        assert_eq!(releases_to(&world, 0), 0, "{what:?}");
    }
}

#[test]
fn a_node_that_refuses_an_attempt_because_of_another_owner_is_not_released() {
    let mut world = World::new(3);
    world.occupy_all("k", OTHER);
    let before = world.sends(is_anything).len();
    world.ask(1, "k", params());
    world.contended(1);
    world.run_for(Duration::from_secs(1));
    // Two of three decide; the third one had not replied.
    assert_eq!(world.sends(is_release).len(), 1);
    assert_eq!(world.sends(is_anything).len() - before, 3 + 1);
    assert_eq!(world.carriers("k"), [0, 1, 2]);
}

/// Grants that were on their way when their connection broke.
#[test]
fn grants_that_come_after_their_connection_broke_are_released() {
    let mut world = World::new(3);
    world.behave(0..2, Behavior::Slow(Duration::from_millis(700)));
    world.ask(1, "k", params());
    world.run_for(10 * HOP);
    world.behave(0..2, Behavior::Healthy);
    world.break_connections(0);
    world.break_connections(1);
    assert!(matches!(world.answer(1), Answer::Refused(_)));
    world.run_for(Duration::from_millis(600));
    assert_eq!(world.carriers("k"), []);
    world.run_for(Duration::from_millis(100));
    // The requests were carried out after the releases that were sent over new connections; their
    // keys live until they expire.
    assert_eq!(world.carriers("k"), [0, 1]);
    world.run_for(params().key_ttl());
    assert_eq!(world.carriers("k"), []);
    assert!(world.client(0).is_idle());
}
