//! Locks that are lost while they are held, and how soon their holders know.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

/// Of one key, if the lock is on a bare majority.
#[test]
fn a_deletion_that_nodes_tell_of_is_a_loss_within_two_round_trips() {
    let on_all = (1..=5).map(|nodes| (nodes, 0, majority(nodes)));
    let on_a_bare_majority = [(3, 1, 1), (4, 1, 1), (5, 2, 1)];
    for (nodes, away, deleted) in on_all.chain(on_a_bare_majority) {
        let mut world = World::new(nodes);
        world.behave(nodes - away..nodes, Behavior::Dead);
        world.lock(1, "k", params());
        world.run_for(Duration::from_millis(100));
        let began = world.now;
        for node in 0..deleted {
            world.delete(node, "k");
        }
        world.lost(1);
        let took = world.now.since(began);
        assert!(took <= 2 * ROUND_TRIP, "{nodes} nodes, {away} away");
    }
}

/// A node that cannot be reached, one with the key of a process that has died, and one that loses the key.
#[test]
fn a_loss_says_what_is_wrong_with_each_node() {
    let mut world = World::new(5);
    world.client(0).cut_off(0);
    world.occupy(1, "k", OTHER, LEASE);
    world.lock(1, "k", params());
    world.run_for(Duration::from_millis(250));
    world.delete(2, "k");
    let Answer::Over(Loss::Lost { verdicts }) = world.answer(1) else {
        panic!("not lost");
    };
    assert!(
        matches!(
            verdicts[..],
            [
                Verdict::Unreachable { .. },
                Verdict::HeldByAnother { remaining: Some(left) },
                Verdict::NoLongerOurs,
                Verdict::Ours,
                Verdict::Ours,
            ] if left < LEASE && left > LEASE / 2
        ),
        "{verdicts:?}"
    );
}

/// The attempt of another process was there first, has failed, and lets go.
#[test]
fn a_node_gets_the_key_when_a_rival_has_released_it() {
    let mut world = World::new(5);
    for node in 0..2 {
        world.occupy(node, "k", OTHER, LEASE);
    }
    world.lock(1, "k", params());
    world.run_for(40 * HOP);
    for node in 0..2 {
        world.delete(node, "k");
    }
    world.run_for(100 * HOP);
    assert_eq!(world.carriers("k").len(), 5);
}

/// The keys of a process that has died, on two of five.
#[test]
fn a_node_gets_the_key_when_the_one_expires_that_kept_it_out() {
    let mut world = World::new(5);
    for node in 0..2 {
        world.occupy(node, "k", OTHER, LEASE / 5);
    }
    world.lock(1, "k", params());
    world.run_for(LEASE / 5 + 100 * HOP);
    assert_eq!(world.carriers("k").len(), 5);
    let asked = world.sends(|request| matches!(request, Request::Vote(_, Act::PutBack)));
    assert!(asked.len() <= 16, "{asked:?}");
    world.delete(2, "k");
    world.delete(3, "k");
    world.run_for(LEASE / 5);
    assert_eq!(world.answers(), [], "three of five have it");
}

#[test]
fn a_key_that_was_put_back_counts_once_it_has_been_read() {
    let mut world = World::new(3);
    world.client(0).cut_off(2);
    world.lock(1, "k", params());
    world.run_for(Duration::from_millis(100));
    world.client(0).reconnect(2);
    world.run_for(Duration::from_secs(2));
    world.delete(0, "k");
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.answers(), [], "two of three have it");
    let deleted = world.now;
    world.delete(2, "k");
    world.lost(1);
    world.assert_within(2 * ROUND_TRIP, deleted);
}

#[test]
fn without_news_the_next_renewal_finds_the_loss_and_makes_no_key_again() {
    let mut world = World::new(3);
    world.tell_nothing();
    world.lock(1, "k", renewing());
    world.run_for(100 * HOP);
    let deleted = world.now;
    world.delete(0, "k");
    world.delete(1, "k");
    world.lost(1);
    world.assert_within(default_renewal(LEASE) + ROUND_TRIP, deleted);
    world.run_for(20 * HOP);
    assert_eq!(world.carriers("k"), [2]);
}

#[test]
fn a_new_connection_reads_what_is_watched_again() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.run_for(Duration::from_millis(100));
    for node in [1, 2] {
        world.nodes[node].occupy("k", OTHER, LEASE, world.now);
        world.break_connections(node);
    }
    let broken = world.now;
    world.lost(1);
    assert!(world.now.since(broken) < Duration::from_millis(100));
}

