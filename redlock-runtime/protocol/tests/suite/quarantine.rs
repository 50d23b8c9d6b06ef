//! Nodes that have lost their memory: how long they do not vote, and who notices.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

const LONG: Duration = Duration::from_secs(50);

fn is_quarantined(state: &NodeState) -> bool {
    matches!(state, NodeState::Quarantined { .. })
}

// ---- how long

#[test]
fn a_node_that_lost_its_memory_is_back_once_what_any_client_was_granted_has_expired() {
    for lose in LOSSES {
        for lease in [LEASE, Duration::from_secs(30)] {
            let mut world = World::with_clients(3, 2);
            world.client(1).lock(1, "other", params_of(lease));
            world.client(1).end(1);
            for section in 1..=20 {
                world.lock(section, "k", params());
                world.end(section);
                world.run_for(20 * HOP);
            }
            lose(&mut world, 0);
            let longest = params_of(lease).key_ttl();
            let took = world.votes_again(0);
            assert_between(took, longest, longest + Duration::from_millis(500));
        }
    }
}

#[test]
fn a_node_that_lost_its_memory_is_back_soon_where_little_was_granted() {
    let mut world = World::new(5);
    world.run_for(3 * settings().max_ttl);
    world.restart_empty(0);
    let took = world.votes_again(0);
    assert_between(took, LONGEST_ROUND, LONGEST_ROUND + 500 * HOP);
}

#[test]
fn a_lock_is_forgotten_as_the_longest_two_periods_later() {
    let mut world = World::new(3);
    world.client(0).start_wall_clock();
    world.lock(1, "other", params_of(Duration::from_secs(60)));
    world.end(1);
    for section in 2..=60 {
        world.run_for(Duration::from_secs(3));
        world.lock(section, "k", params());
        world.end(section);
    }
    world.restart_empty(1);
    let took = world.votes_again(1);
    assert!(took <= params().key_ttl() + 500 * HOP, "{took:?}");
}

/// One of them is always connected, and is not given up yet.
#[test]
fn nodes_that_accept_connections_and_never_reply_keep_no_other_out() {
    let mut world = World::new(5);
    for node in [1, 2] {
        world.behave([node], Behavior::Unresponsive);
        world.break_connections(node);
        world.run_for(Duration::from_millis(600));
    }
    world.run_for(Duration::from_secs(10));
    world.restart_empty(0);
    let took = world.votes_again(0);
    let longest = settings().max_ttl;
    assert_between(took, longest, longest + Duration::from_millis(500));
}

#[test]
fn without_enough_others_a_node_stays_out_for_the_longest_lease_of_the_fleet() {
    for (nodes, away) in [(3, 1), (5, 2), (4, 2)] {
        let mut world = World::new(nodes);
        for node in 1..=away {
            world.kill(node);
        }
        world.restart_empty(0);
        let took = world.votes_again(0);
        let longest = settings().max_ttl;
        assert!(took >= longest, "{nodes} nodes: {took:?}");
        let most = longest + 1_500 * HOP;
        assert!(took <= most, "{nodes} nodes: {took:?}");
    }
}

#[test]
fn two_restarted_nodes_of_three_are_said_to_be_quarantined() {
    let mut world = World::new(3);
    world.restart_empty(0);
    world.restart_empty(1);
    world.run_for(Duration::from_secs(2));
    world.ask(1, "k", params());
    let refusal = world.refusal(1);
    let Cause::Quarantined { ready_in } = refusal.cause else {
        panic!("{refusal:?}")
    };
    assert!(ready_in <= settings().max_ttl && ready_in >= settings().max_ttl - 3 * LEASE);
    let quarantined = |verdict: &&Verdict| matches!(verdict, Verdict::Quarantined { .. });
    assert_eq!(refusal.verdicts.iter().filter(quarantined).count(), 2);
    let before = world.now;
    world.lock(2, "k", waiting(2 * settings().max_ttl));
    world.assert_within(ready_in + Duration::from_millis(500), before);
}

// ---- what does not shorten it

#[test]
fn neither_the_nodes_clock_nor_a_new_connection_shortens_a_quarantine() {
    let mut world = World::new(3);
    world.kill(1);
    world.restart_empty(0);
    let lost = world.now;
    world.run_for(Duration::from_secs(1));
    world.nodes[0].clock_ahead = Duration::from_secs(3_600);
    world.break_connections(0);
    world.run_for(Duration::from_secs(1));
    world.break_connections(0);
    world.lock(1, "k", waiting(2 * settings().max_ttl));
    assert!(world.now.since(lost) >= settings().max_ttl);
}

