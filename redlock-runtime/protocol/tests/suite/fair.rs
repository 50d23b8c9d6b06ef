//! Fair locks: who came first goes first, in whatever process.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

const SECTION: Duration = Duration::from_millis(5);

/// What it may take from the end of a section to the beginning of the next one: the release, the news
/// of it, a read of the key, and two round trips to acquire.
const HAND_OVER: Duration = Duration::from_millis(9);

/// What a process has to ask for a lock that is free, before those behind it do.
const GRACE: Duration = Duration::from_millis(5);

/// A caller: its client, and the number of its section there.
type Caller = (usize, u64);

fn ask(crowd: &mut Crowd, world: &mut World, (client, section): Caller) {
    let wish = Wish::new(&["k"], fair(LONG), SECTION);
    crowd.ask(world, client, section, wish);
}

/// Who has been served since the last call, in this order.
fn served(crowd: &mut Crowd) -> Vec<Caller> {
    let served = crowd.served().into_iter();
    served.map(|it| (it.client, it.section)).collect()
}

/// Callers of all clients that ask 10 ms after each other.
fn arrivals(clients: usize, count: u64) -> Vec<Caller> {
    let client = |number: u64| (number * 7 % 5 + number / 3) as usize % clients;
    (1..=count).map(|number| (client(number), number)).collect()
}

#[test]
fn callers_of_all_processes_are_served_in_the_order_of_arrival() {
    for nodes in 1..=5 {
        for clients in [1, 2, 3, 5] {
            let mut world = World::with_clients(nodes, clients);
            let mut crowd = Crowd::default();
            world.client(0).lock(1_000, "k", params());
            let arrivals = arrivals(clients, 30);
            for &caller in &arrivals {
                ask(&mut crowd, &mut world, caller);
                crowd.run_for(&mut world, 10 * HOP);
            }
            world.client(0).end(1_000);
            crowd.run_for(&mut world, 30 * (SECTION + HAND_OVER));
            let case = format!("{clients} clients, {nodes} nodes");
            assert_eq!(served(&mut crowd), arrivals, "{case}");
        }
    }
}

#[test]
fn the_lock_is_never_free_for_long_while_callers_wait() {
    for nodes in [1, 3, 5] {
        let mut world = World::with_clients(nodes, 4);
        let mut crowd = Crowd::default();
        let mut arrivals = arrivals(4, 200);
        // More than are served in the meantime.
        for &caller in &arrivals {
            ask(&mut crowd, &mut world, caller);
            crowd.run_for(&mut world, 8 * HOP);
        }
        crowd.run_for(&mut world, 200 * (SECTION + HAND_OVER));
        let served = crowd.served();
        for pair in served.windows(2) {
            let free = pair[1].from.since(pair[0].until);
            assert!(free <= HAND_OVER, "{nodes} nodes: free for {free:?}");
        }
        let served: Vec<_> = served.iter().map(|it| (it.client, it.section)).collect();
        arrivals.truncate(served.len());
        assert_eq!(served, arrivals);
    }
}

#[test]
fn a_free_lock_costs_two_round_trips_and_no_request_more() {
    for nodes in [1, 3, 5] {
        let mut world = World::new(nodes);
        let (asked, sent) = (world.now, world.sends(is_anything).len());
        world.lock(1, "k", fair(LONG));
        let trips = if nodes == 1 { 1 } else { 2 };
        assert_eq!(world.now.since(asked), trips * ROUND_TRIP);
        assert_eq!(world.sends(is_anything).len() - sent, nodes);
        world.end(1);
        world.run_for(10 * HOP);
        assert_eq!(world.carriers("k"), []);
    }
}

#[test]
fn a_section_costs_a_few_requests_however_many_processes_wait() {
    let clients = 8;
    let mut world = World::with_clients(3, clients);
    let mut crowd = Crowd::default();
    for number in 1..=25 {
        for client in 0..clients {
            ask(&mut crowd, &mut world, (client, number));
        }
    }
    crowd.run_for(&mut world, 200 * HOP + 100 * (SECTION + HAND_OVER));
    let (sections, requests) = crowd.served_and_requests(&world);
    assert!(sections > 100, "{sections}");
    // Acquired and released on three nodes; each of the others looks when half of those ahead have gone, and the
    // next one at each change.
    assert!(requests <= 16, "{requests}");
}

