//! Sections that have several permits of one lock at once.

use super::*;

const GATE: &str = "k#__redlock:gate";

/// Of three permits.
fn ask(world: &mut World, client: usize, section: u64, weight: u32, wait: Duration) {
    let params = waiting_for(wait, renewing());
    let of = (weight, 3);
    world.client(client).ask_permits(section, of, params);
}

fn are_all_free(world: &World) -> bool {
    are_free(world, 3) && world.carriers(GATE).is_empty()
}

#[test]
fn a_section_has_as_many_permits_as_it_asks_for() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 2);
        let asked = world.now;
        ask(&mut world, 0, 1, 2, Duration::ZERO);
        let token = world.client(0).granted(1).1;
        assert!(world.now.since(asked) <= 3 * ROUND_TRIP);
        for client in 0..2 {
            for weight in [2, 3] {
                ask(&mut world, client, 9, weight, Duration::ZERO);
                let refusal = world.client(client).refusal(9);
                assert!(matches!(refusal.cause, Cause::Contended { .. }));
                assert_eq!(refusal.key.as_deref(), Some("k"));
                world.run_for(10 * HOP);
                assert!(world.carriers(GATE).is_empty());
            }
        }
        ask(&mut world, 1, 2, 1, Duration::ZERO);
        world.client(1).granted(2);
        world.assert_release(1, Release::Released);
        ask(&mut world, 1, 3, 2, Duration::ZERO);
        assert!(world.client(1).granted(3).1 > token);
        (2..4).for_each(|section| world.client(1).end(section));
        world.run_for(LEASE);
        assert!(are_all_free(&world) && world.client(0).is_idle() && world.client(1).is_idle());
    }
}

/// The permits that they want become free one by one, so each could have some.
#[test]
fn two_who_collect_permits_do_not_wait_for_each_other() {
    for weights in [[2, 2], [2, 3], [3, 2], [3, 3]] {
        for clients in [[0, 0], [0, 1]] {
            let mut world = World::with_clients(3, 3);
            hold(&mut world, 2, 5..8, 3);
            for (section, (client, weight)) in (0..).zip(clients.into_iter().zip(weights)) {
                ask(&mut world, client, section, weight, LEASE);
            }
            for section in 5..8 {
                world.run_for(20 * HOP);
                world.client(2).end(section);
            }
            let freed = world.now;
            for (section, client) in (0..).zip(clients) {
                world.client(client).granted(section);
                world.client(client).end(section);
            }
            world.assert_within(LEASE / 5, freed);
        }
    }
}

/// Who holds permits, and who has some of those that it wants.
#[test]
fn the_permits_of_the_dead_come_back() {
    let mut world = World::with_clients(3, 3);
    ask(&mut world, 0, 1, 2, Duration::ZERO);
    world.client(0).granted(1);
    ask(&mut world, 1, 1, 3, 20 * LEASE);
    ask(&mut world, 2, 1, 3, 20 * LEASE);
    world.run_for(LEASE);
    let gate = world.carriers(GATE).len();
    assert_eq!(gate, 3, "it is kept while permits are waited for");
    (0..2).for_each(|client| world.client(client).restart());
    let died = world.now;
    world.client(2).granted(1);
    assert!(world.now.since(died) <= params().key_ttl() + LEASE / 5);
}

#[test]
fn who_loses_a_permit_or_the_gate_collects_on_and_who_has_all_is_told() {
    for key in [GATE, "k#__redlock:0", "k#__redlock:1", "k#__redlock:2"] {
        let mut world = World::with_clients(3, 2);
        ask(&mut world, 1, 1, 1, Duration::ZERO);
        world.client(1).granted(1);
        ask(&mut world, 0, 2, 3, 20 * LEASE);
        world.run_for(30 * HOP);
        let process = |key| world.majority_owner(key).map(Owner::process);
        if process(key) == process(GATE) {
            world.delete_all(key);
        }
        world.run_for(LEASE);
        assert_eq!(world.client(0).answered(2), None);
        world.client(1).end(1);
        world.client(0).granted(2);
        world.delete_all("k#__redlock:0");
        world.client(0).lost(2);
        world.client(0).end(2);
        world.run_for(LEASE);
        assert!(are_all_free(&world) && world.client(0).is_idle());
    }
}

#[test]
fn who_collects_permits_can_go_at_any_moment() {
    for (report, steps) in (0..160).map(|number| (number % 2 == 0, number / 2)) {
        let mut world = World::with_clients(3, 2);
        ask(&mut world, 0, 1, 2, Duration::ZERO);
        world.client(0).granted(1);
        for section in 1..3 {
            ask(&mut world, 1, section, 3, LEASE);
        }
        for step in 0..steps {
            if step == 40 {
                world.client(0).end(1);
            }
            world.step();
        }
        let leaves = 1 + steps as u64 % 2;
        match report {
            false => world.client(1).end(leaves),
            true => world.client(1).release(leaves),
        }
        world.client(0).end(1);
        world.client(1).granted(3 - leaves);
        world.client(1).end(3 - leaves);
        world.run_for(100 * HOP);
        assert!(are_all_free(&world), "after {steps} steps");
        world.run_for(LEASE);
        assert!(world.client(0).is_idle() && world.client(1).is_idle());
    }
}

/// A call that has one permit needs the other, and so do callers of its own process: another process must not keep it
/// as its share.
#[test]
fn a_process_that_collects_permits_beside_its_other_callers_is_served() {
    for permits in [2, 3] {
        let mut world = World::with_clients(3, 2);
        let mut crowd = Crowd::default();
        let params = LockParams {
            permits,
            ..waiting(LONG)
        };
        let wish = Wish::new(&["k"], params, 10 * HOP).again(Duration::ZERO);
        for caller in 0..4 {
            crowd.ask(&mut world, 0, caller, wish.clone());
            crowd.ask(&mut world, 1, caller, wish.clone());
        }
        crowd.ask(&mut world, 1, 9, wish.of(permits));
        crowd.run_for(&mut world, Duration::from_secs(4));
        let served = crowd.served();
        let all = |served: &&Served| served.weight == permits;
        let heavy = served.iter().filter(all).count();
        assert!(heavy >= 10, "{heavy} of {}", served.len());
        let counts = counts(&served, 2);
        assert!(3 * counts[1] > counts[0], "{counts:?}");
    }
}
