//! Several processes that want the same lock: who gets it.

use std::time::Duration;

use redlock_protocol::*;

use crate::{dice::Dice, world::*, *};

/// Requests of different clients reach each node in an order of its own, one of many.
fn shuffle(world: &mut World, clients: usize, seed: u64) {
    let mut dice = Dice::new(seed);
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

#[test]
fn of_simultaneous_attempts_exactly_one_wins_whatever_is_wrong_with_nodes() {
    type Spoil = fn(&mut World, u64);
    let kill_leader: Spoil = |world, _| {
        world.kill(world.leader("k"));
        world.run_for(20 * HOP);
    };
    let refusing: Spoil =
        |world, _| world.behave([world.leader("k")], Behavior::Refusing(Refuses::Everything));
    let silent: Spoil = |world, seed| {
        let order = world.order("k");
        world.behave([order[seed as usize % order.len()]], Behavior::Unresponsive);
    };
    let counters: Spoil = |world, _| {
        for (node, counter) in world.nodes.iter_mut().zip([100, 200, 300, 400, 500]) {
            node.set_counter("k", counter);
        }
    };
    let nothing: Spoil = |_, _| {};
    let fair = LockParams {
        is_fair: true,
        ..params()
    };
    let cases = [
        ("fair callers", nothing, 1),
        ("without the leader", kill_leader, 6),
        ("the leader refuses", refusing, 6),
        ("a silent node", silent, 24),
        ("counters that differ", counters, 6),
    ];
    for (place, (name, spoil, seeds)) in cases.into_iter().enumerate() {
        let params = if place == 0 { fair } else { params() };
        for (nodes, clients) in (3..=5).flat_map(|nodes| (2..=8).map(move |it| (nodes, it))) {
            for seed in 0..seeds {
                let mut world = World::with_clients(nodes, clients);
                shuffle(&mut world, clients, seed);
                spoil(&mut world, seed);
                let (winners, _) = ask_at_once(&mut world, clients, params);
                let case = format!("{name}: {clients} clients, {nodes} nodes, seed {seed}");
                assert_eq!(winners.len(), 1, "{case}");
            }
        }
    }
}

/// Much longer than is promised. Each is refused for the sake of another one's attempt in vain, if that is believed.
#[test]
fn of_simultaneous_attempts_exactly_one_wins_although_nodes_are_far() {
    for nodes in [3, 5] {
        for clients in [2, 4, 8] {
            for seed in 0..60 {
                let mut dice = Dice::new(seed);
                let mut world = World::with_clients(nodes, clients);
                for (node, client) in (0..nodes).flat_map(|it| (0..clients).map(move |of| (it, of)))
                {
                    let lag = Duration::from_micros(dice.below(40_000));
                    world.client(client).set_lag(node, lag);
                }
                let (winners, _) = ask_at_once(&mut world, clients, params());
                let case = format!("{clients} clients, {nodes} nodes, seed {seed}");
                assert_eq!(winners.len(), 1, "{case}");
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

/// Each client has found another node slow, and would rather ask the others first.
#[test]
fn of_simultaneous_attempts_exactly_one_wins_whichever_nodes_were_slow_for_whom() {
    for nodes in 2..=5 {
        for seed in 0..150 {
            let mut world = World::with_clients(nodes, 2);
            let slow = Duration::from_millis(200);
            for client in 0..2 {
                let node = (seed as usize + client) % nodes;
                world.client(client).set_lag(node, slow);
                for section in 10..13 {
                    world.client(client).lock(section, "k", waiting(LEASE));
                    world.client(client).end(section);
                    world.run_for(2 * slow);
                }
            }
            shuffle(&mut world, 2, seed);
            world.client(0).ask(1, "k", params());
            world.client(1).ask(1, "k", params());
            world.run_for(HOP);
            shuffle(&mut world, 2, seed + 1_000);
            let answers = [0, 1].map(|client| world.client(client).answer(1));
            let granted = |answer: &&Answer| matches!(answer, Answer::Granted { .. });
            let winners = answers.iter().filter(granted).count();
            assert_eq!(winners, 1, "{nodes} nodes, seed {seed}");
        }
    }
}

#[test]
fn all_that_wait_get_the_lock_one_after_the_other() {
    for (nodes, clients) in [(1, 3), (3, 2), (3, 8), (5, 5)] {
        let mut world = World::with_clients(nodes, clients);
        let mut crowd = Crowd::default();
        shuffle(&mut world, clients, 7);
        let began = world.now;
        for client in 0..clients {
            let wish = Wish::new(&["k"], waiting(LEASE), HOP);
            crowd.ask(&mut world, client, 1, wish);
        }
        crowd.run(&mut world);
        assert_eq!(crowd.served().len(), clients);
        // Watched, so that the next one knows within a few round trips.
        world.assert_within(clients as u32 * 12 * ROUND_TRIP, began);
    }
}

#[test]
fn a_lost_attempt_that_does_not_wait_leaves_nothing_and_disturbs_nobody() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", renewing());
    for section in 1..=50 {
        world.client(1).ask(section, "k", params());
        world.client(1).contended(section);
        world.run_for(100 * HOP);
    }
    let over = |(_, answer): &(SectionId, Answer)| matches!(answer, Answer::Over(_));
    assert!(!world.answers().iter().any(over));
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), []);
    world.client(1).lock(99, "k", params());
}

/// Client 1 waits for a lock that client 0 holds, and has just begun a long pause.
fn with_waiter(nodes: usize) -> World {
    let mut world = World::with_clients(nodes, 2);
    world.lock(1, "k", params_of(Duration::from_secs(60)));
    world
        .client(1)
        .ask(1, "k", waiting(Duration::from_secs(60)));
    world.run_for(Duration::from_secs(1));
    let asked = world.client(1).sends(is_acquire).len();
    while world.client(1).sends(is_acquire).len() == asked {
        assert!(world.step());
    }
    world.run_for(5 * HOP);
    world
}

#[test]
fn news_that_a_lock_is_free_is_acted_on_at_once() {
    for nodes in [1, 2, 3, 5] {
        let mut world = with_waiter(nodes);
        let ended = world.now;
        world.end(1);
        world.client(1).granted(1);
        // The release, the news, a read, the leader, and the others.
        let took = world.now.since(ended);
        assert!(took <= 5 * ROUND_TRIP, "{nodes} nodes: {took:?}");
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
    while world.client(1).sends(is_acquire).len() == asked {
        assert!(world.step());
    }
    // Another one is there first.
    world.nodes[leader].occupy("k", OTHER, LEASE, world.now);
    world.run_for(4 * ROUND_TRIP);
    let later = world.client(1).sends(is_acquire).split_off(asked);
    assert!(
        later.iter().all(|&(_, node)| node == NodeId(leader)),
        "{later:?}"
    );
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

#[test]
fn a_leader_that_does_not_delete_is_not_believed_for_ever() {
    for nodes in [3, 5] {
        let mut world = with_waiter(nodes);
        let leader = world.leader("k");
        world.behave([leader], Behavior::Refusing(Refuses::Releases));
        let freed = world.now;
        world.end(1);
        world.client(1).granted(1);
        let took = world.now.since(freed);
        assert!(took <= Duration::from_millis(140), "{nodes}: {took:?}");
    }
}

/// It has the key of another owner than the other nodes, whose keys expire sooner.
#[test]
fn a_leader_with_a_key_that_only_it_has_is_not_believed_until_that_expires() {
    let mut world = with_waiter(5);
    let leader = world.leader("k");
    world.delete_all("k");
    for node in 0..5 {
        let (owner, seconds) = match node == leader {
            true => (Owner(1), 20),
            false => (Owner(2), 3),
        };
        let now = world.now;
        world.nodes[node].occupy("k", owner, Duration::from_secs(seconds), now);
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
    let has_ticket = |request: &Request| {
        matches!(
            request,
            Request::Acquire {
                ticket: Some(_),
                ..
            }
        )
    };
    let tickets = world.client(0).sends(has_ticket);
    assert_eq!(tickets.last().map(|&(_, node)| node), Some(NodeId(leader)));
}

#[test]
fn without_news_a_free_lock_is_found_after_a_pause() {
    let mut world = World::with_clients(5, 2);
    for node in 0..5 {
        world.nodes[node].tells_changes = false;
        world.break_connections(node);
    }
    world.await_votes(0);
    world.await_votes(1);
    world.lock(1, "k", params());
    world.client(1).ask(1, "k", waiting(LEASE));
    world.run_for(Duration::from_secs(1));
    let freed = world.now;
    world.end(1);
    world.client(1).granted(1);
    world.assert_within(Duration::from_millis(64) + 4 * ROUND_TRIP, freed);
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

/// Dead owners' keys stay on as many nodes as a lock can do without, the leader among them. Whoever
/// asks at once is refused there, and has to meet at another node.
#[test]
fn keys_that_stay_on_the_leader_keep_no_two_waiters_from_the_lock() {
    for (nodes, leftovers) in [(3, 1), (4, 1), (5, 1), (5, 2)] {
        for seed in 0..100 {
            let mut world = World::with_clients(nodes, 2);
            shuffle(&mut world, 2, seed);
            let now = world.now;
            for (place, node) in world.order("k").into_iter().take(leftovers).enumerate() {
                let owner = Owner(OTHER.0 + place as u128);
                world.nodes[node].occupy("k", owner, 12 * LEASE, now);
            }
            for client in 0..2 {
                // Not with the same luck in each world.
                for _ in 0..seed {
                    world.client(client).ask(9, "k", params());
                    world.client(client).answer(9);
                    world.client(client).end(9);
                    world.run_for(10 * HOP);
                }
            }
            let asked = world.now;
            for client in 0..2 {
                world.client(client).ask(1, "k", waiting(LEASE));
            }
            let mut is_won = false;
            while !is_won {
                assert!(world.step());
                is_won = (0..2).any(|client| world.client(client).answered(1).is_some());
            }
            let took = world.now.since(asked);
            assert!(
                took <= Duration::from_millis(64) + 8 * ROUND_TRIP,
                "{nodes} nodes, {leftovers} leftovers, seed {seed}: {took:?}"
            );
        }
    }
}

/// The keys of a section that is over, which came too late to be deleted. They expire when they do, on
/// the leader long after a majority has none.
#[test]
fn own_keys_that_stay_on_the_leader_keep_no_waiter_from_the_lock() {
    for failures in 0..2 {
        let mut world = World::new(3);
        world.lock(1, "k", params());
        let owner = world.majority_owner("k").expect("it is held");
        world.end(1);
        world.run_for(10 * HOP);
        let leader = world.leader("k");
        for node in 0..3 {
            let ttl = if node == leader { 10 * LEASE } else { LEASE };
            world.nodes[node].occupy("k", owner, ttl, world.now);
        }
        let free = world.now.after(LEASE);
        if failures > 0 {
            world.behave([0, 1, 2], Behavior::Unresponsive);
        }
        world.ask(2, "k", waiting(20 * LEASE));
        world.run_for(params().node_timeout + HOP);
        world.behave([0, 1, 2], Behavior::Healthy);
        world.granted(2);
        let late = world.now.since(free);
        assert!(
            late <= Duration::from_millis(64) + 4 * ROUND_TRIP,
            "{failures}: {late:?}"
        );
    }
}

#[test]
fn a_waiter_that_dies_costs_others_nothing() {
    let mut world = with_waiter(3);
    world.client(1).restart();
    world.run_for(20 * HOP);
    world.end(1);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.carriers("k"), []);
    let asked = world.now;
    world.lock(2, "k", params());
    assert_eq!(world.now.since(asked), ROUND_TRIP);
}

#[test]
fn a_holder_that_dies_is_followed_when_its_keys_expire() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", renewing());
    world
        .client(1)
        .ask(1, "k", waiting(Duration::from_secs(60)));
    world.run_for(Duration::from_secs(10));
    let expiry = world.expiries("k").into_iter().max();
    world.client(0).restart();
    world.client(1).granted(1);
    let expiry = expiry.expect("it was held");
    assert!(
        world.now.since(expiry) <= Duration::from_millis(70),
        "{:?}",
        world.now.since(expiry)
    );
}

#[test]
fn a_paused_holder_and_its_successor_are_told_apart_by_their_tokens() {
    let mut world = World::with_clients(3, 2);
    let (deadline, first) = world.lock(1, "k", renewing());
    world.client(0).pause_for(2 * LEASE);
    let (_, second) = world.client(1).lock(1, "k", waiting(2 * LEASE));
    assert!(world.now > deadline && second > first);
    world.run_for(2 * LEASE);
    assert!(matches!(world.answer(1), Answer::Over(_)));
    assert!(world.client(1).log().iter().all(|(_, action)| {
        !matches!(
            action,
            Action::Answer {
                answer: Answer::Over(Loss::Lost { .. }),
                ..
            }
        )
    }));
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
    let params = LockParams {
        node_timeout: 5 * HOP,
        ..waiting(Duration::from_secs(10))
    };
    world.client(0).ask(1, "k", params);
    world.run_for(4 * ROUND_TRIP);
    world.client(1).ask(2, "k", params);
    world.run_for(4 * ROUND_TRIP);
    let counter = world.nodes[0].counter("k");
    for (node, ahead) in [0, 1, 2].into_iter().zip([0, 1_000_000, 2_000_000]) {
        world.nodes[node].set_counter("k", counter + ahead);
    }
    world.client(0).end(1);
    let released = world.now;
    let granted = world.client(1).granted(2).0;
    assert!(granted > released);
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
    let asked = |world: &mut World, node| {
        let asked = world.client(1).sends(is_acquire);
        asked.iter().filter(|(_, to)| to.0 == node).count()
    };
    // It doubts the leader, and asks both.
    let before = asked(&mut world, far);
    while asked(&mut world, far) == before {
        world.run_for(HOP);
    }
    world.run_for(ROUND_TRIP);
    let before = asked(&mut world, leader);
    world.client(0).end(1);
    world.run_for(3 * HOP);
    assert!(asked(&mut world, leader) > before);
    world.client(1).granted(1);
}
