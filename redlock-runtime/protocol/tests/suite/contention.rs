//! Several processes that want the same lock: who gets it.

use std::time::Duration;

use redlock_fuzz::Random;
use redlock_protocol::*;

use crate::{world::*, *};

/// Requests of different clients reach each node in an order of its own, one of many.
fn shuffle(world: &mut World, clients: usize, seed: u64) {
    let mut dice = Random::new(seed);
    for node in 0..world.nodes.len() {
        for client in 0..clients {
            let lag = Duration::from_micros(dice.below(700));
            world.client(client).set_lag(node, lag);
        }
    }
}

/// Asks for the same lock in all clients at once. Which of them get it, and how long it takes until
/// all have been answered.
fn ask_at_once(world: &mut World, clients: usize, params: LockParams) -> (Vec<usize>, Duration) {
    let asked = world.now;
    for client in 0..clients {
        world.client(client).ask(1, "k", params);
    }
    let mut winners = Vec::new();
    for client in 0..clients {
        match world.client(client).answer(1) {
            Answer::Granted { .. } => winners.push(client),
            Answer::Refused(refusal) => {
                let contended = matches!(refusal.cause, Cause::Contended { .. });
                assert!(contended, "client {client}: {refusal:?}");
            }
            other => panic!("client {client}: {other:?}"),
        }
    }
    (winners, world.now.since(asked))
}

#[test]
fn of_any_number_of_simultaneous_attempts_exactly_one_wins() {
    for nodes in 1..=5 {
        for clients in 2..=8 {
            for seed in 0..12 {
                let mut world = World::with_clients(nodes, clients);
                shuffle(&mut world, clients, seed);
                let (winners, took) = ask_at_once(&mut world, clients, params());
                let case = format!("{clients} clients, {nodes} nodes, seed {seed}");
                assert_eq!(winners.len(), 1, "{case}");
                assert!(took <= params().node_timeout, "{case}: {took:?}");
                let winner = winners[0];
                world.run_for(Duration::from_millis(100));
                assert_eq!(world.client(winner).answers(), [], "{case}");
                assert!(world.majority_owner("k").is_some(), "{case}");
                world.client(winner).end(1);
                world.run_for(10 * HOP);
                assert_eq!(world.carriers("k"), [], "{case}");
            }
        }
    }
}

/// A few attempts have failed at once, because the nodes that reply have the keys of different others. Two
/// let go, of whom one is late.
#[test]
fn a_silent_node_is_waited_for_no_longer_than_a_split_has_lasted() {
    let mut world = World::new(5);
    let order = world.order("k");
    world.behave([order[4]], Behavior::Unresponsive);
    for (owner, &node) in (1..).zip(&order[1..4]) {
        world.occupy(node, "k", Owner(owner), LEASE);
    }
    world.ask(1, "k", params());
    world.run_for(10 * ROUND_TRIP);
    world.delete(order[1], "k");
    world.run_for(20 * ROUND_TRIP);
    world.delete(order[2], "k");
    world.granted(1);
}

/// The split has lasted for longer than a round may. The others are asked while there is time for their replies.
#[test]
fn a_leader_that_falls_silent_in_a_long_split_is_not_waited_for_to_the_end() {
    let mut world = World::new(5);
    let order = world.order("k");
    for (owner, &node) in (1..).zip(&order[1..]) {
        world.occupy(node, "k", Owner(owner), LEASE);
    }
    world.ask(1, "k", waiting(LEASE));
    let timeout = params().node_timeout;
    world.run_for(2 * timeout);
    let leader = NodeId(order[0]);
    let mut asked = world.sends(is_acquire).len();
    while world.sends(is_acquire).len() == asked
        || world.sends(is_acquire)[asked..] != [(world.now, leader)]
    {
        asked = world.sends(is_acquire).len();
        assert!(world.step());
    }
    world.behave([order[0]], Behavior::Unresponsive);
    world.run_for(timeout * 3 / 4);
    let later = world.sends(is_acquire).split_off(asked);
    assert!(later.iter().any(|&(_, node)| node != leader), "{later:?}");
}

/// What looks like a split may be what dead owners have left.
#[test]
fn a_split_that_does_not_end_is_looked_at_less_and_less_often() {
    let mut world = World::new(3);
    for (owner, &node) in (1..).zip(&world.order("k")[1..]) {
        world.occupy(node, "k", Owner(owner), LEASE);
    }
    world.ask(1, "k", params());
    world.contended(1);
    let asked = world.sends(is_acquire).len() / 3;
    assert!(asked <= 20, "asked {asked} times");
}

/// Client 1 waits for a lock that client 0 holds, and has just begun a long pause.
fn with_waiter(nodes: usize) -> World {
    let mut world = World::with_clients(nodes, 2);
    world.lock(1, "k", params_of(Duration::from_secs(60)));
    world.client(1).ask(1, "k", waiting(12 * LEASE));
    world.run_for(Duration::from_secs(1));
    let asked = world.client(1).sends(is_acquire).len();
    world.run_until(|world| world.client(1).sends(is_acquire).len() > asked);
    world.run_for(5 * HOP);
    world
}

