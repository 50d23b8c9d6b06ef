//! Which nodes vote: the first start, rights, durable servers, fleets that differ.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

/// Servers that have just been started, and that no client has met.
fn just_started(behaviors: &[Behavior]) -> World {
    let mut world = World::without_clients(behaviors);
    for node in &mut world.nodes {
        node.boot(world.now);
    }
    world
}

// ---- the first start of all

#[test]
fn servers_that_have_just_been_started_wait_for_the_default_lease_and_no_longer() {
    for nodes in 2..=5 {
        let mut world = just_started(&vec![Behavior::Healthy; nodes]);
        world.add_client(settings());
        world.run_for(Duration::from_millis(100));
        world.ask(1, "k", params());
        let Cause::Quarantined { ready_in } = world.refused(1) else {
            panic!("they may have been restarted")
        };
        assert!(ready_in <= settings().max_ttl);
        let asked = world.now;
        world.lock(2, "k", patient());
        let ttl = settings().default_ttl;
        assert_between(world.now.since(asked), ttl - 200 * HOP, ttl + 100 * HOP);
    }
}

/// There is no other that could tell whether it is new or has been emptied.
#[test]
fn a_single_server_that_has_just_been_started_waits_for_the_longest_lease() {
    let long = Duration::from_secs(50);
    let mut world = World::with_clients(1, 2);
    let (deadline, _) = world.client(0).lock(1, "k", params_of(long));
    world.client(0).cut_off(0);
    world.client(1).cut_off(0);
    world.restart_empty(0);
    let newcomer = world.add_client(settings());
    world.client(newcomer).lock(1, "k", patient());
    world.assert_over(deadline);
}

