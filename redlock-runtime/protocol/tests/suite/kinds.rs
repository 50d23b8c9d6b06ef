//! Sections that have one of their keys alone, share another one, and have a permit of a third.

use redlock_protocol::*;

use crate::world::*;

/// Asks for all of them, and is granted them.
fn lock_all(world: &mut World, client: usize, section: u64, keys: &[&str]) -> Token {
    world.client(client).ask_all(section, keys, params());
    world.client(client).granted(section).1
}

/// The key that it could not have.
fn missed(world: &mut World, client: usize, section: u64, keys: &[&str]) -> Option<String> {
    world.client(client).ask_all(section, keys, params());
    let refusal = world.client(client).refusal(section);
    let Cause::Contended { retry_after } = refusal.cause else {
        panic!("{refusal:?}")
    };
    assert!(retry_after.is_some());
    refusal.key.as_deref().map(str::to_owned)
}

#[test]
fn each_key_excludes_those_that_its_kind_excludes() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 3);
        let asked = world.now;
        lock_all(&mut world, 0, 1, &["b", "shared a", POOL]);
        assert_eq!(world.now.since(asked), ROUND_TRIP);
        let of_b = missed(&mut world, 1, 1, &["shared b", "c"]);
        assert_eq!(of_b.as_deref(), Some("b"));
        let of_a = missed(&mut world, 1, 2, &["a", "c"]);
        assert_eq!(of_a.as_deref(), Some("a"));
        // It shares `a`, and there are two permits.
        lock_all(&mut world, 1, 3, &["shared a", "c", POOL]);
        let permit = missed(&mut world, 2, 1, &["shared a", "d", POOL]);
        assert_eq!(permit.as_deref(), Some(POOL));
        // In its own process, too.
        let permit = missed(&mut world, 0, 2, &["shared a", "d", POOL]);
        assert_eq!(permit.as_deref(), Some(POOL));
        world.run_for(5 * HOP);
        assert!(world.carriers("d").is_empty());
        world.assert_release(1, Release::Released);
        world.run_for(5 * HOP);
        assert_eq!(missed(&mut world, 2, 2, &["a", "d"]).as_deref(), Some("a"));
        lock_all(&mut world, 2, 3, &["shared a", "b", POOL]);
        world.client(1).end(3);
        world.client(2).end(3);
        world.run_for(5 * HOP);
        lock_all(&mut world, 0, 3, &["a", "b", "c", POOL]);
        world.end(3);
        world.run_for(LEASE);
        assert!((0..3).all(|client| world.client(client).is_idle()));
    }
}

/// Of every key, also while others share it, and wait for it.
#[test]
fn the_token_is_between_those_of_earlier_and_of_later_holders() {
    for (counters, waits) in [[5, 50, 500], [500, 50, 5], [50, 500, 5]]
        .into_iter()
        .flat_map(|counters| [(counters, false), (counters, true)])
    {
        let mut world = World::with_clients(3, 3);
        for node in &mut world.nodes {
            for (key, counter) in ["a", "b", POOL].iter().zip(counters) {
                node.set_counter(key, counter);
            }
        }
        let reading = shared(renewing());
        world.client(1).lock(1, "a", reading);
        if waits {
            world.client(0).lock(9, "a", reading);
            world.client(2).ask(1, "a", waiting(20 * LEASE));
            world.run_for(ROUND_TRIP);
        }
        let asked = world.now;
        let keys = ["shared a", "b", POOL];
        world.client(0).ask_all(2, &keys, waiting(LEASE));
        let (_, token) = world.client(0).granted(2);
        assert!(token.0 > *counters.iter().max().unwrap());
        assert!(world.now.since(asked) <= 4 * ROUND_TRIP);
        for (client, section) in [(1, 1), (0, 2), (0, 9)] {
            world.client(client).end(section);
        }
        if waits {
            assert!(world.client(2).granted(1).1 > token);
            world.client(2).end(1);
        }
        for (section, key) in (10..).zip(["a", "b", POOL, POOL]) {
            let (_, next) = world.client(2).lock(section, key, waiting(LEASE));
            assert!(next > token, "{next} of {key} after {token}");
        }
    }
}

/// Those that share a key of this process go on with tokens above it, too.
#[test]
fn a_turn_goes_on_above_the_token() {
    let mut world = World::new(3);
    let reading = shared(renewing());
    world.client(0).lock(1, "a", reading);
    for node in &mut world.nodes {
        node.set_counter("b", 50);
    }
    let token = lock_all(&mut world, 0, 2, &["shared a", "b"]);
    let next = world.client(0).lock(3, "a", reading).1;
    assert!(next > token, "{next} after {token}");
    world.client(0).extend(2);
    world.client(0).extended(2);
}

#[test]
fn who_waits_shares_what_comes_before() {
    let mut world = World::with_clients(3, 2);
    world.client(1).lock(1, "b", renewing());
    let keys = ["shared a", "b", POOL];
    world.client(0).ask_all(2, &keys, waiting(20 * LEASE));
    world.run_for(2 * LEASE);
    lock_all(&mut world, 1, 3, &["shared a", POOL]);
    assert_eq!(world.client(0).answered(2), None);
    assert_eq!(missed(&mut world, 1, 4, &["a", "c"]).as_deref(), Some("a"));
    world.client(1).end(1);
    let (deadline, _) = world.client(0).granted(2);
    let rest = deadline.since(world.now);
    assert!(rest > LEASE / 2, "{rest:?}");
}

/// A key and its permits are two locks, and of one lock that is named twice the exclusive kind counts.
#[test]
fn what_is_named_twice_is_had_once() {
    let mut world = World::with_clients(3, 2);
    lock_all(&mut world, 0, 1, &["shared a", POOL, "a", POOL]);
    let of_a = missed(&mut world, 1, 1, &["shared a", "b"]);
    assert_eq!(of_a.as_deref(), Some("a"));
    lock_all(&mut world, 1, 2, &["b", POOL]);
}
