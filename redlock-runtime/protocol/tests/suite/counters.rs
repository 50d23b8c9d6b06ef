//! Fencing tokens rise whatever the counters of some nodes say.

use std::time::Duration;

use redlock_protocol::*;

use crate::{is_extend, world::*};

/// Also if the wait is over: a node that counts from too low a number must not vote.
#[test]
fn a_node_does_not_vote_before_enough_others_tell_where_to_count_from() {
    let mut world = World::new(3);
    for node in &mut world.nodes {
        node.set_counter("k", 100);
    }
    world.lock(1, "another", params());
    world.end(1);
    world.restart_empty(0);
    world.run_for(Duration::from_secs(3));
    world.kill(1);
    world.run_for(Duration::from_secs(17));
    assert_ne!(world.state(0), NodeState::Up);
    world.behave([1], Behavior::Healthy);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.state(0), NodeState::Up);
    world.kill(2);
    let (_, token) = world.lock(2, "k", params());
    assert!(token > Token(100), "{token}");
}

/// The client has met it in a probe only, and no node that it can ask knows more.
#[test]
fn a_counter_that_was_told_is_known_when_its_node_is_gone() {
    let mut world = World::new(2);
    world.nodes[1].set_counter("k", 100);
    world.client(0).restart();
    world.run_for(20 * HOP);
    world.kill(1);
    world.restart_empty(0);
    world.votes_again(0);
    assert!(world.nodes[0].counter("k") >= 100);
}

/// It might have the lower number. While it was known to be silent before, that is not hoped for.
#[test]
fn no_round_is_lost_by_building_on_a_silent_node() {
    let mut world = World::new(3);
    world.behave([2], Behavior::Unresponsive);
    world.lock(1, "another", params());
    world.end(1);
    world.run_for(settings().silence_limit / 2);
    world.nodes[0].set_counter("k", 100);
    world.nodes[1].set_counter("k", 1_000_000);
    world.lock(2, "k", params());
    assert_eq!(world.sends_to(0, is_extend).len(), 1);
}

/// It is given up in time for another round, however slow the nodes were before.
#[test]
fn a_silent_node_is_not_waited_for_until_a_round_closes() {
    let mut world = World::new(3);
    for node in 0..3 {
        world.client(0).set_lag(node, 60 * HOP);
    }
    for section in 1..4 {
        world.lock(section, "k", params());
        world.end(section);
        world.run_for(100 * HOP);
    }
    for node in 0..3 {
        world.client(0).set_lag(node, Duration::ZERO);
        world.nodes[node].set_counter("k", 1_000_000 * (1 + node as u64));
    }
    world.behave([0], Behavior::Unresponsive);
    let hasty = within(60 * ROUND_TRIP, params());
    world.lock(4, "k", hasty);
}

#[test]
fn a_node_with_a_counter_that_cannot_be_true_grants_nothing() {
    for counter in [1 << 53, (1 << 52) + 1, 1 << 60, u64::MAX] {
        let mut world = World::new(3);
        world.nodes[0].set_counter("k", counter);
        let mut last = Token(0);
        for section in 1..=20 {
            let (_, token) = world.lock(section, "k", params());
            assert!(token > last && token.is_plausible());
            last = token;
            world.end(section);
            world.run_for(10 * HOP);
        }
        for node in 1..3 {
            assert!(world.nodes[node].counter("k") < 1 << 40, "{counter}");
        }
        // With this node alone there is no majority.
        world.kill(2);
        world.ask(30, "k", params());
        if let Answer::Granted { token, .. } = world.answer(30) {
            assert!(token > last && token.is_plausible());
        }
    }
}