/// The release, the news, a read, the leader, and the others. A leader that does not delete is not believed for ever.
#[test]
fn news_that_a_lock_is_free_is_acted_on_at_once() {
    use Behavior::{Healthy, Refusing};
    for (nodes, leader, most) in [
        (1, Healthy, 5 * ROUND_TRIP),
        (2, Healthy, 5 * ROUND_TRIP),
        (3, Healthy, 5 * ROUND_TRIP),
        (5, Healthy, 5 * ROUND_TRIP),
        (3, Refusing(Refuses::Releases), 140 * HOP),
        (5, Refusing(Refuses::Releases), 140 * HOP),
    ] {
        let mut world = with_waiter(nodes);
        world.behave([world.leader("k")], leader);
        let ended = world.now;
        world.end(1);
        world.client(1).granted(1);
        let took = world.now.since(ended);
        assert!(took <= most, "{nodes} nodes, {leader:?}: {took:?}");
    }
}

#[test]
fn news_of_a_renewal_asks_only_the_leader() {
    let mut world = with_waiter(5);
    let asked = world.client(1).sends(is_acquire).len();
    for node in 0..5 {
        world.client(1).hear_of_change(node, Some("k"));
    }
    world.run_for(100 * HOP);
    assert_eq!(world.client(1).sends(is_acquire).len(), asked + 1);
}

#[test]
fn an_attempt_that_loses_on_the_leader_disturbs_no_other_node() {
    let mut world = with_waiter(5);
    let leader = world.leader("k");
    let asked = world.client(1).sends(is_acquire).len();
    world.end(1);
    world.run_until(|world| world.client(1).sends(is_acquire).len() > asked);
    // Another one is there first.
    world.nodes[leader].occupy("k", OTHER, LEASE, world.now);
    world.run_for(4 * ROUND_TRIP);
    let later = world.client(1).sends(is_acquire).split_off(asked);
    assert!(later.iter().all(|(_, to)| to.0 == leader), "{later:?}");
}

#[test]
fn a_leader_that_does_not_reply_is_not_waited_for() {
    let mut world = with_waiter(5);
    let leader = world.leader("k");
    world.end(1);
    world.run_for(2 * HOP);
    world.behave([leader], Behavior::Unresponsive);
    let freed = world.now;
    world.client(1).granted(1);
    world.assert_within(Duration::from_millis(64) + 8 * ROUND_TRIP, freed);
}

/// It has the key of another owner than the other nodes, whose keys expire sooner.
#[test]
fn a_leader_with_a_key_that_only_it_has_is_not_believed_until_that_expires() {
    let mut world = with_waiter(5);
    let leader = world.leader("k");
    world.delete_all("k");
    let now = world.now;
    for (number, node) in world.nodes.iter_mut().enumerate() {
        let (owner, seconds) = if number == leader { (1, 20) } else { (2, 3) };
        node.occupy("k", Owner(owner), Duration::from_secs(seconds), now);
    }
    let freed = world.now.after(Duration::from_secs(3));
    world.client(1).granted(1);
    assert!(world.now >= freed);
    world.assert_within(Duration::from_millis(150), freed);
}

/// Otherwise those who have released something would keep another queue than the others.
#[test]
fn a_leader_that_has_refused_a_release_is_asked_first_all_the_same() {
    let mut world = World::with_clients(5, 2);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Refusing(Refuses::Releases));
    world.lock(1, "k", params());
    world.end(1);
    world.client(1).lock(1, "k", params());
    world.ask(2, "k", waiting(LEASE));
    world.run_for(4 * ROUND_TRIP);
    for node in 0..5 {
        world.client(0).hear_of_change(node, Some("k"));
    }
    world.run_for(100 * HOP);
    let tickets = world.client(0).sends(has_ticket);
    assert_eq!(tickets.last().map(|&(_, node)| node), Some(NodeId(leader)));
}

#[test]
fn without_news_a_free_lock_is_found_after_a_pause() {
    let mut world = World::with_clients(5, 2);
    world.tell_nothing();
    world.lock(1, "k", params());
    world.client(1).ask(1, "k", waiting(LEASE));
    world.run_for(Duration::from_secs(1));
    let freed = world.now;
    world.end(1);
    world.client(1).granted(1);
    world.assert_within(Duration::from_millis(64) + 4 * ROUND_TRIP, freed);
}

#[test]
fn a_leader_that_has_refused_votes_is_asked_first_again_once_it_has_been_admitted_anew() {
    let mut world = World::new(3);
    let leader = world.leader("k");
    let asks_first = |world: &mut World, section| {
        let before = world.sends(is_acquire).len();
        world.lock(section, "k", fair(LONG));
        world.release(section);
        world.sends(is_acquire)[before].1.0
    };
    assert_eq!(asks_first(&mut world, 1), leader);
    world.behave([leader], Behavior::Refusing(Refuses::Writes));
    assert_eq!(asks_first(&mut world, 2), leader);
    assert_ne!(asks_first(&mut world, 3), leader);
    world.behave([leader], Behavior::Healthy);
    world.restart_empty(leader);
    world.votes_again(leader);
    assert_eq!(asks_first(&mut world, 4), leader);
}