#[test]
fn servers_that_have_run_for_long_and_were_never_flushed_vote_at_once() {
    let healthy = [Behavior::Healthy; 3];
    let mut flushed = World::without_clients(&healthy);
    (0..3).for_each(|node| flushed.flush(node));
    // For less than twice the wait, which proves nothing.
    let mut young = just_started(&healthy);
    young.run_for(settings().default_ttl);
    for (mut world, votes) in [
        (World::without_clients(&healthy), true),
        (flushed, false),
        (young, false),
    ] {
        world.add_client(settings());
        world.run_for(Duration::from_millis(100));
        world.ask(1, "k", params());
        match world.answer(1) {
            Answer::Granted { .. } => assert!(votes),
            Answer::Refused(refusal) => {
                assert!(!votes && matches!(refusal.cause, Cause::Quarantined { .. }));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What the process before has forgotten was granted before this one was started.
#[test]
fn a_server_that_was_restarted_with_its_data_long_ago_votes_at_once() {
    for nodes in [1, 3] {
        let mut world = World::new(nodes);
        for node in 1..nodes {
            world.kill(node);
        }
        world.client(0).cut_off(0);
        let data = world.nodes[0].clone();
        world.restart_from(0, &data);
        world.run_for(2 * settings().max_ttl);
        world.client(0).reconnect(0);
        let reconnected = world.now;
        world.await_vote(0);
        let took = world.now.since(reconnected);
        assert!(took < Duration::from_secs(3), "{nodes} nodes: {took:?}");
    }
}

/// It may have voted, if others did.
#[test]
fn a_server_whose_data_were_deleted_by_hand_does_not_vote_at_once() {
    let mut world = World::new(3);
    world.kill(1);
    world.client(0).cut_off(0);
    world.nodes[0].delete_all_by_hand();
    world.client(0).reconnect(0);
    world.run_for(Duration::from_secs(3));
    assert!(matches!(world.state(0), NodeState::Quarantined { .. }));
}

#[test]
fn while_one_node_does_not_reply_it_is_no_first_start() {
    use Behavior::{Dead, Healthy, Unresponsive};
    for missing in [Dead, Unresponsive] {
        let mut world = just_started(&[Healthy, Healthy, missing]);
        world.add_client(settings());
        let began = world.now;
        world.lock(1, "k", patient());
        let took = world.now.since(began);
        let longest = settings().max_ttl;
        assert!(took >= longest, "{missing:?}: {took:?}");
        assert!(took <= longest + 3_000 * HOP, "{missing:?}: {took:?}");
    }
}

/// Nothing tells that on the nodes, but a client has seen them vote.
#[test]
fn all_nodes_that_lose_their_memory_at_once_are_no_first_start_for_who_has_seen_them_vote() {
    let long = Duration::from_secs(50);
    for lose in LOSSES {
        let mut world = World::with_clients(3, 2);
        world.client(0).lock(1, "k", params_of(long));
        let granted = world.now;
        (0..3).for_each(|node| world.cut_off(node));
        (0..3).for_each(|node| lose(&mut world, node));
        world.client(1).lock(1, "k", patient());
        assert!(world.now.since(granted) >= long);
    }
}

/// A client that comes at any moment of the first start has to wait no longer than the first one.
#[test]
fn a_client_that_comes_during_a_first_start_does_not_begin_another_one() {
    for late in [
        10, 100, 1_000, 1_010, 3_000, 5_540, 5_550, 5_553, 5_556, 5_560, 5_600, 8_000,
    ] {
        let mut world = just_started(&[Behavior::Healthy; 3]);
        world.add_client(settings());
        let began = world.now;
        world.run_for(late * HOP);
        let second = world.add_client(settings());
        world.client(second).lock(1, "k", patient());
        let took = world.now.since(began);
        let expected = settings().default_ttl.max(late * HOP) + Duration::from_millis(100);
        assert!(took <= expected, "{late} ms later: {took:?}");
        world.await_votes(0);
    }
}

#[test]
fn a_client_whose_nodes_vote_finds_them_voting_after_a_restart() {
    let mut world = World::new(5);
    world.client(0).restart();
    let began = world.now;
    world.lock(1, "k", waiting(LEASE));
    world.assert_within(5 * ROUND_TRIP, began);
}

// ---- `assume_fresh`

#[test]
fn a_client_that_assumes_fresh_nodes_waits_for_nothing() {
    let mut world = just_started(&[Behavior::Healthy; 3]);
    world.add_client(assuming_fresh());
    world.run_for(Duration::from_millis(100));
    world.lock(1, "k", params());
    world.end(1);
    for node in 0..3 {
        world.restart_empty(node);
    }
    world.run_for(Duration::from_millis(200));
    world.lock(2, "k", params());
}

// ---- rights

#[test]
fn clients_with_and_without_the_right_to_info_use_the_same_nodes() {
    for first in [0, 1] {
        let mut world = World::without_clients(&[Behavior::Healthy; 3]);
        for client in 0..2 {
            world.add_client(settings());
            if client == first {
                world.client(client).forbid_info();
                world.client(client).restart();
            }
        }
        world.run_for(settings().max_ttl + Duration::from_secs(2));
        for section in 1..=50 {
            for client in 0..2 {
                let asked = world.now;
                world.client(client).lock(section, "k", params());
                let took = world.now.since(asked);
                assert_eq!(took, ROUND_TRIP, "client {client}, {section}");
                world.client(client).release(section);
                world.client(client).answer(section);
            }
        }
    }
}

#[test]
fn a_client_without_the_right_to_info_finds_a_missing_marker() {
    let mut world = World::new(3);
    world.client(0).forbid_info();
    world.client(0).restart();
    world.await_votes(0);
    world.restart_empty(0);
    world.restart_empty(1);
    world.run_for(Duration::from_millis(200));
    world.ask(1, "k", params());
    world.quarantined(1);
}

// ---- servers that must not vote

#[test]
fn two_addresses_of_one_server_have_one_vote() {
    let mut world = World::new(3);
    let server = world.nodes[0].server();
    world.nodes[1].become_server(&server);
    world.kill(2);
    world.client(0).restart();
    world.run_for(Duration::from_millis(100));
    let twins = (0..2).filter(|&node| matches!(world.state(node), NodeState::SameServer { .. }));
    assert_eq!(twins.count(), 1);
    world.ask(1, "k", params());
    assert_eq!(world.refused(1), Cause::NoQuorum);
}

#[test]
fn a_server_that_turns_out_to_be_another_nodes_is_given_up() {
    let mut world = World::new(3);
    // Both addresses lead to one server from now on, without a new connection.
    let server = world.nodes[0].server();
    world.nodes[1].become_server(&server);
    world.nodes[1].behavior = Behavior::WithoutScripts;
    world.kill(2);
    world.ask(1, "k", params());
    assert!(matches!(world.answer(1), Answer::Refused(_)));
}

#[test]
fn a_node_that_may_drop_locks_has_no_vote_unless_it_is_allowed_to() {
    for may_evict in [false, true] {
        let mut world = World::without_clients(&[Behavior::Healthy]);
        world.nodes[0].evicts = Some("allkeys-lru".into());
        world.add_client(Settings {
            may_evict,
            ..settings()
        });
        world.run_for(Duration::from_secs(3));
        let is_given_up = matches!(world.state(0), NodeState::Evicts { .. });
        assert_eq!(is_given_up, !may_evict);
        world.ask(1, "k", params());
        let is_granted = matches!(world.answer(1), Answer::Granted { .. });
        assert_eq!(is_granted, may_evict);
    }
}

#[test]
fn a_client_of_a_fleet_with_another_longest_lease_is_refused() {
    let mut world = World::new(3);
    let mut other = settings();
    other.max_ttl = params_of(LONG).key_ttl();
    let client = world.add_client(other);
    world.run_for(Duration::from_secs(2));
    for node in 0..3 {
        let state = world.client(client).state(node);
        let expected = NodeState::OtherMaxLease {
            theirs: settings().max_ttl,
            ours: other.max_ttl,
        };
        assert_eq!(state, expected);
    }
    world.client(client).ask(1, "k", params());
    assert!(matches!(world.client(client).answer(1), Answer::Refused(_)));
    // The fleet goes on.
    world.lock(1, "k", params());
    assert_eq!(world.state(0), NodeState::Up);
}

#[test]
fn a_client_of_another_fleet_admits_no_node_that_has_lost_its_memory() {
    let mut world = World::new(3);
    let client = world.add_client(other_fleet());
    world.restart_empty(0);
    world.restart_empty(1);
    world.kill(2);
    world.run_for(2 * other_fleet().max_ttl);
    for node in 0..2 {
        assert_ne!(world.state(node), NodeState::Up);
        assert_ne!(world.client(client).state(node), NodeState::Up);
    }
}

/// A process of another fleet is the first to reach a node that was flushed, and the only one for a while.
#[test]
fn one_node_with_another_longest_lease_keeps_no_other_node_out() {
    for is_admitted in [false, true] {
        let mut world = World::new(3);
        world.client(0).cut_off(2);
        world.flush(2);
        let other = world.add_client(other_fleet());
        world.client(other).cut_off(0);
        world.client(other).cut_off(1);
        world.run_for(settings().default_ttl / 2 * if is_admitted { 3 } else { 1 });
        let state = world.client(other).state(2);
        assert_eq!(state == NodeState::Up, is_admitted);
        world.client(other).cut_off(2);
        world.client(0).reconnect(2);
        world.run_for(Duration::from_secs(3));
        world.restart_empty(0);
        // What node 2 says proves nothing.
        world.run_for(settings().max_ttl - Duration::from_secs(1));
        assert_ne!(world.state(0), NodeState::Up);
        world.run_for(Duration::from_secs(3));
        assert_eq!(world.state(0), NodeState::Up);
        assert!(matches!(world.state(2), NodeState::OtherMaxLease { .. }));
        // Although it may be the only one that votes: the client has seen the others do so.
        world.restart_empty(0);
        world.restart_empty(1);
        world.run_for(settings().max_ttl + Duration::from_secs(3));
        assert_eq!(world.state(0), NodeState::Up);
        assert_eq!(world.state(1), NodeState::Up);
        // Nor for one that has not: what the others have kept says more than the only one that votes.
        for node in 0..2 {
            let data = world.nodes[node].clone();
            world.restart_from(node, &data);
            world.client(0).cut_off(node);
        }
        let newcomer = world.add_client(settings());
        world.run_for(settings().max_ttl + Duration::from_secs(3));
        for node in 0..2 {
            assert_eq!(world.client(newcomer).state(node), NodeState::Up);
        }
    }
}

/// A rolling update: the new release uses one node after the other, and the old one still runs.
#[test]
fn nodes_of_another_release_have_no_vote_and_are_left_alone() {
    let mut world = World::new(3);
    let expected = NodeState::OtherFormat {
        theirs: FORMAT + 1,
        ours: FORMAT,
    };
    for node in 0..2 {
        world.nodes[node].set_format(FORMAT + 1);
        world.ask(node as u64, "k", params());
        let answer = world.answer(node as u64);
        world.run_for(Duration::from_secs(3));
        assert_eq!(world.state(node), expected);
        let is_granted = matches!(answer, Answer::Granted { .. });
        assert_eq!(is_granted, node == 0, "a majority of the others is left");
        world.end(node as u64);
    }
    // It lets none in either.
    world.restart_empty(2);
    world.run_for(2 * settings().max_ttl);
    for node in 0..2 {
        assert_eq!(world.state(node), expected);
    }
}

/// What a client has in nanoseconds, a node has in milliseconds.
#[test]
fn every_longest_lease_is_known_again_when_a_node_tells_it() {
    for millis in [30, 51, 1_001, 5_550, 7_250, 12_345, 90_050, 86_399_999] {
        let settings = Settings {
            max_ttl: params_of(Duration::from_millis(millis)).key_ttl(),
            ..settings()
        };
        let mut world = World::with_settings(3, &[settings]);
        world.client(0).restart();
        world.await_votes(0);
        assert_eq!(world.state(0), NodeState::Up, "{millis} ms");
    }
}

/// It is the first to find the loss, and must not write its own longest lease where the fleet would read it.
#[test]
fn a_client_of_another_fleet_does_not_note_the_loss_of_a_node() {
    let mut world = World::new(3);
    world.add_client(other_fleet());
    world.run_for(Duration::from_secs(1));
    world.client(0).cut_off(0);
    world.restart_empty(0);
    world.run_for(Duration::from_secs(2));
    world.client(0).reconnect(0);
    world.await_votes(0);
}

/// Each loss but the last is noted by a client that goes away. The first of them was found beside a marker, and what
/// said so is lost with the last.
#[test]
fn losses_one_after_the_other_are_no_first_start() {
    let long = Duration::from_secs(50);
    for order in [[0, 1, 2], [2, 0, 1]] {
        let mut world = World::with_clients(3, 1);
        let (deadline, _) = world.client(0).lock(1, "k", params_of(long));
        let cut_off = |world: &mut World, client| {
            (0..3).for_each(|node| world.client(client).cut_off(node));
        };
        cut_off(&mut world, 0);
        for lost in [&order[..1], &order[1..], &order[..1]] {
            lost.iter().for_each(|&node| world.flush(node));
            let client = world.add_client(settings());
            world.run_for(Duration::from_millis(1_500));
            cut_off(&mut world, client);
        }
        let rival = world.add_client(settings());
        world.client(rival).lock(1, "k", patient());
        assert!(world.now >= deadline, "{order:?}: two holders");
    }
}
