//! Sections with several keys: all or none, and no order that makes them wait for each other.

use redlock_protocol::*;

use crate::{world::*, *};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[test]
fn free_keys_take_one_round_and_equal_names_one_lock() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 2);
        let asked = world.now;
        world.client(0).ask_all(1, &["b", "a", "b", "c"], params());
        let (deadline, _) = world.granted(1);
        assert_eq!(world.now.since(asked), ROUND_TRIP);
        assert_eq!(deadline, asked.after(LEASE));
        // Nodes that owe many replies are spared.
        assert!(world.sends(is_anything_of_keys).len() <= 3 * nodes);
        for key in ["a", "b", "c"] {
            world.client(1).ask(2, key, params());
            world.client(1).contended(2);
        }
        let ended = world.now;
        world.assert_release(1, Release::Released);
        assert_eq!(world.now.since(ended), ROUND_TRIP);
        world.run_for(2 * HOP);
        for key in ["a", "b", "c"] {
            assert_eq!(world.carriers(key), []);
        }
        assert!(world.client(0).is_idle());
    }
}

const fn is_anything_of_keys(request: &Request) -> bool {
    is_acquire(request) || is_extend(request)
}

#[test]
fn the_token_is_above_all_earlier_ones_and_below_all_later_ones_of_each_key() {
    // In the last case the token is in a block of each.
    for (counters, rounds) in [([5, 50, 500], 2), ([500, 50, 5], 2), ([7, 7, 9], 1)] {
        let mut world = World::with_clients(3, 2);
        for node in &mut world.nodes {
            for (key, counter) in NAMES.iter().zip(counters) {
                node.set_counter(key, counter);
            }
        }
        let asked = world.now;
        world.client(0).ask_all(1, &NAMES[..3], params());
        let (_, token) = world.granted(1);
        assert_eq!(token.0, 1 + counters.into_iter().max().unwrap());
        assert_eq!(world.now.since(asked), rounds * ROUND_TRIP);
        // Also the next one in the same turn.
        world.client(0).ask(3, "a", waiting(LEASE));
        world.end(1);
        let (_, next) = world.granted(3);
        assert!(next > token, "{next} after {token}");
        world.end(3);
        for (section, key) in (10..).zip(&NAMES[..3]) {
            let (_, next) = world.client(1).lock(section, key, waiting(LEASE));
            assert!(next > token, "{next} of {key} after {token}");
        }
    }
}

/// Two numbers of one counter are never in one block.
#[test]
fn keys_that_share_a_counter_have_one_token() {
    let mut names = (0..).map(|number| format!("k{number}"));
    let same = names.find(|key| stripe(key) == stripe("a")).unwrap();
    let mut world = World::with_clients(3, 2);
    world.client(0).ask_all(1, &["a", &same], params());
    let (_, token) = world.granted(1);
    world.end(1);
    for (section, key) in (2..).zip(["a", &same]) {
        world.client(1).ask(section, key, waiting(LEASE));
        assert!(world.client(1).granted(section).1 > token);
    }
}

/// By renewals, also where the holder has none.
#[test]
fn what_comes_before_a_key_is_kept_while_it_is_waited_for_and_nothing_behind_it() {
    let mut world = World::with_clients(3, 2);
    for (section, key) in [(1, "b"), (2, "d")] {
        world.client(1).lock(section, key, renewing());
    }
    world.client(0).ask_all(9, &NAMES, waiting(20 * LEASE));
    world.run_for(2 * ROUND_TRIP);
    let owner = world.majority_owner("a");
    let waits = |world: &mut World, free: &str| {
        for _ in 0..500 {
            world.run_for(20 * HOP);
            assert_eq!(world.majority_owner("a"), owner);
            assert!(free.is_empty() || world.carriers(free).is_empty());
        }
    };
    waits(&mut world, "c");
    world.client(1).end(1);
    waits(&mut world, "");
    world.client(1).end(2);
    let (deadline, _) = world.client(0).granted(9);
    let rest = deadline.since(world.now);
    assert!(rest > LEASE / 2, "{rest:?}");
    world.client(0).expired(9);
    assert_eq!(world.now, deadline, "nothing is renewed any more");
    world.client(0).assert_release(9, Release::AlreadyExpired);
}

#[test]
fn the_longest_hold_counts_from_when_all_keys_are_held() {
    let most = LEASE + LEASE / 10;
    let mut world = World::with_clients(3, 2);
    world.client(1).lock(1, "b", renewing());
    let params = LockParams {
        wait: 2 * LEASE,
        max_hold: Some(most),
        ..renewing()
    };
    world.client(0).ask_all(2, &["a", "b"], params);
    world.run_for(2 * ROUND_TRIP + 10 * HOP);
    assert_eq!(world.carriers("a").len(), 3, "while `b` is waited for");
    world.client(1).end(1);
    world.client(0).granted(2);
    let granted = world.now;
    while let Answer::Extended { deadline } = world.client(0).answer(2) {
        assert!(deadline <= granted.after(most));
    }
    assert_eq!(world.now.since(granted), most);
}

/// A holder that never lets go has the other keys for no longer than their leases.
#[test]
fn the_loss_of_one_key_is_the_loss_of_all() {
    for lets_go in [true, false] {
        let mut world = World::new(3);
        world.client(0).ask_all(1, &NAMES[..3], renewing());
        world.granted(1);
        world.run_for(30 * HOP);
        world.delete_all("b");
        world.lost(1);
        world.run_for(4 * HOP);
        assert_eq!(world.carriers("a").len(), 3, "it has not let go");
        if lets_go {
            world.assert_release(1, Release::AlreadyExpired);
            world.run_for(2 * HOP);
        } else {
            world.run_for(2 * LEASE);
        }
        assert!(world.carriers("a").is_empty() && world.carriers("c").is_empty());
    }
}

#[test]
fn renewals_and_extensions_are_those_of_all_keys() {
    let mut world = World::new(3);
    world.client(0).ask_all(1, &NAMES[..3], renewing());
    let (mut deadline, _) = world.granted(1);
    world.run_for(4 * LEASE);
    while !world.answers().is_empty() {
        let next = world.extended(1);
        assert!(next >= deadline);
        deadline = next;
    }
    assert!(deadline > world.now);
    let asked = world.now;
    world.extend(1);
    let extended = asked.after(LEASE);
    assert_eq!(world.answer(1), Answer::Extended { deadline: extended });
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

/// It has all of its keys by then, and their tokens are to rise.
#[test]
fn a_shutdown_ends_those_that_have_their_keys_and_have_not_begun() {
    for rounds in [0, 1] {
        let mut world = World::new(3);
        for node in &mut world.nodes {
            node.set_counter("b", 50);
        }
        world.client(0).ask_all(1, &["a", "b"], params());
        world.run_for(rounds * ROUND_TRIP + HOP);
        assert_eq!(world.client(0).answered(1), None);
        world.client(0).shut_down(LEASE, false);
        assert_eq!(world.client(0).refused(1), Cause::Stopped);
        world.run_for(2 * ROUND_TRIP);
        let left = ShutdownError::default();
        assert_eq!(world.client(0).drained(), Some(left));
    }
}
