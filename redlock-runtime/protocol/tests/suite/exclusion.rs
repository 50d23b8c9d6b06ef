//! No lock is granted twice because a node that has lost its memory votes too early.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

const LONG: Duration = Duration::from_secs(50);

fn patient(lease: Duration) -> LockParams {
    LockParams {
        wait: 3 * LONG,
        ..params_of(lease)
    }
}

/// Client 0 holds a lock on nodes 0 and 1 and cannot reach node 2; node 0 loses its memory. Client 1
/// is a process that has just been started, and meets node 0 first, or beside node 1.
#[test]
fn a_node_without_memory_that_a_new_client_meets_grants_nothing_twice() {
    for lose in LOSSES {
        for (max_lease, is_alone) in [(60, true), (120, true), (60, false)] {
            let mut settings = settings();
            settings.max_ttl = params_of(Duration::from_secs(max_lease)).key_ttl();
            let mut world = World::with_settings(3, &[settings]);
            world.client(0).cut_off(2);
            let (deadline, _) = world.lock(1, "k", params_of(LONG));
            world.run_for(Duration::from_millis(100));
            if is_alone {
                world.kill(1);
            }
            lose(&mut world, 0);
            let client = world.add_client(settings);
            world.client(client).lock(1, "k", patient(LONG));
            world.assert_over(deadline);
        }
    }
}

/// Nodes are flushed one after the other, so that at the end none remembers anything.
#[test]
fn nodes_that_lose_their_memory_one_after_the_other_grant_nothing_twice() {
    for lose in LOSSES {
        for pause in [10, 200, 1_500, 7_000] {
            let mut world = World::new(3);
            world.tell_nothing();
            world.client(0).restart();
            world.await_votes(0);
            world.client(0).cut_off(2);
            let (deadline, _) = world.lock(1, "k", params_of(LONG));
            let other = world.add_client(settings());
            world.await_votes(other);
            world.client(0).cut_off(0);
            world.client(0).cut_off(1);
            for node in 0..3 {
                lose(&mut world, node);
                world.client(other).hear_of_change(node, None);
                world.run_for(pause * HOP);
            }
            let newest = world.add_client(settings());
            for client in [other, newest] {
                world.client(client).ask(1, "k", patient(LEASE));
            }
            let first = loop {
                assert!(world.step());
                let granted = |client: &usize| world.client(*client).answered(1).is_some();
                if let Some(client) = [other, newest].into_iter().find(granted) {
                    break client;
                }
            };
            assert!(
                world.now >= deadline,
                "client {first}, {pause} ms between: {:?} too early",
                deadline.since(world.now)
            );
        }
    }
}

/// A round that counted the forgotten vote is still on its way to the nodes that could tell of it.
#[test]
fn evidence_is_read_only_after_the_last_round_that_could_have_counted_a_forgotten_vote() {
    let mut world = World::with_clients(3, 2);
    world.tell_nothing();
    for client in 0..2 {
        world.client(client).restart();
    }
    world.await_votes(0);
    world.await_votes(1);
    world.client(0).cut_off(2);
    world.client(0).set_lag(1, Duration::from_millis(900));
    let params = LockParams {
        node_timeout: LONGEST_ROUND,
        ..params_of(LONG)
    };
    world.ask(1, "k", params);
    world.run_for(3 * HOP);
    // Node 0 has granted it; node 1 has not heard of it.
    world.flush(0);
    world.client(1).hear_of_change(0, None);
    let (deadline, _) = world.granted(1);
    world.client(1).lock(1, "k", patient(LEASE));
    world.assert_over(deadline);
}

/// Old data with the marker of another process is no first start, also where no other node has a
/// marker: the only node of all, or nodes that are restarted one after the other.
#[test]
fn nodes_that_all_come_back_with_old_data_grant_nothing_twice() {
    for nodes in [1, 3] {
        let mut world = World::with_clients(nodes, 2);
        let old: Vec<Node> = world.nodes.clone();
        let (deadline, _) = world.lock(1, "k", params_of(LONG));
        for node in 0..nodes {
            world.client(0).cut_off(node);
            world.kill(node);
        }
        for (node, old) in old.iter().enumerate() {
            world.restart_from(node, old);
            world.behave([node], Behavior::Healthy);
            world.run_for(Duration::from_secs(1));
        }
        world.client(1).lock(1, "k", waiting(2 * LONG));
        assert!(
            world.now >= deadline,
            "granted {:?} too early by {nodes} nodes",
            deadline.since(world.now)
        );
    }
}