// ---- who notices

#[test]
fn a_flush_is_noticed_by_a_client_that_asks_for_nothing() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.end(1);
    world.run_for(Duration::from_secs(1));
    let flushed = world.now;
    for node in 0..3 {
        world.flush(node);
    }
    world.run_for(20 * HOP);
    for node in 0..3 {
        let state = world.state(node);
        assert!(is_quarantined(&state), "{state:?}");
    }
    // It counts from the flush, and not from the first lock that is asked for.
    world.run_for(Duration::from_secs(40));
    world.lock(2, "k", waiting(2 * settings().max_ttl));
    world.assert_within(settings().max_ttl + Duration::from_secs(1), flushed);
}

/// It may not read for how long the server has run, and would have waited for the longest lease.
#[test]
fn that_another_client_has_let_a_node_in_is_heard_by_the_next_ping() {
    let interval = Duration::from_secs(2);
    let mut world = World::without_clients(&[Behavior::Healthy]);
    world.nodes[0].tells_changes = false;
    let blind = world.add_client(pinging(interval));
    world.client(blind).forbid_info();
    world.client(blind).restart();
    world.run_for(Duration::from_secs(5));
    assert!(is_quarantined(&world.client(blind).state(0)));
    let other = world.add_client(settings());
    world.await_votes(other);
    world.run_for(interval + Duration::from_millis(100));
    assert_eq!(world.client(blind).state(0), NodeState::Up);
}

#[test]
fn a_flush_that_nobody_tells_of_is_found_by_the_next_vote() {
    let mut world = World::new(3);
    world.tell_nothing();
    world.flush(0);
    world.flush(1);
    world.run_for(Duration::from_secs(5));
    world.ask(1, "k", params());
    world.quarantined(1);
}

/// `SWAPDB` tells nobody. The database that comes has nothing in it that counts here: what nodes
/// keep of their vote is named for the number of the database.
#[test]
fn a_database_that_was_swapped_away_is_missed() {
    let mut world = World::new(3);
    world.lock(1, "k", params_of(LONG));
    world.run_for(100 * HOP);
    for node in 0..2 {
        world.nodes[node].flush();
    }
    let client = world.add_client(settings());
    world.run_for(20 * HOP);
    world.client(client).ask(1, "k", params());
    world.client(client).quarantined(1);
}

#[test]
fn another_server_under_the_same_address_is_found_out_by_its_missing_scripts() {
    let mut world = World::new(3);
    // A replica with all the data, and with another process id, behind the same connection.
    world.nodes[0].become_server("a replica");
    world.nodes[0].behavior = Behavior::WithoutScripts;
    world.kill(1);
    world.run_for(20 * HOP);
    world.ask(1, "k", params());
    world.quarantined(1);
}

#[test]
fn a_flush_of_scripts_alone_costs_a_round_trip_or_two_and_no_quarantine() {
    let mut world = World::new(3);
    world.behave(0..3, Behavior::WithoutScripts);
    let asked = world.now;
    world.lock(1, "k", params());
    world.assert_within(4 * ROUND_TRIP, asked);
    world.end(1);
    world.run_for(10 * HOP);
    assert_eq!(world.carriers("k"), []);
}

/// All nodes are asked what they remember, for the sake of one of them. Another one forgets after it has told.
#[test]
fn a_node_that_is_flushed_while_records_are_read_does_not_count_as_remembering() {
    let mut world = World::new(3);
    world.client(0).set_lag(2, Duration::from_millis(50));
    world.flush(0);
    world.run_for(60 * HOP);
    world.flush(1);
    let flushed = world.now;
    world.run_for(Duration::from_millis(400));
    assert!(is_quarantined(&world.state(1)), "{:?}", world.state(1));
    world.votes_again(1);
    world.assert_within(settings().max_ttl + Duration::from_secs(1), flushed);
}

#[test]
fn another_loss_begins_another_quarantine() {
    for first in LOSSES {
        for second in LOSSES {
            let mut world = World::new(3);
            world.lock(1, "k", params());
            world.end(1);
            world.run_for(10 * HOP);
            first(&mut world, 0);
            world.run_for(params().key_ttl() - Duration::from_millis(200));
            second(&mut world, 0);
            let lost = world.now;
            world.run_until(|world| world.state(0) == NodeState::Up && world.now > lost);
            let ttl = params().key_ttl();
            assert_between(world.now.since(lost), ttl, ttl + 100 * HOP);
        }
    }
}
