//! Servers whose data survives a restart, and copies of data that are older than they seem.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

fn durable(nodes: usize) -> World {
    let mut world = World::without_clients(&vec![Behavior::Healthy; nodes]);
    for node in &mut world.nodes {
        node.is_durable = true;
    }
    world.add_client(settings());
    world.await_votes(0);
    world.lock(1, "k", params_of(Duration::from_secs(50)));
    world.run_for(100 * HOP);
    world
}

fn newcomer(world: &mut World) -> usize {
    let client = world.add_client(settings());
    world.run_for(Duration::from_millis(200));
    client
}

#[test]
fn a_durable_server_votes_again_at_once_and_remembers() {
    let mut world = durable(3);
    for node in 0..3 {
        let data = world.nodes[node].clone();
        world.restart_from(node, &data);
    }
    let client = newcomer(&mut world);
    world.client(client).ask(1, "k", params());
    world.client(client).contended(1);
    world.end(1);
    world.run_for(10 * HOP);
    world.client(client).lock(2, "k", params());
}

#[test]
fn a_promoted_replica_of_a_durable_server_is_no_durable_server() {
    let mut world = durable(3);
    // It has missed the last grants, but carries the marker. It has been a replica.
    for node in 0..2 {
        let mut replica = world.nodes[node].clone();
        replica.forget_key("k");
        replica.is_durable = false;
        world.nodes[node].is_durable = false;
        world.restart_from(node, &replica);
    }
    let client = newcomer(&mut world);
    world.client(client).ask(1, "k", params());
    world.client(client).quarantined(1);
}

#[test]
fn a_server_that_becomes_durable_with_its_restart_has_not_been_durable() {
    let mut world = World::new(3);
    world.ask(1, "k", params_of(Duration::from_secs(50)));
    let old: Vec<Node> = world.nodes.clone();
    world.granted(1);
    world.run_for(100 * HOP);
    for (node, old) in old.iter().enumerate().take(2) {
        world.nodes[node].is_durable = true;
        world.restart_from(node, old);
    }
    let client = newcomer(&mut world);
    world.client(client).ask(1, "k", params());
    world.client(client).quarantined(1);
}

#[test]
fn an_old_copy_of_a_durable_server_is_found_by_its_counters() {
    let mut world = durable(3);
    let old: Vec<Node> = world.nodes.clone();
    for section in 2..=20 {
        world.lock(section, "another", params());
        world.end(section);
        world.run_for(10 * HOP);
    }
    world.end(1);
    world.run_for(10 * HOP);
    world.lock(30, "k", renewing());
    world.run_for(10 * HOP);
    for (node, old) in old.iter().enumerate().take(2) {
        world.restart_from(node, old);
    }
    world.run_for(Duration::from_millis(200));
    for node in 0..2 {
        assert_ne!(world.state(node), NodeState::Up);
    }
}

#[test]
fn an_old_snapshot_of_a_server_that_is_not_durable_does_not_vote() {
    let mut world = World::new(3);
    let old: Vec<Node> = world.nodes.clone();
    let (deadline, _) = world.lock(1, "k", params_of(Duration::from_secs(50)));
    world.run_for(100 * HOP);
    world.restart_from(0, &old[0]);
    world.restart_from(1, &old[1]);
    let client = newcomer(&mut world);
    world.client(client).lock(1, "k", patient());
    world.assert_over(deadline);
}