/// It was granted by a majority, and all have it once it is held for a while.
#[test]
fn a_lock_that_is_held_for_a_while_outlives_the_restart_of_any_node() {
    for (nodes, tells) in [(3, true), (5, true), (3, false), (5, false)] {
        for restarted in 0..nodes {
            let mut world = World::busy(nodes);
            // One that tells nothing by itself is asked.
            let last = world.order("k")[nodes - 1];
            world.nodes[last].tells_changes = tells;
            world.client(0).restart();
            world.run_for(20 * HOP);
            let (deadline, _) = world.lock(1, "k", params());
            world.run_for(40 * HOP);
            world.restart_empty(restarted);
            world.expired(1);
            assert_eq!(world.now, deadline, "{restarted} of {nodes}");
        }
    }
}

/// A node that has forgotten everything answers the first question after its restart with an error.
#[test]
fn a_key_that_could_not_be_read_is_read_again_once_it_is_known_what_the_node_remembers() {
    let mut world = World::new(3);
    let (deadline, _) = world.lock(1, "k", params());
    world.run_for(Duration::from_millis(100));
    world.behave([0], Behavior::Refusing(Refuses::Everything));
    world.restart_empty(0);
    world.run_for(Duration::from_millis(500));
    world.delete(1, "k");
    world.behave([0], Behavior::Healthy);
    world.lost(1);
    assert!(world.now < deadline);
}

/// The release of the last holder reached one node late, and another node falls silent.
#[test]
fn a_node_that_has_nothing_of_a_lock_gets_it_after_a_renewal_in_vain() {
    let mut world = World::new(3);
    world.occupy(2, "k", OTHER, 2 * LEASE);
    world.lock(1, "k", renewing());
    world.run_for(Duration::from_secs(1));
    world.delete(2, "k");
    assert_eq!(world.carriers("k"), [0, 1]);
    world.behave([1], Behavior::Unresponsive);
    for _ in 0..3 {
        world.extended(1);
    }
}

/// Another lock finds that two nodes have forgotten everything. They do not vote, so no round asks them for
/// this one.
#[test]
fn a_renewal_in_vain_finds_the_loss_that_no_node_has_told_of() {
    let mut world = World::new(3);
    let (deadline, _) = world.lock(1, "k", renewing());
    world.run_for(Duration::from_millis(100));
    for node in [0, 1] {
        world.nodes[node].flush();
    }
    world.ask(2, "another", params());
    world.refused(2);
    world.lost(1);
    assert!(world.now < deadline);
}

/// A server that was restarted votes before the locks stand on it again.
#[test]
fn locks_that_do_not_stand_on_all_nodes_are_counted() {
    let mut world = World::new(3);
    for section in 1..=3 {
        world.lock(section, &format!("k{section}"), renewing());
    }
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.client(0).under_replicated(), 0);

    world.restart_empty(1);
    world.votes_again(1);
    assert_eq!(world.client(0).under_replicated(), 3);
    let until = world.now.after(10 * ROUND_TRIP);
    let stands = |world: &World, section| world.carriers(&format!("k{section}")).len() == 3;
    world.run_until(|world| world.under_replicated() == 0);
    assert!(world.now <= until);
    assert!((1..=3).all(|section| stands(&world, section)));

    world.kill(2);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.client(0).under_replicated(), 3);
    for section in 1..=3 {
        world.end(section);
    }
    assert_eq!(world.client(0).under_replicated(), 0);
}

/// Most locks are as short as this, and stand on a bare majority while the nodes are busy.
#[test]
fn short_locks_on_a_bare_majority_are_not_counted() {
    let mut world = World::busy(3);
    world.lock(1, "k", params());
    assert_eq!(world.carriers("k").len(), 2);
    for _ in 0..10 {
        world.run_for(HOP);
        assert_eq!(world.client(0).under_replicated(), 0);
    }
    world.run_for(Duration::from_millis(30));
    assert_eq!(world.carriers("k").len(), 3);
    assert_eq!(world.under_replicated(), 0);
}

/// It was granted by a majority alone, one node of which is gone at once and comes back with nothing.
#[test]
fn a_lock_on_a_bare_majority_outlives_the_restart_of_one_node() {
    for late in 0..4 {
        let mut world = World::busy(5);
        let order = world.order("k");
        if late == 0 {
            // It has granted the lock when it goes, and the others have not.
            for &node in &order[1..3] {
                world.client(0).set_lag(node, 4 * HOP);
            }
            world.ask(1, "k", renewing());
            world.run_for(ROUND_TRIP);
        } else {
            world.lock(1, "k", renewing());
            world.run_for(late * HOP);
        }
        world.restart_empty(order[0]);
        world.run_for(2 * LEASE);
        assert!(!world.is_any_over(), "{:?}", world.answers());
        assert!(world.majority_owner("k").is_some(), "{late}");
    }
}