#[test]
fn a_process_that_dies_while_it_waits_delays_the_others_by_its_grace() {
    let mut world = World::with_clients(3, 3);
    world.client(0).lock(1, "k", params());
    world.client(1).ask(1, "k", fair(LONG));
    world.run_for(10 * HOP);
    world.client(2).ask(1, "k", fair(LONG));
    world.run_for(100 * HOP);
    world.client(1).restart();
    let died = world.now;
    world.client(0).end(1);
    world.client(2).granted(1);
    let delay = world.now.since(died);
    // Once after the news of the release, and once more when the leader has left the lock to it in vain.
    assert!(delay <= HAND_OVER + 2 * GRACE, "{delay:?}");
    assert!(delay >= GRACE + 2 * ROUND_TRIP, "its turn: {delay:?}");
    let asked = world.client(2).sends(is_acquire).into_iter();
    let asked = asked.filter(|&(at, _)| at > died).count();
    assert!(asked <= 5, "{asked} requests for a lock that is free");
}

#[test]
fn a_caller_that_goes_away_delays_nobody() {
    for is_cancelled in [true, false] {
        let mut world = World::with_clients(3, 3);
        world.client(0).lock(1, "k", params());
        let wait = if is_cancelled { LONG } else { 30 * HOP };
        world.client(1).ask(1, "k", fair(wait));
        world.run_for(10 * HOP);
        world.client(2).ask(1, "k", fair(LONG));
        world.run_for(10 * HOP);
        if is_cancelled {
            world.client(1).end(1);
        } else {
            let cause = world.client(1).refused(1);
            assert!(matches!(cause, Cause::Contended { .. }), "{cause:?}");
        }
        // The news that nobody is ahead any more comes with the next question.
        world.run_for(70 * HOP);
        let released = world.now;
        world.client(0).end(1);
        world.client(2).granted(1);
        let delay = world.now.since(released);
        assert!(delay <= HAND_OVER + GRACE, "{is_cancelled}: {delay:?}");
    }
}

#[test]
fn a_process_that_reaches_the_node_slowly_asks_no_other() {
    let mut world = World::with_clients(3, 3);
    let leader = world.leader("k");
    world.client(1).set_lag(leader, 10 * HOP);
    let mut crowd = Crowd::default();
    world.client(0).lock(1_000, "k", params());
    let arrivals = arrivals(3, 12);
    for &caller in &arrivals {
        // So that it knows which nodes are quick.
        let section = 2_000 + caller.1;
        world.client(1).ask(section, "another", params());
        crowd.run_for(&mut world, 10 * HOP);
        ask(&mut crowd, &mut world, caller);
        crowd.run_for(&mut world, 50 * HOP);
        world.client(1).end(section);
    }
    for client in [1, 2] {
        for (_, node) in world.client(client).sends(has_ticket) {
            assert_eq!(node.0, leader, "client {client}");
        }
    }
    world.client(0).end(1_000);
    crowd.run_for(&mut world, 12 * (SECTION + HAND_OVER + 100 * HOP));
    assert_eq!(served(&mut crowd), arrivals);
    assert!(arrivals.iter().any(|caller| caller.0 == 1));
}

#[test]
fn a_fair_section_is_not_refreshed_for_the_next_one() {
    let mut world = World::new(3);
    for section in [1, 2] {
        world.ask(section, "k", fair(LONG));
    }
    world.granted(1);
    world.run_for(200 * HOP);
    assert_eq!(world.sends(is_extend), []);
}

#[test]
fn the_order_survives_the_node_that_keeps_it() {
    for clients in [2, 4] {
        let mut world = World::with_clients(3, clients);
        let leader = world.leader("k");
        let mut crowd = Crowd::default();
        world.client(0).lock(1_000, "k", params());
        let arrivals = arrivals(clients, 12);
        for &caller in &arrivals {
            ask(&mut crowd, &mut world, caller);
            crowd.run_for(&mut world, 10 * HOP);
        }
        world.kill(leader);
        // All have asked another one.
        crowd.run_for(&mut world, 200 * HOP);
        world.client(0).end(1_000);
        crowd.run_for(&mut world, 12 * (SECTION + HAND_OVER));
        assert_eq!(served(&mut crowd), arrivals, "{clients} clients");
    }
}