/// One who waits reads the key at the others, too.
#[test]
fn without_news_a_leader_that_deletes_nothing_is_doubted_soon() {
    for nodes in [3, 5] {
        let mut world = World::with_clients(nodes, 2);
        world.tell_nothing();
        world.lock(1, "k", patient());
        world.client(1).ask(1, "k", waiting(LONG));
        world.run_for(Duration::from_secs(1));
        world.behave([world.leader("k")], Behavior::Refusing(Refuses::Releases));
        let freed = world.now;
        world.end(1);
        world.client(1).granted(1);
        world.assert_within(Duration::from_millis(500), freed);
    }
}

/// The owner is dead, and its key stays on the leader alone: the leader is not the last word.
#[test]
fn a_key_that_stays_on_the_leader_keeps_no_waiter_from_the_lock() {
    for nodes in [3, 5] {
        let mut world = World::new(nodes);
        let leader = world.leader("k");
        world.occupy_all("k", OTHER);
        world.ask(1, "k", waiting(LEASE));
        world.run_for(Duration::from_millis(500));
        for node in (0..nodes).filter(|&node| node != leader) {
            world.delete(node, "k");
        }
        let freed = world.now;
        world.granted(1);
        let took = world.now.since(freed);
        assert!(took <= Duration::from_millis(20), "{nodes} nodes: {took:?}");
    }
}

/// Those ahead, who would have found it out, have died as well. Also if the news comes while the leader is being asked.
#[test]
fn a_dead_key_on_the_leader_is_found_from_behind_those_who_died() {
    for age in 0..60 {
        let mut world = World::with_clients(5, 6);
        let leader = world.leader("k");
        world.occupy_all("k", OTHER);
        for client in 0..6 {
            world.client(client).ask(1, "k", waiting(LONG));
            world.run_for(5 * HOP);
        }
        world.run_for(age * HOP);
        for client in 0..5 {
            world.client(client).stop_for(LONG);
        }
        for node in (0..5).filter(|&node| node != leader) {
            world.delete(node, "k");
        }
        let freed = world.now;
        world.client(5).granted(1);
        // Promise 7 leaves 150 ms and ten round trips for all that can go wrong at once.
        world.assert_within(Duration::from_millis(100), freed);
    }
}

/// A caller that does not wait finds the key of another library on one node, while one of the others is late:
/// nobody has a majority, as in a split.
#[test]
fn a_foreign_key_on_one_node_refuses_no_caller_beside_a_late_one() {
    for place in 0..3 {
        for lag in 1..40 {
            let mut world = World::new(3);
            let order = world.order("k");
            world.nodes[order[place]].set_plain_key("k");
            for section in 1..=6 {
                let late = order[(place + 1 + section as usize % 2) % 3];
                world.client(0).set_lag(late, lag * HOP / 4);
                world.lock(section, "k", params());
                world.end(section);
                world.client(0).set_lag(late, Duration::ZERO);
                world.run_for(20 * HOP);
            }
        }
    }
}

/// The node that keeps the queue, all nodes, and then a number that they agree on: three round trips, where the node
/// timeout lasts for two and a half.
#[test]
fn each_question_of_an_attempt_has_a_time_of_its_own() {
    let mut world = World::with_clients(3, 2);
    let params = within(5 * HOP, waiting(Duration::from_secs(10)));
    world.client(0).ask(1, "k", params);
    world.run_for(4 * ROUND_TRIP);
    world.client(1).ask(2, "k", params);
    world.run_for(4 * ROUND_TRIP);
    let counter = world.nodes[0].counter("k");
    for (node, ahead) in world.nodes.iter_mut().zip([0, 1_000_000, 2_000_000]) {
        node.set_counter("k", counter + ahead);
    }
    world.client(0).end(1);
    let released = world.now;
    world.client(1).granted(2);
    world.assert_within(10 * ROUND_TRIP, released);
}

/// A far node would only tell how it was before.
#[test]
fn who_is_told_of_the_release_waits_for_no_far_node() {
    let mut world = World::with_clients(2, 2);
    let leader = world.leader("k");
    let far = 1 - leader;
    world.client(0).lock(1, "k", params());
    world.client(1).set_lag(far, 40 * HOP);
    world.client(1).ask(1, "k", waiting(LEASE));
    let asked = |world: &mut World, node| world.client(1).sends_to(node, is_acquire).len();
    // It doubts the leader, and asks both.
    let before = asked(&mut world, far);
    world.run_until(|world| asked(world, far) > before);
    world.run_for(ROUND_TRIP);
    let before = asked(&mut world, leader);
    world.client(0).end(1);
    world.run_for(3 * HOP);
    assert!(asked(&mut world, leader) > before);
    world.client(1).granted(1);
}
