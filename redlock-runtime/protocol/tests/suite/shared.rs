//! Sections that share a key with each other, and with no other.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

/// Shares the key.
fn reading(wait: Duration) -> LockParams {
    shared(waiting(wait))
}

/// The readers of `k` on each node.
fn readers(world: &World) -> Vec<usize> {
    let count = |node: &Node| node.owners("k", world.now);
    world.nodes.iter().map(count).collect()
}

#[test]
fn readers_of_several_processes_have_the_key_at_once_and_a_writer_has_it_alone() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 3);
        for client in 0..2 {
            world.client(client).ask(1, "k", reading(Duration::ZERO));
        }
        let first = world.client(0).granted(1).1;
        let second = world.client(1).granted(1).1;
        assert_ne!(first, second);
        world.client(2).ask(1, "k", params());
        world.client(2).contended(1);
        world.client(0).end(1);
        world.run_for(5 * HOP);
        world.client(2).ask(2, "k", params());
        world.client(2).contended(2);
        world.client(1).end(1);
        world.run_for(5 * HOP);
        let (_, token) = world.client(2).lock(3, "k", params());
        assert!(token > first && token > second);
        for client in 0..2 {
            world.client(client).ask(2, "k", reading(Duration::ZERO));
            world.client(client).contended(2);
        }
        world.client(2).end(3);
        world.run_for(5 * HOP);
        world.client(0).ask(3, "k", reading(Duration::ZERO));
        assert!(world.client(0).granted(3).1 > token);
    }
}

#[test]
fn readers_that_ask_at_once_do_not_ask_for_the_same_numbers_for_ever() {
    let mut world = World::with_clients(2, 2);
    // Each reaches another node first.
    world.client(0).set_lag(1, HOP);
    world.client(1).set_lag(0, HOP);
    for client in [0, 1] {
        world.client(client).ask(1, "k", reading(Duration::ZERO));
    }
    for client in [0, 1] {
        world.client(client).granted(1);
    }
}

/// Each overtakes what the other has proposed, because that comes first to the node that is far from the
/// other. Nobody would win as long as nobody gives up.
#[test]
fn turns_that_overtake_each_other_do_not_go_on_for_ever() {
    let mut world = World::with_clients(2, 2);
    for (client, far) in [(0, 1), (1, 0)] {
        world.client(client).set_lag(far, 40 * HOP);
        world.client(client).ask(1, "k", reading(LONG));
    }
    for client in [0, 1] {
        world.client(client).granted(1);
    }
    world.run_for(LEASE / 2);
    let began = world.now;
    for client in [0, 1] {
        world.client(client).ask(2, "k", reading(LONG));
        world.client(client).end(1);
        world.run_for(20 * HOP);
    }
    for client in [0, 1] {
        let (granted, _) = world.client(client).granted(2);
        assert!(granted.since(began) < 2 * LEASE, "{client}");
    }
}

#[test]
fn readers_of_one_process_share_a_turn() {
    let mut world = World::new(3);
    for section in 1..=10 {
        world.ask(section, "k", reading(Duration::ZERO));
    }
    let mut tokens: Vec<Token> = (1..=10).map(|section| world.granted(section).1).collect();
    assert_eq!(world.sends(is_acquire).len(), 3);
    // One more asks no node while the last round is young, and one round if it is not.
    let before = world.now;
    world.ask(11, "k", reading(Duration::ZERO));
    tokens.push(world.granted(11).1);
    assert_eq!(world.now, before);
    world.run_for(Duration::from_secs(1));
    let rounds = world.sends(is_extend).len();
    world.ask(12, "k", reading(Duration::ZERO));
    tokens.push(world.granted(12).1);
    assert_eq!(world.sends(is_extend).len(), rounds + 3);
    assert!(tokens.is_sorted() && tokens.windows(2).all(|two| two[0] != two[1]));
    for section in 1..=11 {
        world.end(section);
        world.run_for(3 * HOP);
        assert_eq!(readers(&world), [1; 3], "the last one has it");
    }
    world.end(12);
    world.run_for(5 * HOP);
    assert_eq!(world.carriers("k"), []);
    assert_eq!(world.sends(is_release).len(), 3);
}

#[test]
fn a_writer_of_the_process_goes_after_those_that_asked_before_it_and_before_those_that_asked_later()
{
    let mut world = World::new(3);
    world.lock(1, "k", reading(LONG));
    world.ask(2, "k", waiting(LONG));
    world.ask(3, "k", reading(LONG));
    world.ask(4, "k", reading(Duration::ZERO));
    world.contended(4);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.answers(), []);
    world.end(1);
    world.granted(2);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.answers(), []);
    world.end(2);
    world.granted(3);
}