#[test]
fn a_node_that_replies_late_does_not_keep_the_lock_from_anybody() {
    let mut world = World::with_clients(3, 2);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Unresponsive);
    let asked = world.now;
    world.client(1).lock(1, "k", fair(LONG));
    let took = world.now.since(asked);
    assert_between(took, params().round_timeout() / 2, params().round_timeout());
}

#[test]
fn a_fair_caller_does_not_pass_others_in_the_turn_of_its_process() {
    let mut world = World::with_clients(3, 2);
    world.client(0).lock(1, "k", params());
    world.client(1).ask(1, "k", fair(LONG));
    world.run_for(10 * HOP);
    world.client(0).ask(2, "k", fair(LONG));
    world.run_for(HOP);
    world.client(0).end(1);
    world.client(1).granted(1);
    assert_eq!(world.client(0).answered(2), None);
    world.client(1).end(1);
    world.client(0).granted(2);
}

#[test]
fn in_a_mixed_fleet_fair_callers_leave_the_lock_to_other_libraries_as_well() {
    let mut world = World::with_settings(3, &[mixed_fleet()]);
    world.ask(1, "k", fair(LONG));
    world.ask(2, "k", fair(LONG));
    world.granted(1);
    world.end(1);
    let ended = world.now;
    world.granted(2);
    assert!(world.now.since(ended) > 2 * ROUND_TRIP);
}

#[test]
fn a_key_that_only_the_leading_node_has_is_in_the_way_for_a_second() {
    let mut world = World::with_clients(3, 2);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Refusing(Refuses::Releases));
    world.client(0).lock(1, "k", fair(LONG));
    world.client(1).ask(1, "k", fair(LONG));
    world.run_for(100 * HOP);
    let ended = world.now;
    world.client(0).end(1);
    world.client(1).granted(1);
    world.assert_within(Ticket::LASTS + 140 * HOP, ended);
}

#[test]
fn what_the_node_has_refused_is_not_released() {
    let mut world = World::with_clients(3, 2);
    world.client(0).lock(1, "k", params());
    world.client(1).ask(1, "k", fair(LONG));
    world.run_for(5_000 * HOP);
    assert!(world.client(1).sends(is_acquire).len() > 5);
    // Another one may not have replied when all are asked.
    let leader = world.leader("k");
    assert_eq!(world.client(1).sends_to(leader, is_release), []);
}

/// What it asks of the other nodes does not arrive.
#[test]
fn a_client_that_reaches_one_node_only_does_not_stop_a_lock() {
    for kind in [fair as fn(Duration) -> LockParams, waiting] {
        let mut world = World::with_clients(3, 2);
        let leader = world.leader("k");
        for node in (0..3).filter(|&node| node != leader) {
            world.client(0).set_lag(node, Duration::from_secs(3_600));
        }
        world.client(0).ask(1, "k", kind(LONG));
        world.run_for(Duration::from_millis(500));
        for section in 1..=20 {
            let asked = world.now;
            world.client(1).lock(section, "k", kind(LONG));
            world.assert_within(2 * params().round_timeout(), asked);
            world.client(1).end(section);
            world.run_for(10 * HOP);
        }
    }
}

/// Without expiry.
#[test]
fn a_key_of_another_library_on_the_leader_alone_costs_callers_a_few_round_trips() {
    let mut world = World::new(3);
    let leader = world.leader("k");
    world.nodes[leader].set_plain_key("k");
    for (section, wait) in (1..).zip([Duration::ZERO, LONG].repeat(20)) {
        let asked = world.now;
        world.lock(section, "k", fair(wait));
        let took = world.now.since(asked);
        assert!(took <= 20 * HOP, "{wait:?}: {took:?}");
        world.end(section);
        world.run_for(10 * HOP);
    }
}

#[test]
fn a_waiter_that_other_nodes_refuse_at_first_keeps_its_place() {
    for late in 1..40 {
        let mut world = World::with_clients(3, 3);
        let leader = world.leader("k");
        for node in (0..3).filter(|&node| node != leader) {
            // The release reaches them later.
            world.client(0).set_lag(node, 13 * HOP);
        }
        world.client(0).lock(1, "k", params());
        world.client(1).ask(1, "k", fair(LONG));
        world.run_for(10 * HOP);
        world.client(0).end(1);
        world.run_for(late * HOP / 2);
        world.client(2).ask(1, "k", fair(LONG));
        world.client(1).granted(1);
        assert_eq!(world.client(2).answered(1), None, "{late}");
        world.client(1).end(1);
        world.client(2).granted(1);
    }
}