/// The nodes claim that blocks begin there, from the first acquisition or the first refresh on.
#[test]
fn no_token_of_a_block_is_above_the_largest_whatever_nodes_say() {
    for below in [0, 1, 255, 256, 1 << 40, (1 << 40) + 1] {
        for is_refresh in [false, true] {
            let mut world = World::with_clients(3, 2);
            let first = usize::from(!is_refresh);
            world.client(first).lock(1, "k", params());
            for section in 2..=300 {
                world.ask(section, "k", waiting(LEASE));
            }
            world.run_for(10 * HOP);
            let claim = Token(Token::LARGEST.0 - below);
            world.behave(0..3, Behavior::Claiming(claim));
            world.client(first).end(1);
            for section in 2..=300 {
                if let Answer::Granted { token, .. } = world.answer(section) {
                    assert!(token <= Token::LARGEST, "{token} of {claim}");
                    world.end(section);
                }
            }
        }
    }
}

#[test]
fn no_floor_is_taken_from_a_counter_that_cannot_be_true() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.end(1);
    world.nodes[1].set_counter("k", 1 << 60);
    world.restart_empty(0);
    world.run_for(Duration::from_secs(20));
    world.kill(1);
    let (_, token) = world.lock(2, "k", patient());
    assert!(token < Token(1 << 40), "{token}");
}

/// One counter that is wrong, and then an ordinary restart of the others.
#[test]
fn a_counter_that_is_wrong_does_not_use_up_the_numbers_of_nodes_that_lose_their_memory() {
    for below in [0, 1, 20, 10_000] {
        for is_claimed in [false, true] {
            let mut world = World::new(3);
            world.client(0).start_wall_clock();
            let poison = Token(Token::HIGHEST_PLAUSIBLE.0 - below);
            if is_claimed {
                world.behave([1], Behavior::Claiming(poison));
                world.ask(1, "k", params());
                world.answer(1);
                world.behave([1], Behavior::Healthy);
            } else {
                world.nodes[1].set_counter("k", poison.0);
            }
            for node in [0, 2] {
                world.restart_empty(node);
                world.run_for(Duration::from_secs(200));
            }
            for section in 2..=31 {
                let (_, token) = world.lock(section, &format!("other {section}"), waiting(LEASE));
                let micros = world.now.as_nanos() / 1_000;
                assert!(token.0 < micros + 3_700_000_000, "{token}");
                world.end(section);
                world.run_for(10 * HOP);
            }
        }
    }
}

/// A majority of two, one of which is wrong, agrees on nothing. That must not silence the other one.
#[test]
fn a_counter_that_is_wrong_does_not_pull_the_only_other_node_along() {
    for below in [0, 1, 20, 2_000, 100_000] {
        let mut world = World::new(3);
        world.client(0).start_wall_clock();
        world.nodes[1].set_counter("k", Token::HIGHEST_PLAUSIBLE.0 - below);
        world.kill(2);
        for section in 1..=100 {
            world.ask(section, "k", params());
            world.answer(section);
            world.end(section);
            world.run_for(10 * HOP);
        }
        world.behave([2], Behavior::Healthy);
        world.run_for(Duration::from_secs(10));
        for section in 201..=230 {
            world.lock(section, "k", waiting(LEASE));
            world.end(section);
            world.run_for(10 * HOP);
        }
    }
}

#[test]
fn a_clients_wall_clock_that_is_wrong_does_no_harm() {
    let mut world = World::with_clients(3, 2);
    world.client(1).set_wall_micros(u64::MAX);
    let mut last = Token(0);
    for section in 1..=50 {
        for client in 0..2 {
            let (_, token) = world.client(client).lock(section, "k", params());
            assert!(token > last && token.is_plausible(), "{token} after {last}");
            last = token;
            world.client(client).end(section);
            world.run_for(10 * HOP);
        }
    }
}

/// Each is nearer to the node that the other one is farther from, so each finds the number of the other
/// one there.
#[test]
fn keys_that_share_a_counter_do_not_stay_in_each_others_way() {
    const NAMES: [&str; 2] = ["a", "b4278"];
    let mut world = World::with_clients(2, 2);
    assert_eq!(stripe(NAMES[0]), stripe(NAMES[1]));
    for (client, name) in NAMES.into_iter().enumerate() {
        let mut process = world.client(client);
        process.set_lag(1 - client, HOP);
        process.ask(1, name, params());
    }
    let tokens = [0, 1].map(|client| world.client(client).granted(1).1);
    assert_ne!(tokens[0], tokens[1]);
}