#[test]
fn each_reader_has_a_lease_of_its_own() {
    let mut world = World::new(3);
    let long = shared(params_of(Duration::from_secs(20)));
    let renewed = shared(renewing());
    let (deadline, _) = world.lock(1, "k", reading(Duration::ZERO));
    world.run_for(Duration::from_secs(1));
    world.ask(2, "k", long);
    world.ask(3, "k", renewed);
    world.granted(2);
    let (_, token) = world.granted(3);
    // The first is over in its time, and the others go on.
    world.expired(1);
    assert_eq!(world.now, deadline);
    world.run_for(Duration::from_secs(10));
    assert!(!world.is_any_over(), "{:?}", world.answers());
    // One that is over and has not let go keeps no other from reading, nor a writer for ever.
    world.ask(4, "k", reading(Duration::ZERO));
    assert!(world.granted(4).1 > token);
    for section in [2, 3, 4] {
        world.end(section);
    }
    world.run_for(5 * HOP);
    // Alone, its keys would have expired long ago.
    assert_eq!(world.carriers("k"), []);
    world.release(1);
    while let answer = world.answer(1)
        && answer != Answer::Released(Release::AlreadyExpired)
    {}
}

/// Within the time of its own keys, nobody is let in before it lets go, and afterwards they go.
#[test]
fn a_reader_that_is_just_over_keeps_the_keys_for_its_own_time() {
    let mut world = World::new(3);
    world.lock(1, "k", reading(Duration::ZERO));
    world.run_for(Duration::from_secs(1));
    world.lock(2, "k", reading(Duration::ZERO));
    world.expired(1);
    world.end(2);
    world.run_for(5 * HOP);
    assert_eq!(world.carriers("k").len(), 3, "the first may still write");
    // With those of the other one they would stay for a second more.
    let asked = world.now;
    world.lock(3, "k", waiting(LONG));
    world.assert_within(params().key_ttl() - LEASE, asked);
}

#[test]
fn a_report_of_a_release_is_true_while_others_go_on() {
    let mut world = World::new(3);
    for section in 1..=2 {
        world.lock(section, "k", reading(Duration::ZERO));
    }
    world.run_for(Duration::from_millis(100));
    world.assert_release(1, Release::Released);
    for node in [0, 1] {
        world.nodes[node].forget_key("k");
    }
    world.assert_release(2, Release::AlreadyExpired);
}

#[test]
fn a_writer_that_waits_stops_new_readers_of_all_processes_and_then_has_its_turn() {
    let mut world = World::with_clients(3, 3);
    for client in 0..2 {
        world.client(client).lock(1, "k", reading(LONG));
    }
    world.client(2).ask(1, "k", waiting(LONG));
    world.run_for(Duration::from_millis(200));
    for client in 0..2 {
        world.client(client).ask(2, "k", reading(LONG));
        world.client(client).ask(3, "k", reading(Duration::ZERO));
        world.client(client).contended(3);
    }
    let before = world.client(0).sends(is_extend).len();
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.client(0).answers(), []);
    // Whether they may join by now is asked once in 50 ms, of three nodes.
    let asked = world.client(0).sends(is_extend).len() - before;
    assert!(asked <= 3 * 20, "{asked} requests");
    world.client(0).end(1);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.client(0).answers(), []);
    world.client(1).end(1);
    let ended = world.now;
    world.client(2).granted(1);
    world.assert_within(20 * HOP, ended);
    world.client(2).end(1);
    for client in 0..2 {
        world.client(client).granted(2);
    }
    world.assert_within(100 * HOP, ended);
}

#[test]
fn readers_go_on_once_a_writer_has_given_up() {
    let mut world = World::with_clients(3, 2);
    world.client(0).lock(1, "k", reading(LONG));
    world.client(1).ask(1, "k", waiting(300 * HOP));
    world.client(1).contended(1);
    let asked = world.now;
    world.client(0).lock(2, "k", reading(LONG));
    world.assert_within(Duration::from_millis(2_100), asked);
}

#[test]
fn readers_that_wait_for_a_writer_begin_together() {
    for nodes in [1, 3, 5] {
        let mut world = World::with_clients(nodes, 4);
        world.client(0).lock(1, "k", params());
        for client in 1..4 {
            world.client(client).ask(1, "k", reading(LONG));
        }
        world.run_for(Duration::from_secs(1));
        world.client(0).end(1);
        let ended = world.now;
        for client in 1..4 {
            world.client(client).granted(1);
        }
        let took = world.now.since(ended);
        assert!(took <= 30 * HOP, "{took:?} with {nodes} nodes");
    }
}

#[test]
fn neither_readers_nor_writers_starve() {
    let mut world = World::with_clients(3, 4);
    let mut crowd = Crowd::default();
    for client in 0..4 {
        let params = match client {
            0 => waiting(LONG),
            _ => reading(LONG),
        };
        let wish = Wish::new(&["k"], params, Duration::from_millis(3 + 5 * client as u64))
            .again(Duration::ZERO);
        for section in 1..=3 {
            crowd.ask(&mut world, client, section, wish.clone());
        }
    }
    crowd.run_for(&mut world, Duration::from_secs(10));
    let begun = counts(&crowd.served(), 4);
    assert!(begun.iter().all(|begun| *begun > 200), "{begun:?}");
}

/// They may be several that have asked at once as well, none of which has a majority.
#[test]
fn a_writer_that_does_not_wait_asks_again_where_readers_have_a_majority_of_nodes() {
    let mut world = World::new(5);
    let nodes = &world.order("k")[2..];
    for &node in nodes {
        world.occupy(node, "k", Owner::READERS, LEASE);
    }
    world.ask(1, "k", params());
    world.run_for(ROUND_TRIP);
    for &node in nodes {
        world.delete(node, "k");
    }
    world.granted(1);
}

/// It was theirs as well. Others that they made would be in the way of a process that has won.
#[test]
fn readers_that_joined_an_attempt_in_vain_make_no_other_one() {
    let mut world = World::with_clients(3, 2);
    world.client(1).lock(1, "k", params());
    for section in 1..=4 {
        world.ask(section, "k", reading(Duration::ZERO));
    }
    for section in 1..=4 {
        world.contended(section);
    }
    assert_eq!(world.sends(is_acquire).len(), 3);
}

#[test]
fn readers_share_in_mixed_fleets_too() {
    let mixed = mixed_fleet();
    let mut world = World::with_settings(3, &[mixed; 2]);
    for client in 0..2 {
        let mut client = world.client(client);
        for section in 1..=3 {
            client.ask(section, "k", reading(Duration::from_secs(1)));
        }
        for section in 1..=3 {
            client.granted(section);
        }
    }
}

/// Readers had the lock, and one node still has what some of them have left there.
#[test]
fn readers_that_one_node_names_are_not_taken_for_those_that_had_the_lock() {
    let mut world = World::with_settings(3, &[mixed_fleet()]);
    let order = world.order("k");
    for node in 0..3 {
        world.occupy(node, "k", Owner::READERS, 10 * LEASE);
    }
    for section in 1..=2 {
        world.ask(section, "k", waiting(4 * LEASE));
    }
    world.run_for(10 * ROUND_TRIP);
    for &node in &order[1..] {
        world.nodes[node].forget_key("k");
    }
    world.granted(1);
    world.end(1);
    let freed = world.now;
    world.granted(2);
    world.assert_within(Duration::from_millis(66) + 6 * ROUND_TRIP, freed);
}

/// All others that share the key are told whenever it is written, and read it.
#[test]
fn readers_that_join_write_the_key_seldom() {
    let mut world = World::with_clients(3, 2);
    world.client(1).lock(1, "k", reading(LONG));
    world.lock(1, "k", reading(LONG));
    world.run_for(Duration::from_secs(1));
    let reads = |world: &mut World| world.client(1).sends(is_watch).len() / 3;
    let (before, rounds) = (reads(&mut world), world.sends(is_extend).len() / 3);
    for section in 2..=32 {
        world.lock(section, "k", reading(LONG));
        world.run_for(60 * HOP);
        world.end(section - 1);
    }
    assert!(world.sends(is_extend).len() / 3 >= rounds + 30);
    let reads = reads(&mut world) - before;
    assert!(reads <= 10, "{reads} writes in two seconds");
}

/// Each that comes or goes changes the key, of which all others are told.
#[test]
fn a_reader_reads_the_key_for_many_changes_together_and_learns_of_a_loss() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", reading(LONG));
    world.run_for(Duration::from_millis(100));
    let (before, began) = (world.sends(is_watch).len(), world.now);
    for section in 1..=50 {
        world.client(1).lock(section, "k", reading(Duration::ZERO));
        world.client(1).end(section);
        world.run_for(5 * ROUND_TRIP);
    }
    let periods = world.now.since(began).as_millis() / 200;
    let reads = world.sends(is_watch).len() - before;
    assert!(reads as u128 <= 3 * (periods + 1), "{reads} reads");
    let began = world.now;
    for node in 0..2 {
        world.delete(node, "k");
    }
    world.lost(1);
    world.assert_within(Duration::from_millis(200) + 2 * ROUND_TRIP, began);
}

// ---- a writer that becomes a reader

#[test]
fn a_writer_becomes_a_reader_without_a_gap_and_readers_that_wait_enter() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 3);
        let (_, token) = world.lock(1, "k", waiting(LONG));
        world.run_for(30 * HOP);
        world.client(1).ask(1, "k", reading(LONG));
        world.run_for(30 * HOP);
        world.client(2).ask(1, "k", waiting(LONG));
        world.ask(2, "k", reading(LONG));
        world.run_for(LEASE / 5);
        let asked = world.now;
        world.client(0).share(1);
        while world.answers().is_empty() {
            // The owner has the key on as many nodes as before, alone or as a reader.
            assert_eq!(world.carriers("k").len(), nodes);
            assert!(world.step());
        }
        assert_eq!(world.carriers("k").len(), nodes);
        let deadline = asked.after(LEASE);
        assert_eq!(world.answer(1), Answer::Extended { deadline });
        let beside = world.client(1).granted(1).1;
        assert!(beside > token, "{nodes} nodes");
        assert_eq!(world.client(2).answered(1), None);
        world.end(1);
        world.client(1).end(1);
        // It has come before the reader of the first process.
        let (_, next) = world.client(2).granted(1);
        assert!(next > beside);
        assert_eq!(world.client(0).answered(2), None);
        world.client(2).end(1);
        world.granted(2);
        world.end(2);
        world.run_for(4 * HOP);
        assert!(world.carriers("k").is_empty());
    }
}

#[test]
fn a_node_that_has_not_heard_of_it_lets_nobody_in_and_is_released_all_the_same() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", params());
    world.run_for(30 * HOP);
    world.client(0).cut_off(0);
    world.client(0).share(1);
    world.extended(1);
    assert_eq!(world.carriers("k").len(), 3);
    // A majority lets readers in.
    world.client(1).ask(1, "k", reading(Duration::ZERO));
    world.client(1).granted(1);
    world.client(1).ask(2, "k", params());
    world.client(1).contended(2);
    world.client(1).end(1);
    world.end(1);
    world.client(0).reconnect(0);
    world.run_for(Duration::from_secs(2));
    assert!(world.carriers("k").is_empty());
}

#[test]
fn a_writer_that_cannot_tell_the_nodes_keeps_its_lease_and_tells_them_at_the_next_extension() {
    let mut world = World::with_clients(3, 2);
    let (deadline, _) = world.lock(1, "k", params());
    world.run_for(30 * HOP);
    world.behave(0..3, Behavior::Unresponsive);
    world.client(0).share(1);
    assert!(matches!(world.answer(1), Answer::NotExtended { .. }));
    assert!(world.now < deadline);
    world.behave(0..3, Behavior::Healthy);
    world.extend(1);
    world.extended(1);
    world.run_for(4 * HOP);
    world.client(1).ask(1, "k", reading(Duration::ZERO));
    world.client(1).granted(1);
    world.client(1).ask(2, "k", params());
    world.client(1).contended(2);
    // It ends with its lease like any reader, and takes nothing from the others.
    world.expired(1);
    world.end(1);
    world.run_for(4 * HOP);
    assert_eq!(readers(&world), [1, 1, 1]);
}

/// A round under way has asked for the key of a writer.
#[test]
fn a_renewal_under_way_does_not_stand_for_the_change() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", params());
    world.extend(1);
    world.client(0).share(1);
    world.extended(1);
    world.run_for(HOP);
    world.client(1).ask(1, "k", reading(Duration::ZERO));
    world.client(1).granted(1);
}

/// It is of no use just now, so a busy client asks the others first. But it knows who waits to have the lock alone.
#[test]
fn readers_ask_the_node_that_keeps_the_queue_as_soon_as_the_others_have_granted() {
    let mut world = World::busy(3);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Delayed(Duration::from_millis(100)));
    world.lock(1, "k", params());
    world.end(1);
    world.run_for(Duration::from_millis(150));
    world.behave([leader], Behavior::Healthy);
    let asked = world.now;
    let acquires = world.sends(is_acquire).len();
    world.lock(2, "k", reading(Duration::ZERO));
    world.assert_within(2 * ROUND_TRIP, asked);
    assert_eq!(world.sends(is_acquire).len(), acquires + 3);
}
